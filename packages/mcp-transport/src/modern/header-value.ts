// Visible ASCII and inner spaces; anything else would change on the way.
const PLAIN = /^[\x21-\x7E](?:[\x20-\x7E]*[\x21-\x7E])?$/
const SENTINEL = /^=\?base64\?.*\?=$/i

/**
 * A value as it may stand in `Mcp-Name` and `Mcp-Param-*` (2026-07-28, streamable-http, custom headers):
 * base64 of its UTF-8 where it is empty, is not plain ASCII, or looks encoded already.
 */
export function headerValueFrom(text: string): string {
  if (PLAIN.test(text) && !SENTINEL.test(text)) return text
  return `=?base64?${Buffer.from(text, 'utf8').toString('base64')}?=`
}

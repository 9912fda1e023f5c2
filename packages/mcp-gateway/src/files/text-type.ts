const TEXT_TYPES: ReadonlySet<string> = new Set([
  'image/svg+xml',
  ...[
    'json',
    'ld+json',
    'x-ndjson',
    'jsonl',
    'json5',
    'xml',
    'xml-dtd',
    'yaml',
    'x-yaml',
    'csv',
    'javascript',
    'x-javascript',
    'ecmascript',
    'typescript',
    'x-typescript',
    'node',
    'sql',
    'x-sql',
    'graphql',
    'toml',
    'x-toml',
    'x-sh',
    'x-shellscript',
    'x-csh',
    'x-python',
    'x-httpd-php',
    'x-perl',
    'x-ruby',
    'rtf',
    'x-tex',
    'x-latex',
    'x-www-form-urlencoded',
  ].map((name) => `application/${name}`),
])

/** Whether a type says that it is text: `text/*`, SVG, and the text formats that go by `application/*`. */
export function isTextType(mimeType: string): boolean {
  const type = bareType(mimeType)
  return type.startsWith('text/') || TEXT_TYPES.has(type) || /\+(?:json|xml|yaml)$/.test(type)
}

/** In lower case, without its parameters. */
export function bareType(mimeType: string): string {
  return (mimeType.split(';', 1)[0] ?? '').trim().toLowerCase()
}

/** Bytes that tell whether a file without a type is text. */
export const TEXT_TEST_BYTES = 1024

/** Its first 1,024 bytes are UTF-8 without NUL. A character that is cut off at the end is no fault. */
export function looksLikeText(head: Uint8Array): boolean {
  const start = head.subarray(0, TEXT_TEST_BYTES)
  if (start.includes(0)) return false
  try {
    new TextDecoder('utf-8', { fatal: true }).decode(start, { stream: true })
    return true
  } catch {
    return false
  }
}

/** All of it as text; `undefined` if it is no UTF-8. */
export function textFrom(bytes: Uint8Array): string | undefined {
  try {
    return new TextDecoder('utf-8', { fatal: true }).decode(bytes)
  } catch {
    return undefined
  }
}

/** The first characters of a text of which only the beginning is there. Never half a character. */
export function previewFrom(head: Uint8Array, maxChars: number): string | undefined {
  try {
    const text = new TextDecoder('utf-8', { fatal: true }).decode(head, { stream: true })
    const cut = text.slice(0, maxChars)
    return /[\uD800-\uDBFF]$/.test(cut) ? cut.slice(0, -1) : cut
  } catch {
    return undefined
  }
}

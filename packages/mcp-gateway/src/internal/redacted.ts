/** What of an id may be shown: the first 4 characters, and how long it is. */
export function shortened(id: string): string {
  return `${id.slice(0, 4)}…(${id.length})`
}

/**
 * Names that hold what nobody may read, in headers, query strings, JSON and messages. What may stand around a name
 * begins where a word begins: an expression that could begin anywhere in it takes the square of its length.
 */
const SECRET_NAME =
  '\\b(?:authorization|cookie|set-cookie|code|code_verifier|state|sig|signature|mcp-session-id)|(?<![\\w-])[\\w-]*(?:token|secret|password|passwd|api[-_]?key)'

const RULES: readonly (readonly [RegExp, string])[] = [
  [/\b(bearer|basic)\s+[^\s"',;]+/gi, '$1 [redacted]'],
  // A JWT, wherever it stands.
  [/(?<![\w-])(?=[\w-]*eyJ)[\w-]+\.[\w-]+\.[\w-]*/g, '[redacted]'],
  [/(?<![a-z0-9+.-])([a-z0-9+.-]+:\/\/)[^\s/@"']+@/gi, '$1[redacted]@'],
  [
    new RegExp(`(["']?(?:${SECRET_NAME})["']?\\s*[:=]\\s*)("[^"]*"|'[^']*'|[^\\s&,;}"']+)`, 'gi'),
    '$1[redacted]',
  ],
]

/** Fits every address, with a query or without: what begins to fit and then does not is read again from its middle. */
const ADDRESS = /(\bhttps?:\/\/[^\s?"'#]+)(\?[^\s"']*)?/gi

/**
 * A text for a log, without what could be used: credentials, tokens, codes, query strings. The last line of defence:
 * texts are written without them in the first place.
 */
export function redacted(text: string): string {
  const left = RULES.reduce((each, [pattern, shown]) => each.replaceAll(pattern, shown), text)
  return left.replaceAll(ADDRESS, (_, address: string, query?: string) =>
    query === undefined ? address : `${address}?[redacted]`,
  )
}

/** Without what a person would not see, but a model reads: control and tag characters, directions of writing. */
export function legible(text: string): string {
  return text.replaceAll(/[^\P{C}\n\t]/gu, (char) => (/[\u200C\u200D]/.test(char) ? char : ''))
}

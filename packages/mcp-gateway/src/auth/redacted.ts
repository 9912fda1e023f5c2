/** What of an id may be shown: the first 4 characters, and how long it is. */
export function shortened(id: string): string {
  return `${id.slice(0, 4)}…(${id.length})`
}

/** Names that hold what nobody may read, in headers, query strings, JSON and messages. */
const SECRET_NAME =
  'authorization|cookie|set-cookie|[a-z_-]*(?:token|secret|password|passwd|api[-_]?key)|code|code_verifier|state|sig|signature|mcp-session-id'

const RULES: readonly (readonly [RegExp, string])[] = [
  [/\b(bearer|basic)\s+[^\s"',;]+/gi, '$1 [redacted]'],
  // A JWT, wherever it stands.
  [/\beyJ[\w-]+\.[\w-]+\.[\w-]*/g, '[redacted]'],
  [/(\b[a-z][a-z0-9+.-]*:\/\/)[^\s/@"']+@/gi, '$1[redacted]@'],
  [
    new RegExp(
      `(["']?\\b(?:${SECRET_NAME})["']?\\s*[:=]\\s*)("[^"]*"|'[^']*'|[^\\s&,;}"']+)`,
      'gi',
    ),
    '$1[redacted]',
  ],
  [/(\bhttps?:\/\/[^\s?"'#]+)[?][^\s"']*/gi, '$1?[redacted]'],
]

/**
 * A text for a log, without what could be used: credentials, tokens, codes, query strings. The last line of defence:
 * texts are written without them in the first place.
 */
export function redacted(text: string): string {
  return RULES.reduce((left, [pattern, replacement]) => left.replaceAll(pattern, replacement), text)
}

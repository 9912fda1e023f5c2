import { splitErrorLink, withoutErrorLink } from '@x/internal'

/**
 * Names of secrets in headers, query strings, JSON and messages. A match begins only where a word begins: otherwise the
 * time would grow with the square of the length of the text.
 */
const SECRET_NAME =
  '\\b(?:authorization|cookie|set-cookie|code|code_verifier|state|sig|signature|mcp-session-id)|(?<![\\w-])[\\w-]*(?:token|secret|password|passwd|api[-_]?key)'

const RULES: readonly (readonly [RegExp, string])[] = [
  [/\b(bearer|basic)\s+[^\s"',;]+/gi, '$1 [redacted]'],
  // JWTs
  [/(?<![\w-])(?=[\w-]*eyJ)[\w-]+\.[\w-]+\.[\w-]*/g, '[redacted]'],
  // To the last "@": people do not always encode one in a password.
  [/(?<![a-z0-9+.-])([a-z0-9+.-]+:\/\/)[^\s/"']+@/gi, '$1[redacted]@'],
  [
    new RegExp(`(["']?(?:${SECRET_NAME})["']?\\s*[:=]\\s*)("[^"]*"|'[^']*'|[^\\s&,;}"']+)`, 'gi'),
    '$1[redacted]',
  ],
]

/** Matches URLs with and without a query: a match that failed late would be tried again from each of its characters. */
const ADDRESS = /(\bhttps?:\/\/[^\s?"'#]+)(\?[^\s"']*)?/gi

/**
 * Returns a text for a log without credentials, tokens, codes and query strings. This is the last line of defence: texts
 * should not have them in the first place.
 */
export function redacted(text: string): string {
  const left = RULES.reduce((each, [pattern, shown]) => each.replaceAll(pattern, shown), text)
  return left.replaceAll(ADDRESS, (_, address: string, query?: string) =>
    query === undefined ? address : `${address}?[redacted]`,
  )
}

const MAX_CAUSES = 4
const MAX_CHARS = 2000

/** Returns names and messages of an error and its causes, without credentials. */
export function errorText(error: unknown): string {
  const texts: string[] = []
  for (let at: unknown = error; at !== undefined && texts.length < MAX_CAUSES;) {
    texts.push(withoutErrorLink(textOf(at)))
    at = at instanceof Error ? at.cause : undefined
  }
  const [, link] = splitErrorLink(textOf(error))
  return `${redacted(texts.join(' ← ')).slice(0, MAX_CHARS)}${link}`
}

const MAX_STACK_CHARS = 8000

/** Returns the stack of an error, without credentials. `undefined`: it has none. */
export function stackText(error: unknown): string | undefined {
  const stack = error instanceof Error ? error.stack : undefined
  return stack === undefined ? undefined : redacted(stack.slice(0, MAX_STACK_CHARS))
}

function textOf(error: unknown): string {
  if (error instanceof Error) return `${error.name}: ${error.message}`
  return typeof error === 'string' ? error : 'a value that is not an error was thrown'
}

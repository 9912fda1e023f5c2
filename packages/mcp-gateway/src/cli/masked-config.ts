import { isRecord } from '@x/internal'
import { redacted } from '../internal/redacted.ts'
import type { ConfigPath } from './config-path.ts'

const MASK = '[masked]'

/** A copy to be shown: keys, tokens and headers masked, and of URLs what may be a credential. */
export function maskedConfig(value: unknown, path: ConfigPath = []): unknown {
  if (value === null || value === undefined) return value
  if (Array.isArray(value)) return value.map((each, index) => maskedConfig(each, [...path, index]))
  if (isRecord(value)) {
    return Object.fromEntries(
      Object.entries(value).map(([key, each]) => [key, maskedConfig(each, [...path, key])]),
    )
  }
  if (isSecret(path)) return MASK
  return typeof value === 'string' && value.includes('://') ? redactedUrl(value) : value
}

/** A password may hold what ends a host, such as `/` and `@`: all up to the last `@` is taken for a credential. */
export function redactedUrl(text: string): string {
  const url = /^https?:/i.test(text) && URL.canParse(text) ? new URL(text) : undefined
  if (url?.username === '' && url.password === '') return redacted(text)
  return redacted(text.replace(/^([a-z][a-z0-9+.-]*:\/\/).*@/is, '$1[redacted]@'))
}

/**
 * Whether a value there is nobody's business. Also in place of a section that should be there: whoever writes
 * `tokens: { ci: <the token> }` is told of the mistake, and the log is not told of the token.
 */
export function isSecret(path: ConfigPath): boolean {
  const [first, second, third, fourth] = path
  if (first === 'secrets') return true
  if (first === 'auth' && second === 'tokens') return fourth !== 'scopes' && fourth !== 'expiresAt'
  if (first === 'agents' && second === 'sources' && typeof third === 'number') {
    // Headers of a server, and of each card.
    return fourth === 'apiKey' || path.slice(3).includes('headers')
  }
  return false
}

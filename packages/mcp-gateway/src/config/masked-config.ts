import { isRecord } from '../is-record.ts'
import { redacted } from '../auth/redacted.ts'
import type { ConfigPath } from './config-path.ts'

const MASK = '[masked]'

/** A copy to be shown: keys, tokens and headers masked, and of URLs what may be a credential. */
export function maskedConfig(value: unknown, path: ConfigPath = []): unknown {
  if (value === null || value === undefined) return value
  if (isSecret(path)) return MASK
  if (Array.isArray(value)) return value.map((each, index) => maskedConfig(each, [...path, index]))
  if (isRecord(value)) {
    return Object.fromEntries(
      Object.entries(value).map(([key, each]) => [key, maskedConfig(each, [...path, key])]),
    )
  }
  return typeof value === 'string' && value.includes('://') ? redacted(value) : value
}

/** Whether what stands there is nobody's business. */
export function isSecret(path: ConfigPath): boolean {
  const [first, second, third, fourth] = path
  if (first === 'secrets') return path.length > 1
  if (first === 'auth' && second === 'tokens') return fourth === 'token' || fourth === 'sha256'
  if (first === 'agents' && second === 'sources' && typeof third === 'number') {
    if (fourth === 'cards') return path[5] === 'headers' && path.length > 6
    // Headers of a server, and of each card.
    return fourth === 'apiKey' || path.slice(3, -1).includes('headers')
  }
  return false
}

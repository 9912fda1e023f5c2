import { isRecord } from '@x/internal'
import { McpToolError } from './errors.ts'

export const HIDDEN = '<hidden>'

/** Shorter texts occur by chance, and hiding them would garble other texts. */
const MIN_LENGTH = 4

/** Returns the sensitive texts of a value, longest first, so that no part of a text remains. */
export function secretsIn(value: unknown): readonly string[] {
  return [...new Set(textsIn(value))]
    .filter((text) => text.length >= MIN_LENGTH)
    .toSorted((a, b) => b.length - a.length)
}

function textsIn(value: unknown): string[] {
  if (typeof value === 'string') return [value]
  if (typeof value === 'number' || typeof value === 'bigint') return [String(value)]
  return typeof value === 'object' && value !== null ? Object.values(value).flatMap(textsIn) : []
}

/** Returns a copy of a value with these texts replaced by `<hidden>`. */
export function withoutSecrets<T>(value: T, secrets: readonly string[]): T
export function withoutSecrets(value: unknown, secrets: readonly string[]): unknown {
  if (secrets.length === 0) return value
  if (typeof value === 'string') {
    return secrets.reduce((text, secret) => text.replaceAll(secret, HIDDEN), value)
  }
  if (Array.isArray(value)) return value.map((item: unknown) => withoutSecrets(item, secrets))
  if (!isRecord(value)) return value
  const prototype: unknown = Object.getPrototypeOf(value)
  if (prototype !== Object.prototype && prototype !== null) return value
  return Object.fromEntries(
    Object.entries(value).map(([key, inner]) => [key, withoutSecrets(inner, secrets)]),
  )
}

/** Returns the error without these texts. A cause that contains one is left out. */
export function withoutSecretsInError(
  failure: McpToolError,
  secrets: readonly string[],
): McpToolError {
  if (secrets.length === 0 || !containsSecret(failure, secrets)) return failure
  const { code, message, category, outcome, artifact, cause } = failure
  return new McpToolError(code, withoutSecrets(message, secrets), {
    server: { slug: failure.serverSlug },
    toolName: failure.toolName,
    category,
    outcome,
    artifact: withoutSecrets(artifact, secrets),
    ...(!containsSecret(cause, secrets) && { cause }),
  })
}

/** Returns true if an error or one of its causes contains one of these texts. */
function containsSecret(error: unknown, secrets: readonly string[]): boolean {
  for (let cause = error, depth = 0; cause instanceof Error && depth < 10; depth++) {
    const { message, stack = '' } = cause
    if (secrets.some((secret) => message.includes(secret) || stack.includes(secret))) return true
    cause = cause.cause
  }
  return false
}

import { isRecord } from '@x/internal'
import type { JsonSchema } from '../../agents/agent.ts'

/** Deeper than any form, and than most schemas. */
const MAX_DEPTH = 16

/**
 * Whether a schema says that something in an answer is a secret: a format of `password`, or what is written and never
 * read. Forms must not ask for such (specification 2026-07-28, "Elicitation"): answers pass through the client.
 */
export function asksForSecret(schema: JsonSchema | undefined): boolean {
  return schema !== undefined && holdsSecret(schema, MAX_DEPTH)
}

function holdsSecret(value: unknown, depth: number): boolean {
  if (depth === 0) return false
  if (Array.isArray(value)) return value.some((one) => holdsSecret(one, depth - 1))
  if (!isRecord(value)) return false
  if (value['format'] === 'password' || value['writeOnly'] === true) return true
  return Object.values(value).some((one) => holdsSecret(one, depth - 1))
}

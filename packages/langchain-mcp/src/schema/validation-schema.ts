import { isRecord } from '@x/internal'
import type { JsonSchema } from '../catalogue/tool-source.ts'
import { mapSubschemas } from './subschemas.ts'

/**
 * A copy of a schema that a validator can read, and that allows what its author meant: `nullable` of
 * OpenAPI is read as the type `null`, the boolean limits of draft-04 as numbers, and a pattern that is no
 * JavaScript expression is left out at its place, so that everything else is still checked.
 */
export function validationSchemaFrom(schema: JsonSchema): Record<string, unknown> {
  return withReadablePatterns(
    mapSubschemas(withCurrentLimits(withNullType(schema)), (inner) =>
      isRecord(inner) ? validationSchemaFrom(inner) : inner,
    ),
  )
}

/** `nullable: true` beside a type, as OpenAPI 3.0 has it, in the words of JSON schema. */
export function withNullType(schema: JsonSchema): JsonSchema {
  const { nullable, ...rest } = schema
  if (nullable !== true) return nullable === undefined ? schema : rest
  const { type, enum: values } = rest
  const withNull =
    Array.isArray(values) && !values.includes(null) ? { enum: [...values, null] } : {}
  if (typeof type === 'string') return { ...rest, type: [type, 'null'], ...withNull }
  if (Array.isArray(type)) return { ...rest, type: [...new Set([...type, 'null'])], ...withNull }
  if (rest['$ref'] === undefined && rest['allOf'] === undefined) return rest
  const { title, description, default: initial, ...alternative } = rest
  const words = Object.entries({ title, description, default: initial })
  return {
    anyOf: [alternative, { type: 'null' }],
    ...Object.fromEntries(words.filter(([, value]) => value !== undefined)),
  }
}

/** `exclusiveMinimum: true` beside a minimum, as draft-04 has it. */
export function withCurrentLimits(schema: JsonSchema): JsonSchema {
  return withCurrentLimit(withCurrentLimit(schema, MINIMUM), MAXIMUM)
}

const MINIMUM = { inclusive: 'minimum', exclusive: 'exclusiveMinimum' } as const
const MAXIMUM = { inclusive: 'maximum', exclusive: 'exclusiveMaximum' } as const

function withCurrentLimit(
  schema: JsonSchema,
  { inclusive, exclusive }: typeof MINIMUM | typeof MAXIMUM,
): JsonSchema {
  const { [inclusive]: limit, [exclusive]: isExclusive, ...rest } = schema
  if (typeof isExclusive !== 'boolean') return schema
  if (limit === undefined) return rest
  return { ...rest, [isExclusive ? exclusive : inclusive]: limit }
}

function withReadablePatterns(schema: Record<string, unknown>): Record<string, unknown> {
  const { pattern, ...withoutPattern } = schema
  const own = pattern === undefined || isPattern(pattern) ? schema : withoutPattern
  const { patternProperties: byPattern, ...others } = own
  if (!isRecord(byPattern) || Object.keys(byPattern).every(isPattern)) return own
  // What the unreadable pattern would have covered must not count as additional.
  const { additionalProperties: _, unevaluatedProperties: __, ...rest } = others
  const readable = Object.entries(byPattern).filter(([key]) => isPattern(key))
  return { ...rest, patternProperties: Object.fromEntries(readable) }
}

/** Whether the validator can read a pattern: it reads all of them as Unicode. */
export function isPattern(pattern: unknown): boolean {
  if (typeof pattern !== 'string') return false
  try {
    return new RegExp(pattern, 'u') instanceof RegExp
  } catch {
    return false
  }
}

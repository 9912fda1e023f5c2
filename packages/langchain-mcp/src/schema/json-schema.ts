import { isRecord, SchemaDocument } from '@x/internal'
import type { JsonSchema } from '../base/tool-source.ts'

/** Limits of a schema. A deeper or larger one takes too long to check. */
const LIMITS = { depth: 128, nodes: 10_000 }

/** A schema is read when its tool is made, and used again when a model sees it and when the tool is called. */
const documents = new WeakMap<JsonSchema, SchemaDocument>()

/** Returns the references of a schema, and why it cannot be evaluated. */
export function documentOf(schema: JsonSchema): SchemaDocument {
  const known = documents.get(schema)
  if (known !== undefined) return known
  const document = new SchemaDocument(schema, LIMITS)
  documents.set(schema, document)
  return document
}

/**
 * Returns why a schema cannot describe the arguments of a tool, or undefined if it can. One such tool would
 * spoil the whole request, because providers refuse all tools together. Nothing is fetched.
 */
export function schemaDefectOf(schema: unknown): string | undefined {
  if (!isRecord(schema)) return 'it is not an object'
  const { type = 'object' } = schema
  if ([type].flat().includes('object')) return documentOf(schema).defect
  return `arguments are an object, but the schema is of type ${JSON.stringify(type)}`
}

/**
 * Returns a schema without keywords that newer drafts write differently: `nullable` of OpenAPI 3.0 becomes
 * the type `null`, and limits of draft-04 that are flags become numbers. Schemas inside it stay as they are.
 */
export function currentSchema(schema: JsonSchema): JsonSchema {
  return withCurrentLimit(withCurrentLimit(withNullType(schema), MINIMUM), MAXIMUM)
}

function withNullType({ nullable, ...schema }: JsonSchema): JsonSchema {
  if (nullable !== true) return schema
  const { type, enum: values, $ref, allOf } = schema
  if (type !== undefined) {
    const withNull = Array.isArray(values) ? { enum: [...new Set([...values, null])] } : {}
    return { ...schema, type: [...new Set([type, 'null'].flat())], ...withNull }
  }
  if ($ref === undefined && allOf === undefined) return schema
  const { title, description, default: initial, ...alternative } = schema
  return {
    anyOf: [alternative, { type: 'null' }],
    ...definedFields({ title, description, default: initial }),
  }
}

const MINIMUM = ['minimum', 'exclusiveMinimum'] as const
const MAXIMUM = ['maximum', 'exclusiveMaximum'] as const

function withCurrentLimit(
  schema: JsonSchema,
  [inclusive, exclusive]: typeof MINIMUM | typeof MAXIMUM,
): JsonSchema {
  const { [inclusive]: limit, [exclusive]: isExclusive, ...rest } = schema
  if (typeof isExclusive !== 'boolean') return schema
  return { ...rest, ...definedFields({ [isExclusive ? exclusive : inclusive]: limit }) }
}

/** Returns the fields that have a value. */
export function definedFields(fields: JsonSchema): Record<string, unknown> {
  return Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== undefined))
}

/** Returns a copy without these keywords. */
export function without(schema: JsonSchema, keywords: ReadonlySet<string>): JsonSchema {
  return Object.fromEntries(Object.entries(schema).filter(([keyword]) => !keywords.has(keyword)))
}

/** Returns true for a pattern that the validator can read: it compiles all patterns as Unicode. */
export function isPattern(pattern: unknown): pattern is string {
  if (typeof pattern !== 'string') return false
  try {
    return new RegExp(pattern, 'u') instanceof RegExp
  } catch {
    return false
  }
}

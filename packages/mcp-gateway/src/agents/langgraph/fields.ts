import { isRecord } from '@x/internal'
import type { JsonSchema } from '../agent.ts'

/** Fields of a state or a context, by name. */
export type Fields = Readonly<Record<string, unknown>>

type Converter = (field: unknown) => unknown

/** Values that JSON does not have: how a schema shows that it takes them, and how they are made of JSON. */
const REVIVED: readonly {
  /** A value of the kind. A field of another kind refuses it, or takes `plain`, too. */
  readonly value: () => unknown
  readonly plain: unknown
  readonly schema: JsonSchema
  readonly revive: (json: unknown) => unknown
}[] = [
  {
    value: () => new Date(),
    plain: '2026-01-01T00:00:00.000Z',
    schema: { type: 'string', format: 'date-time' },
    revive: (json) => (typeof json === 'string' ? new Date(json) : json),
  },
  {
    value: () => 1n,
    plain: 1,
    schema: { type: 'integer' },
    revive: (json) => (/^-?\d+$/.test(String(json)) ? BigInt(String(json)) : json),
  },
  {
    value: () => new Map(),
    plain: {},
    schema: { type: 'object' },
    revive: (json) => (isRecord(json) ? new Map(Object.entries(json)) : json),
  },
  {
    value: () => new Set(),
    plain: [],
    schema: { type: 'array', items: {} },
    revive: (json) => (Array.isArray(json) ? new Set(json) : json),
  },
]

/** Returns the fields of a `StateSchema` or of an object schema of zod. */
export function fieldsOf(schema: unknown): Fields | undefined {
  const { fields, shape } = isRecord(schema) ? schema : {}
  if (isRecord(fields)) return fields
  return isRecord(shape) ? shape : undefined
}

/**
 * Returns why a field refuses a value, by its Standard Schema interface. `undefined` if it accepts the value, has no
 * schema, or decides later.
 */
export function refusalOf(field: unknown, value: unknown): readonly unknown[] | undefined {
  const schema = valueSchemaOf(field)
  const standard = isRecord(schema) ? schema['~standard'] : undefined
  if (!isRecord(standard) || typeof standard['validate'] !== 'function') return undefined
  try {
    const result: unknown = standard['validate'](value)
    // zod also returns a promise if a check throws. Without a handler its rejection would end the process.
    if (result instanceof Promise) result.catch(() => undefined)
    const issues = isRecord(result) ? result['issues'] : undefined
    return Array.isArray(issues) ? issues : undefined
  } catch (error) {
    return [error] // a check or a transformation of the graph does not expect such a value
  }
}

/** Returns whether an agent takes an argument for this field, once it has the type that JSON does not have. */
export function takes(field: unknown, json: unknown): boolean {
  return hasSchema(field) && refusalOf(field, revived(field, json)) === undefined
}

/** Makes the value of a field that JSON does not have: a date, a big integer, a map or a set. Other values stay. */
export function revived(field: unknown, json: unknown): unknown {
  if (refusalOf(field, json) === undefined) return json
  for (const { revive } of REVIVED) {
    const value = revive(json)
    if (value !== json && refusalOf(field, value) === undefined) return value
  }
  return json
}

/**
 * Returns the JSON schemas of fields. A field that has none gets a schema without a type, so that it costs nothing else.
 *
 * @param convert makes the JSON schema of one field, or throws
 */
export function schemasOfFields(
  fields: Fields,
  convert: Converter,
): Readonly<Record<string, JsonSchema>> {
  const schemas = Object.entries(fields).flatMap(([name, field]): [string, JsonSchema][] =>
    hasSchema(field) ? [[name, schemaOfField(field, convert)]] : [],
  )
  return Object.fromEntries(schemas)
}

function schemaOfField(field: unknown, convert: Converter): JsonSchema {
  const revivedKind = REVIVED.find(({ plain, value }) => {
    return refusalOf(field, plain) !== undefined && refusalOf(field, value()) === undefined
  })
  if (revivedKind !== undefined) return { ...revivedKind.schema, ...describedBy(field) }
  try {
    const schema = convert(valueSchemaOf(field))
    if (isRecord(schema)) return schema
  } catch {
    // A part of it has no JSON schema.
  }
  return describedBy(field)
}

function describedBy(field: unknown): JsonSchema {
  const schema = valueSchemaOf(field)
  const description = isRecord(schema) ? schema['description'] : undefined
  return typeof description === 'string' ? { description } : {}
}

function hasSchema(field: unknown): boolean {
  const schema = valueSchemaOf(field)
  return isRecord(schema) && isRecord(schema['~standard'])
}

/** Returns the schema of the values that a caller gives. A field with a reducer may take others than it keeps. */
function valueSchemaOf(field: unknown): unknown {
  if (!isRecord(field) || '~standard' in field) return field
  return field['inputSchema'] ?? field['schema'] ?? field['valueSchema'] ?? field
}

import { Validator, type JSONSchema } from '@langchain/core/utils/json_schema'
import { isRecord } from '@x/internal'
import type { JsonSchema } from '../base/tool-source.ts'
import { mapSubschemas } from './json-schema.ts'
import { structureDefectOf } from './schema-defect.ts'

/** How many complaints are told: a model reads the first ones, a wrong union has hundreds. */
const MAX_COMPLAINTS = 5

const NOTHING: readonly never[] = []

/** What is wrong with a value, and where. */
export interface Complaint {
  /** A JSON pointer into the value, as a fragment: `#/items/0`. */
  readonly place: string
  readonly text: string
}

/**
 * Checks values against one JSON schema, whole: references, unions, conditions, recursion. Prepared once,
 * at the first check. The validator is the interpreter that core has too: one that compiles would be
 * faster for long lists of values, but runs code that it makes from what a server sent.
 */
export class SchemaCheck {
  readonly #schema: JsonSchema
  #validator: Validator | 'unreadable' | undefined

  constructor(schema: JsonSchema) {
    this.#schema = schema
  }

  /**
   * What is wrong with a value, one line each; empty if it fits. A schema that cannot be evaluated here
   * (a reference to elsewhere, endless recursion) gives no complaint: the server has the last word on its
   * own arguments.
   */
  complaints(value: unknown): readonly string[] {
    return linesOf(this.located(value))
  }

  /** The same with the places that the complaints are about. */
  located(value: unknown): readonly Complaint[] {
    try {
      this.#validator ??= validatorFor(this.#schema)
      if (this.#validator === 'unreadable') return NOTHING
      const { valid, errors } = this.#validator.validate(value)
      return valid ? NOTHING : complaintsFrom(errors)
    } catch {
      this.#validator = 'unreadable'
      return NOTHING
    }
  }
}

/** At most a handful: a model reads the first ones. */
export function linesOf(complaints: readonly Complaint[]): readonly string[] {
  if (complaints.length === 0) return NOTHING
  const unique = [...new Set(complaints.map(({ place, text }) => `${place}: ${text}`))]
  const more = unique.length - MAX_COMPLAINTS
  return more > 0 ? [...unique.slice(0, MAX_COMPLAINTS), `and ${more} more`] : unique
}

function validatorFor(schema: JsonSchema): Validator | 'unreadable' {
  // Asked first: references that multiply would keep the validator busy for years.
  if (structureDefectOf(schema) !== undefined) return 'unreadable'
  // The validator writes into the schema that it is given, and a listed schema may be frozen or shared.
  const own: JSONSchema & object = structuredClone(validationSchemaFrom(schema))
  const dialect = schema['$schema']
  const isOld = typeof dialect === 'string' && /draft-0[4-7]/.test(dialect)
  // 2020-12 where nothing is said (specification 2025-11-25, "JSON Schema Usage"); all complaints, not just the first.
  return new Validator(own, isOld ? '7' : '2020-12', false)
}

interface Finding {
  readonly instanceLocation: string
  readonly keyword: string
  readonly error: string
}

/** "Property a does not match" says nothing beside the complaint about `a` itself. */
const WRAPPERS: ReadonlySet<string> = new Set([
  'properties',
  'items',
  'prefixItems',
  '$ref',
  'allOf',
])

function complaintsFrom(findings: readonly Finding[]): Complaint[] {
  const telling = findings.filter(({ keyword }) => !WRAPPERS.has(keyword))
  return (telling.length > 0 ? telling : findings).map(({ instanceLocation, error }) => ({
    place: instanceLocation,
    text: error,
  }))
}

/**
 * A copy of a schema that a validator can read, and that allows what its author meant: `nullable` of
 * OpenAPI is read as the type `null`, the boolean limits of draft-04 as numbers, and a pattern that is no
 * JavaScript expression is left out at its place, so that everything else is still checked.
 */
function validationSchemaFrom(schema: JsonSchema): Record<string, unknown> {
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

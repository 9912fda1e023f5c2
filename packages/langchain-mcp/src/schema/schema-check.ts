import { Validator, type JSONSchema } from '@langchain/core/utils/json_schema'
import { isRecord } from '@x/internal'
import type { JsonSchema } from '../base/tool-source.ts'
import { mapSubschemas } from './json-schema.ts'
import { structureDefectOf } from './schema-defect.ts'

/** Limit of listed errors: a wrong union has hundreds, and a model needs only the first ones. */
const MAX_ERRORS = 5

const NOTHING: readonly never[] = []

/** A validation error with its place. */
export interface ValidationError {
  /** JSON pointer into the value, as a fragment: `#/items/0`. */
  readonly place: string
  readonly text: string
}

/**
 * Validates values against one JSON schema, with references, unions, conditions and recursion. The validator
 * is prepared at the first check. It is the interpreter that `@langchain/core` uses. A compiling validator
 * would be faster for long lists, but would run code made from a server's schema.
 */
export class SchemaCheck {
  readonly #schema: JsonSchema
  #validator: Validator | 'unreadable' | undefined

  constructor(schema: JsonSchema) {
    this.#schema = schema
  }

  /**
   * Returns the validation errors of a value, one line each. A schema that cannot be evaluated here (a
   * remote reference, tooManyRoundsError recursion) gives none: the server validates its own arguments.
   */
  errors(value: unknown): readonly string[] {
    return linesOf(this.locatedErrors(value))
  }

  /** Returns the validation errors with their places. */
  locatedErrors(value: unknown): readonly ValidationError[] {
    try {
      this.#validator ??= validatorFor(this.#schema)
      if (this.#validator === 'unreadable') return NOTHING
      const { valid, errors } = this.#validator.validate(value)
      return valid ? NOTHING : toValidationErrors(errors)
    } catch {
      this.#validator = 'unreadable'
      return NOTHING
    }
  }
}

/** Returns at most five lines. */
export function linesOf(errors: readonly ValidationError[]): readonly string[] {
  if (errors.length === 0) return NOTHING
  const unique = [...new Set(errors.map(({ place, text }) => `${place}: ${text}`))]
  const more = unique.length - MAX_ERRORS
  return more > 0 ? [...unique.slice(0, MAX_ERRORS), `and ${more} more`] : unique
}

function validatorFor(schema: JsonSchema): Validator | 'unreadable' {
  // Checked first, because multiplying references would keep the validator busy for years.
  if (structureDefectOf(schema) !== undefined) return 'unreadable'
  // The validator writes into its schema, and a listed schema may be frozen or shared.
  const own: JSONSchema & object = structuredClone(validationSchemaFrom(schema))
  const dialect = schema['$schema']
  const isOld = typeof dialect === 'string' && /draft-0[4-7]/.test(dialect)
  // 2020-12 is the default (specification 2025-11-25, "JSON Schema Usage"). `false`: report all errors.
  return new Validator(own, isOld ? '7' : '2020-12', false)
}

interface Finding {
  readonly instanceLocation: string
  readonly keyword: string
  readonly error: string
}

/** Keywords whose error only repeats that an inner error exists. */
const WRAPPERS: ReadonlySet<string> = new Set([
  'properties',
  'items',
  'prefixItems',
  '$ref',
  'allOf',
])

function toValidationErrors(findings: readonly Finding[]): ValidationError[] {
  const telling = findings.filter(({ keyword }) => !WRAPPERS.has(keyword))
  return (telling.length > 0 ? telling : findings).map(({ instanceLocation, error }) => ({
    place: instanceLocation,
    text: error,
  }))
}

/**
 * Returns a copy of a schema that the validator can read and that means the same: `nullable` of OpenAPI
 * becomes the type `null`, boolean limits of draft-04 become numbers, and an invalid `pattern` is left out,
 * so that everything else is still checked.
 */
function validationSchemaFrom(schema: JsonSchema): Record<string, unknown> {
  return withReadablePatterns(
    mapSubschemas(withCurrentLimits(withNullType(schema)), (inner) =>
      isRecord(inner) ? validationSchemaFrom(inner) : inner,
    ),
  )
}

/** Converts `nullable: true` of OpenAPI 3.0 to the type `null`. */
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

/** Converts `exclusiveMinimum: true` of draft-04 to a number. */
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
  // Properties of the invalid pattern must not count as additional.
  const { additionalProperties: _, unevaluatedProperties: __, ...rest } = others
  const readable = Object.entries(byPattern).filter(([key]) => isPattern(key))
  return { ...rest, patternProperties: Object.fromEntries(readable) }
}

/** Returns true for a pattern that the validator can read: it compiles all patterns as Unicode. */
export function isPattern(pattern: unknown): boolean {
  if (typeof pattern !== 'string') return false
  try {
    return new RegExp(pattern, 'u') instanceof RegExp
  } catch {
    return false
  }
}

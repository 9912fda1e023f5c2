import { Validator, type JSONSchema } from '@langchain/core/utils/json_schema'
import { isRecord, mapSubschemas } from '@x/internal'
import type { JsonSchema } from '../base/tool-source.ts'
import { currentSchema, documentOf, isPattern } from './json-schema.ts'

/** Limit of listed errors: a wrong union has hundreds, and a model needs only the first ones. */
const MAX_ERRORS = 5

/** A validation error with its place. */
export interface ValidationError {
  /** JSON pointer into the value, as a fragment: `#/items/0`. */
  readonly place: string
  readonly text: string
}

/** Keywords whose error only repeats that an inner error exists. */
const WRAPPERS: ReadonlySet<string> = new Set('properties items prefixItems $ref allOf'.split(' '))

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

  /** Returns the validation errors of a value, one line each. */
  errors(value: unknown): readonly string[] {
    return linesOf(this.locatedErrors(value))
  }

  /**
   * Returns the validation errors of a value with their places. A schema that cannot be evaluated here (a
   * remote reference, endless recursion) gives none: the server validates its own arguments.
   */
  locatedErrors(value: unknown): readonly ValidationError[] {
    try {
      this.#validator ??= validatorFor(this.#schema)
      if (this.#validator === 'unreadable') return []
      const { valid, errors } = this.#validator.validate(value)
      if (valid) return []
      const specific = errors.filter(({ keyword }) => !WRAPPERS.has(keyword))
      return (specific.length > 0 ? specific : errors).map(({ instanceLocation, error }) => ({
        place: instanceLocation,
        text: error,
      }))
    } catch {
      this.#validator = 'unreadable'
      return []
    }
  }
}

/** Returns at most five lines. */
export function linesOf(errors: readonly ValidationError[]): readonly string[] {
  const unique = [...new Set(errors.map(({ place, text }) => `${place}: ${text}`))]
  const more = unique.length - MAX_ERRORS
  return more > 0 ? [...unique.slice(0, MAX_ERRORS), `and ${more} more`] : unique
}

function validatorFor(schema: JsonSchema): Validator | 'unreadable' {
  // Checked first, because multiplying references would keep the validator busy for years.
  if (documentOf(schema).defect !== undefined) return 'unreadable'
  // The validator writes into its schema, and a listed schema may be frozen or shared.
  const own: JSONSchema & object = structuredClone(validationSchemaFrom(schema))
  const isOld = /draft-0[4-7]/.test(String(schema['$schema']))
  // 2020-12 is the default (specification 2025-11-25, "JSON Schema Usage"). `false`: report all errors.
  return new Validator(own, isOld ? '7' : '2020-12', false)
}

/**
 * Returns a copy of a schema that the validator can read and that means the same. An invalid `pattern` is
 * left out, so that everything else is still checked.
 */
function validationSchemaFrom(schema: JsonSchema): Record<string, unknown> {
  const { pattern, patternProperties: byPattern, ...others } = currentSchema(schema)
  let own: JsonSchema = isPattern(pattern) ? { pattern, ...others } : others
  if (isRecord(byPattern)) {
    const readable = Object.entries(byPattern).filter(([key]) => isPattern(key))
    if (readable.length < Object.keys(byPattern).length) {
      // Properties of the invalid pattern must not count as additional.
      const { additionalProperties: _, unevaluatedProperties: __, ...rest } = own
      own = rest
    }
    own = { ...own, patternProperties: Object.fromEntries(readable) }
  }
  return mapSubschemas(own, (inner) => (isRecord(inner) ? validationSchemaFrom(inner) : inner))
}

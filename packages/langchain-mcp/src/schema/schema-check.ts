import { Validator, type JSONSchema } from '@langchain/core/utils/json_schema'
import { isObject, isRecord, longestTextFor, mapSubschemas } from '@x/internal'
import type { JsonSchema } from '../base/tool-source.ts'
import { currentSchema, documentOf, isPattern } from './json-schema.ts'

/** Limit of listed errors: a wrong union has hundreds, and a model needs only the first ones. */
const MAX_ERRORS = 5

/** There is one validator for values whose names are at most this long, without name patterns that are too slow. */
const NAME_LENGTHS = [100, 1000, Number.POSITIVE_INFINITY] as const

/** A validation error with its place. */
export interface ValidationError {
  /** JSON pointer into the value, as a fragment: `#/items/0`. */
  readonly place: string
  readonly text: string
}

/** Keywords whose error only repeats that an inner error exists. */
const WRAPPERS: ReadonlySet<string> = new Set(
  'properties items prefixItems $ref allOf if'.split(' '),
)

/**
 * Validates values against one JSON schema, with references, unions, conditions and recursion. The validator
 * is prepared at the first check. It is the interpreter that `@langchain/core` uses. A compiling validator
 * would be faster for long lists, but would run code made from a server's schema.
 *
 * A text that is so long that its pattern could be slow is not checked against the pattern: the server validates its
 * own arguments.
 */
export class SchemaCheck {
  readonly #schema: JsonSchema
  /** By the maximum length of the names in a value. */
  readonly #validators = new Map<number, Validator>()
  #isReadable = true
  #hasNamePatterns: boolean | undefined

  constructor(schema: JsonSchema) {
    this.#schema = schema
  }

  /** Returns the validation errors of a value, one line each. */
  errors(value: unknown): readonly string[] {
    return linesOf(this.locatedErrors(value))
  }

  /**
   * Returns the validation errors of a value with their places. A schema that cannot be evaluated here (a
   * remote reference, endless recursion) gives none.
   */
  locatedErrors(value: unknown): readonly ValidationError[] {
    const validator = this.#validatorFor(value)
    if (validator === undefined) return []
    try {
      const { valid, errors } = validator.validate(value)
      if (valid) return []
      const specific = errors.filter(({ keyword }) => !WRAPPERS.has(keyword))
      return (specific.length > 0 ? specific : errors).map(({ instanceLocation, error }) => ({
        place: instanceLocation,
        text: error,
      }))
    } catch {
      return [] // this value cannot be checked, for example because it is nested too deeply
    }
  }

  /** Returns undefined for a schema that cannot be evaluated. */
  #validatorFor(value: unknown): Validator | undefined {
    if (!this.#isReadable) return undefined
    try {
      return this.#readableFor(value)
    } catch {
      this.#isReadable = false
      return undefined
    }
  }

  #readableFor(value: unknown): Validator {
    this.#hasNamePatterns ??= JSON.stringify(this.#schema).includes('"patternProperties"')
    const longest = this.#hasNamePatterns ? longestNameIn(value) : 0
    const length = NAME_LENGTHS.find((limit) => longest <= limit) ?? Number.POSITIVE_INFINITY
    const known = this.#validators.get(length)
    if (known !== undefined) return known
    const validator = newValidator(this.#schema, length)
    this.#validators.set(length, validator)
    return validator
  }
}

/** Returns at most five lines. */
export function linesOf(errors: readonly ValidationError[]): readonly string[] {
  const unique = [...new Set(errors.map(({ place, text }) => `${place}: ${text}`))]
  const more = unique.length - MAX_ERRORS
  return more > 0 ? [...unique.slice(0, MAX_ERRORS), `and ${more} more`] : unique
}

/** Returns the length of the longest name in a value. Not recursive, because values may be deep. */
function longestNameIn(value: unknown): number {
  let longest = 0
  const open = [value]
  for (const one of open) {
    if (!isObject(one)) continue
    for (const [name, inner] of Object.entries(one)) {
      longest = Math.max(longest, name.length)
      open.push(inner)
    }
  }
  return longest
}

/** `longest`: length of the longest name that the patterns of names have to match. */
function newValidator(schema: JsonSchema, longest: number): Validator {
  // Checked first, because multiplying references would keep the validator busy for years.
  const { defect } = documentOf(schema)
  if (defect !== undefined) throw new TypeError(defect)
  // The validator writes into its schema, and a listed schema may be frozen or shared.
  const own: JSONSchema & object = structuredClone(validationSchemaFrom(schema, longest))
  const isOld = /draft-0[4-7]/.test(String(schema['$schema']))
  // 2020-12 is the default (specification 2025-11-25, "JSON Schema Usage"). `false`: report all errors.
  return new Validator(own, isOld ? '7' : '2020-12', false)
}

/**
 * Returns a copy of a schema that the validator can read and that means the same, except that it accepts texts that
 * are too long for their pattern. Invalid patterns are left out, so that everything else is still checked.
 */
function validationSchemaFrom(schema: JsonSchema, longest: number): Record<string, unknown> {
  const { pattern, patternProperties: byPattern, ...others } = currentSchema(schema)
  let own: JsonSchema = others
  if (isRecord(byPattern)) {
    const usable = Object.entries(byPattern).filter(([key]) => limitOf(key) >= longest)
    if (usable.length < Object.keys(byPattern).length) {
      // Properties of the other patterns must not count as additional.
      const { additionalProperties: _, unevaluatedProperties: __, ...rest } = own
      own = rest
    }
    own = { ...own, patternProperties: Object.fromEntries(usable) }
  }
  const copy = mapSubschemas(own, (inner) =>
    isRecord(inner) ? validationSchemaFrom(inner, longest) : inner,
  )
  return { ...copy, ...boundedPattern(pattern, copy['allOf']) }
}

/** Returns keywords that apply a pattern to the texts that are short enough for it. */
function boundedPattern(pattern: unknown, allOf: unknown): JsonSchema {
  const maxLength = limitOf(pattern)
  if (maxLength <= 0) return {}
  if (maxLength === Number.POSITIVE_INFINITY) return { pattern }
  const others: unknown[] = Array.isArray(allOf) ? allOf : []
  return { allOf: [...others, { if: { minLength: maxLength + 1 }, else: { pattern } }] }
}

/** Returns the length of the longest text that a pattern may be applied to; -1 for an invalid pattern. */
function limitOf(pattern: unknown): number {
  return isPattern(pattern) ? longestTextFor(pattern) : -1
}

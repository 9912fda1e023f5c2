// Checks values against schemas of servers. A separate entry, because nothing else needs the validator.
import { Validator, type Schema } from '@cfworker/json-schema'
import { longestTextFor, waysToMatch, type Ways } from './expression-cost.ts'
import { isRecord } from './is-record.ts'
import { currentSchema, documentOf, isPattern, mapSubschemas } from './json-schema.ts'
import type { JsonSchema, SchemaDocument } from './json-schema.ts'

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
 * Validates values against one JSON schema, with references, unions, conditions and recursion. The validator is
 * prepared at the first check. It is an interpreter: a compiling validator would be faster for long lists, but would
 * run code made from a server's schema.
 *
 * A schema that cannot be evaluated (a remote reference, endless recursion) gives no errors, and neither does a check
 * that is too much work: the server validates its own arguments.
 */
export class SchemaCheck {
  readonly #schema: JsonSchema
  readonly #formats: ReadonlySet<unknown>
  #isPlainValue: PlainCheck | undefined
  #prepared: PreparedSchema | undefined

  /** Use `ignoreFormats` for the result of a tool: the tool was executed, and the server may know another form. */
  constructor(
    schema: JsonSchema,
    { ignoreFormats = false }: { readonly ignoreFormats?: boolean } = {},
  ) {
    this.#schema = schema
    this.#formats = ignoreFormats ? new Set() : FORMATS
  }

  /** Returns the validation errors of a value, one line each. */
  errors(value: unknown): readonly string[] {
    return linesOf(this.locatedErrors(value))
  }

  /** Returns the validation errors of a value with their places. */
  locatedErrors(value: unknown): readonly ValidationError[] {
    this.#isPlainValue ??= this.#plainCheck()
    if (this.#isPlainValue(value)) return []
    try {
      const size = sizeOf(value)
      if (this.#prepared?.fits(size) !== true) {
        this.#prepared = new PreparedSchema(this.#schema, this.#formats, size)
      }
      const result = this.#prepared.validate(value, size)
      const specific = result.errors.filter(({ keyword }) => !WRAPPERS.has(keyword))
      return (specific.length > 0 ? specific : result.errors).map((one) => ({
        place: one.instanceLocation,
        text: one.error,
      }))
    } catch {
      return [] // it is too much work, a reference leads nowhere, or the value is nested too deeply
    }
  }

  /** Returns a check that accepts all values of a schema with a defect. */
  #plainCheck(): PlainCheck {
    if (documentOf(this.#schema).defect !== undefined) return () => true
    return plainCheckOf(this.#schema) ?? (() => false)
  }
}

/** Returns true only for a value that the schema accepts. */
type PlainCheck = (value: unknown) => boolean

/** Keywords that restrict no value. */
const TEXTS: ReadonlySet<string> = new Set(
  'title description default examples deprecated readOnly writeOnly $comment $schema'.split(' '),
)

/**
 * Returns a check for a schema that restricts types, fields and listed values only, as the schemas of most tools do: for
 * small arguments, the validator takes as long as the rest of the call. Returns undefined for other schemas.
 */
function plainCheckOf(schema: unknown): PlainCheck | undefined {
  if (!isRecord(schema)) return undefined
  const { type, enum: listed, properties, required, additionalProperties, items, ...rest } = schema
  if (Object.keys(rest).some((keyword) => !TEXTS.has(keyword))) return undefined
  if (listed !== undefined) {
    const isOfTexts = Array.isArray(listed) && listed.every((one) => typeof one === 'string')
    return isOfTexts && type === 'string'
      ? (value) => typeof value === 'string' && listed.includes(value)
      : undefined
  }
  switch (type) {
    case 'string':
    case 'number':
    case 'boolean':
      return (value) => typeof value === type
    case 'integer':
      return Number.isInteger
    case 'array': {
      const isItem = plainCheckOf(items ?? {})
      return isItem && ((value) => Array.isArray(value) && value.every((item) => isItem(item)))
    }
    case 'object':
      return plainObjectCheckOf({ properties, required, additionalProperties })
    default:
      return Object.keys(schema).every((keyword) => TEXTS.has(keyword)) ? () => true : undefined
  }
}

function plainObjectCheckOf({
  properties = {},
  required = [],
  additionalProperties: isOpen = true,
}: JsonSchema): PlainCheck | undefined {
  if (!isRecord(properties) || !Array.isArray(required) || typeof isOpen !== 'boolean') {
    return undefined
  }
  const fields = new Map<string, PlainCheck>()
  for (const [name, inner] of Object.entries(properties)) {
    const isField = plainCheckOf(inner)
    if (isField === undefined) return undefined
    fields.set(name, isField)
  }
  return (value) =>
    isRecord(value) &&
    required.every((name) => Object.hasOwn(value, name)) &&
    Object.keys(value).every((name) => fields.get(name)?.(value[name]) ?? isOpen)
}

/** Returns at most five lines. */
export function linesOf(errors: readonly ValidationError[]): readonly string[] {
  const unique = [...new Set(errors.map(({ place, text }) => `${place}: ${text}`))]
  const more = unique.length - MAX_ERRORS
  return more > 0 ? [...unique.slice(0, MAX_ERRORS), `and ${more} more`] : unique
}

interface ValueSize {
  /** Characters of the value as JSON. */
  readonly total: number
  /** Characters of the longest text or name. */
  readonly text: number
  /** Items of the longest list. */
  readonly items: number
  /** Fields of the largest object. */
  readonly fields: number
}

/** @throws for a value that JSON cannot hold, or that is nested too deeply */
function sizeOf(value: unknown): ValueSize {
  const total = JSON.stringify(value).length
  let text = 0
  let items = 0
  let fields = 0
  const left: unknown[] = [value]
  while (left.length > 0) {
    const inner = left.pop()
    if (typeof inner === 'string') text = Math.max(text, inner.length)
    else if (Array.isArray(inner)) {
      items = Math.max(items, inner.length)
      for (const item of inner) left.push(item)
    } else if (isRecord(inner)) {
      const names = Object.keys(inner)
      fields = Math.max(fields, names.length)
      for (const name of names) {
        text = Math.max(text, name.length)
        left.push(inner[name])
      }
    }
  }
  return { total, text, items, fields }
}

/** Limit of the work of one check. The validator needs about 200 milliseconds for it. */
const MAX_WORK = 2 ** 26
/** Work to apply a schema without keywords, or `true` or `false`, to a value. */
const EVALUATION = 2 ** 9

/** Keywords that the validator knows. It would also read schemas inside others. */
const KEYWORDS: ReadonlySet<string> = new Set([
  ...'$id $anchor $ref $defs definitions'.split(' '),
  ...'type const enum required not anyOf allOf oneOf if then else'.split(' '),
  ...'properties patternProperties additionalProperties unevaluatedProperties'.split(' '),
  ...'minProperties maxProperties propertyNames'.split(' '),
  ...'dependentRequired dependentSchemas dependencies'.split(' '),
  ...'prefixItems items additionalItems unevaluatedItems contains minContains'.split(' '),
  ...'maxContains minItems maxItems uniqueItems minimum maximum'.split(' '),
  ...'exclusiveMinimum exclusiveMaximum multipleOf minLength maxLength pattern format'.split(' '),
])

const FIELD_KEYWORDS = ['additionalProperties', 'unevaluatedProperties', 'propertyNames']
const ITEM_KEYWORDS = ['items', 'additionalItems', 'unevaluatedItems', 'contains']

/**
 * Formats that the validator checks in little time. Not `url`: its regular expression backtracks without bound. The
 * validator would take other names for methods of objects.
 */
const FORMATS: ReadonlySet<unknown> = new Set([
  ...'date time date-time duration uri uri-reference uri-template email hostname'.split(' '),
  ...'ipv4 ipv6 uuid regex json-pointer json-pointer-uri-fragment relative-json-pointer'.split(' '),
])

/**
 * A validator with a copy of the schema, because it writes into the schema. Patterns that take too long for values of
 * this size are left out, and so is what the validator does not know. The copy accepts every value that the schema
 * accepts.
 */
class PreparedSchema {
  readonly #document: SchemaDocument
  readonly #formats: ReadonlySet<unknown>
  readonly #validator: Validator
  /** Lengths of the longest text for which the same patterns are used. */
  #least = 0
  #most = Number.POSITIVE_INFINITY
  #size: ValueSize
  /** Something is left out. */
  #isPartial = false
  /** Leaves out keywords that refuse values that a schema in them accepts: the copy of that schema accepts too many. */
  #isWeak = false
  #left = Number.POSITIVE_INFINITY

  constructor(schema: JsonSchema, formats: ReadonlySet<unknown>, size: ValueSize) {
    this.#document = documentOf(schema)
    this.#formats = formats
    this.#size = size
    let copy = this.#copyOf(schema)
    if (this.#isPartial) {
      this.#isWeak = true
      copy = this.#copyOf(schema)
    }
    const isOld = /draft-0[4-7]/.test(String(schema['$schema']))
    // 2020-12 is the default (specification 2025-11-25, "JSON Schema Usage"). `false`: report all errors.
    this.#validator = new Validator(copy, isOld ? '7' : '2020-12', false)
  }

  fits({ text }: ValueSize): boolean {
    return text >= this.#least && text <= this.#most
  }

  /** @throws if it is too much work */
  validate(value: unknown, size: ValueSize): ReturnType<Validator['validate']> {
    this.#size = size
    this.#left = MAX_WORK
    return this.#validator.validate(value)
  }

  #copyOf(schema: JsonSchema): Schema {
    const current = currentSchema(schema)
    const { pattern, patternProperties, format, $dynamicRef, $recursiveRef, ...others } = current
    if ($dynamicRef !== undefined || $recursiveRef !== undefined) this.#isPartial = true
    const entries = Object.entries(others).flatMap(([keyword, value]): [string, unknown][] => {
      // Copies of a schema may repeat its id. The validator refuses two schemas with one id.
      if (keyword === '$id' && !this.#document.hasReferences) return []
      if (KEYWORDS.has(keyword)) return [[keyword, value]]
      return isRecord(value) ? [[keyword, this.#copyOf(value)]] : [] // a reference may lead into it
    })
    const own = this.#isWeak ? weakened(Object.fromEntries(entries)) : Object.fromEntries(entries)
    const texts: Ways[] = []
    const names: Ways[] = []
    if (pattern !== undefined) own['pattern'] = this.#usable(pattern, texts)
    if (isRecord(patternProperties)) {
      const usable = Object.entries(patternProperties).flatMap(([key, inner]) => {
        const usableKey = this.#usable(key, names)
        return usableKey === undefined ? [] : [[usableKey, inner] as const]
      })
      own['patternProperties'] = Object.fromEntries(usable)
      // Properties of the other patterns must not count as additional.
      if (names.length < Object.keys(patternProperties).length) delete own['additionalProperties']
    }
    if (this.#formats.has(format)) own['format'] = format
    else if (FORMATS.has(format) || format === 'url') this.#isPartial = true
    const isMeasured = ['minLength', 'maxLength', 'format'].some((one) => own[one] !== undefined)
    if (isMeasured) texts.push({ power: 1, bits: 0 })
    const copy = mapSubschemas(own, (inner) => (isRecord(inner) ? this.#copyOf(inner) : inner))
    const length = JSON.stringify(mapSubschemas(own, () => true)).length
    const isFlag = (keyword: string): boolean => typeof own[keyword] === 'boolean'
    const work: Work = {
      length,
      texts,
      names,
      isClosed: FIELD_KEYWORDS.some(isFlag),
      isClosedList: ITEM_KEYWORDS.some(isFlag),
      isUnique: own['uniqueItems'] === true,
    }
    // The validator reads `type` each time that it applies a schema.
    const get = (): unknown => {
      this.#spend(work)
      return own['type']
    }
    return Object.defineProperty(copy, 'type', { get, enumerable: true })
  }

  /** Returns a pattern as the validator can read it, or undefined if there is none. Adds the ways to match it. */
  #usable(pattern: unknown, ways: Ways[]): string | undefined {
    const valid = [pattern, withoutNeedlessEscapes(String(pattern))].find(isPattern)
    if (valid !== undefined) {
      const own = waysToMatch(valid)
      const longest = longestTextFor(own)
      if (this.#size.text <= longest) {
        this.#most = Math.min(this.#most, longest)
        ways.push(own)
        return valid
      }
      this.#least = Math.max(this.#least, longest + 1)
    }
    this.#isPartial = true
    return undefined
  }

  #spend({ length, texts, names, isClosed, isClosedList, isUnique }: Work): void {
    const { total, text, items, fields } = this.#size
    const ways = (all: readonly Ways[]): number =>
      all.reduce((sum, { power, bits }) => sum + text ** power * 2 ** bits, 0)
    this.#left -= EVALUATION + length + ways(texts) + fields * (1 + ways(names))
    if (isClosed) this.#left -= fields * EVALUATION
    if (isClosedList) this.#left -= items * EVALUATION
    if (isUnique) this.#left -= items * total // each item is compared with each other
    if (this.#left < 0) throw new Error('The check is too much work')
  }
}

/** Work to apply one schema to a value. */
interface Work {
  readonly length: number
  /** Ways to match the `pattern` of the schema. */
  readonly texts: readonly Ways[]
  /** Ways to match each of its `patternProperties`. */
  readonly names: readonly Ways[]
  /** A keyword of `FIELD_KEYWORDS` is `true` or `false`. */
  readonly isClosed: boolean
  /** A keyword of `ITEM_KEYWORDS` is `true` or `false`. */
  readonly isClosedList: boolean
  readonly isUnique: boolean
}

/** Keywords that refuse values which a schema in them, or a sibling, accepts. */
const REFUSING: ReadonlySet<string> = new Set(
  'not if then else oneOf maxContains unevaluatedProperties unevaluatedItems'.split(' '),
)

function weakened(schema: JsonSchema): Record<string, unknown> {
  const others = Object.entries(schema).filter(([keyword]) => !REFUSING.has(keyword))
  const { oneOf, allOf } = schema
  // More than one of the copies may accept a valid value.
  const alternatives = { allOf: [...(Array.isArray(allOf) ? allOf : []), { anyOf: oneOf }] }
  return { ...Object.fromEntries(others), ...(oneOf !== undefined && alternatives) }
}

/** Writes `\-` and the like as code points: Unicode mode, in which the validator reads patterns, does not allow them. */
function withoutNeedlessEscapes(pattern: string): string {
  return pattern.replaceAll(/\\(.)/gsu, (escape, char: string) =>
    /[\dA-Za-z^$\\.*+?()[\]{}|/]/.test(char) ? escape : `\\u{${char.codePointAt(0)?.toString(16)}}`,
  )
}

// Checks values against schemas of servers. A separate entry, because nothing else needs the validator.
import { Validator, type Schema } from '@cfworker/json-schema'
import { createContext, Script } from 'node:vm'
import { longestTextFor } from './expression-cost.ts'
import { isRecord } from './is-record.ts'
import {
  currentSchema,
  documentOf,
  isPattern,
  mapSubschemas,
  type JsonSchema,
} from './json-schema.ts'
import type { SchemaDocument } from './json-schema.ts'

/** Limit of listed errors: a wrong union has hundreds, and a model needs only the first ones. */
const MAX_ERRORS = 5

/** Time limit of anything that is computed from a schema of a server, because it blocks the process. */
const LIMIT_MS = 200

/** Time limit on a machine that is too busy to do 200 ms of work in this time. */
const LONGEST_MS = 1600

/**
 * A check whose schema and value have sizes with a smaller product (in characters) needs some milliseconds at most. It
 * runs without the time limit, which would take longer than most such checks.
 */
const SMALL = 200_000

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
 * that takes longer than 200 ms: the server validates its own arguments.
 */
export class SchemaCheck {
  readonly #schema: JsonSchema
  /** Also kept if the preparation took too long: it would block the process again at each call. */
  #prepared: PreparedSchema | 'unusable' | undefined

  constructor(schema: JsonSchema) {
    this.#schema = schema
  }

  /** Returns the validation errors of a value, one line each. */
  errors(value: unknown): readonly string[] {
    return linesOf(this.locatedErrors(value))
  }

  /** Returns the validation errors of a value with their places. */
  locatedErrors(value: unknown): readonly ValidationError[] {
    this.#prepared ??= withinTimeLimit(() => preparedFrom(this.#schema)) ?? 'unusable'
    const prepared = this.#prepared
    if (prepared === 'unusable') return []
    const result = isSmall(prepared, value)
      ? resultOf(prepared, value)
      : withinTimeLimit(() => resultOf(prepared, value))
    if (result === undefined || result.valid) return []
    const specific = result.errors.filter(({ keyword }) => !WRAPPERS.has(keyword))
    return (specific.length > 0 ? specific : result.errors).map(({ instanceLocation, error }) => ({
      place: instanceLocation,
      text: error,
    }))
  }
}

/** Returns at most five lines. */
export function linesOf(errors: readonly ValidationError[]): readonly string[] {
  const unique = [...new Set(errors.map(({ place, text }) => `${place}: ${text}`))]
  const more = unique.length - MAX_ERRORS
  return more > 0 ? [...unique.slice(0, MAX_ERRORS), `and ${more} more`] : unique
}

const context = createContext({ work: undefined })
const workScript = new Script('work()')

/**
 * Returns what a synchronous function returns, or undefined if it throws or works for more than 200 ms. It is stopped
 * wherever it is, also inside a regular expression. Starting the clock costs some tens of microseconds.
 */
export function withinTimeLimit<T>(work: () => T): T | undefined {
  for (let timeout = LIMIT_MS; ; timeout *= 2) {
    let result: T | undefined
    context['work'] = () => {
      result = work()
    }
    const before = process.cpuUsage()
    try {
      workScript.runInContext(context, { timeout })
      return result
    } catch (error) {
      const { user, system } = process.cpuUsage(before)
      const wasStopped = isRecord(error) && error['code'] === 'ERR_SCRIPT_EXECUTION_TIMEOUT'
      // On a busy machine the time passes with less work.
      const hasWorked = (user + system) / 1000 > LIMIT_MS * 0.75
      if (!wasStopped || hasWorked || timeout >= LONGEST_MS) return undefined
    } finally {
      context['work'] = undefined
    }
  }
}

function resultOf({ validator }: PreparedSchema, value: unknown): ValidatorResult | undefined {
  try {
    return validator.validate(value)
  } catch {
    return undefined // this value cannot be checked, for example because it is nested too deeply
  }
}

type ValidatorResult = ReturnType<Validator['validate']>

function isSmall({ size, longestText, hasReferences }: PreparedSchema, value: unknown): boolean {
  if (hasReferences) return false
  let length: number
  try {
    length = JSON.stringify(value)?.length ?? 0
  } catch {
    return false
  }
  // Items that must differ are compared with each other.
  return length <= longestText && length * (length + size) <= SMALL
}

/** A schema in the form that the validator reads. */
interface PreparedSchema {
  readonly validator: Validator
  /** In characters. */
  readonly size: number
  /** Length of the longest text that each pattern matches in little time. */
  readonly longestText: number
  /** References can apply a short schema very often to a short value. */
  readonly hasReferences: boolean
}

function preparedFrom(schema: JsonSchema): PreparedSchema | 'unusable' {
  const document = documentOf(schema)
  if (document.defect !== undefined) return 'unusable'
  const copy = new ValidatorCopy(schema, document)
  const own = copy.make()
  const isOld = /draft-0[4-7]/.test(String(schema['$schema']))
  return {
    // 2020-12 is the default (specification 2025-11-25, "JSON Schema Usage"). `false`: report all errors.
    validator: new Validator(own, isOld ? '7' : '2020-12', false),
    size: JSON.stringify(own).length,
    longestText: copy.longestText,
    hasReferences: copy.hasReferences,
  }
}

/** Keywords that the validator knows. It would also read schemas inside others. */
const KEYWORDS: ReadonlySet<string> = new Set([
  ...'type const enum required not anyOf allOf oneOf if then else'.split(' '),
  ...'properties patternProperties additionalProperties unevaluatedProperties'.split(' '),
  ...'minProperties maxProperties propertyNames'.split(' '),
  ...'dependentRequired dependentSchemas dependencies'.split(' '),
  ...'prefixItems items additionalItems unevaluatedItems contains minContains'.split(' '),
  ...'maxContains minItems maxItems uniqueItems minimum maximum'.split(' '),
  ...'exclusiveMinimum exclusiveMaximum multipleOf minLength maxLength pattern'.split(' '),
])

/**
 * Formats that the validator checks in little time. Not `url`: its regular expression backtracks without bound. The
 * validator would take other names for methods of objects.
 */
const FORMATS: ReadonlySet<unknown> = new Set([
  ...'date time date-time duration uri uri-reference uri-template email hostname'.split(' '),
  ...'ipv4 ipv6 uuid regex json-pointer json-pointer-uri-fragment relative-json-pointer'.split(' '),
])

/**
 * Copies a schema for the validator: only keywords and formats that it knows, in their current form, and without
 * invalid patterns, so that everything else is still checked. Schemas that references lead to become definitions with
 * names of our own, wherever they are. Thus ids, anchors and pointers mean the same for the validator as for
 * `SchemaDocument`. The validator writes into its schema, and the given one may be frozen or shared.
 */
class ValidatorCopy {
  readonly #root: JsonSchema
  readonly #document: SchemaDocument
  readonly #names = new Map<JsonSchema | boolean, string>()
  longestText: number = Number.POSITIVE_INFINITY

  constructor(root: JsonSchema, document: SchemaDocument) {
    this.#root = root
    this.#document = document
  }

  get hasReferences(): boolean {
    return this.#names.size > 0
  }

  make(): Schema {
    const root = this.#copyOf(this.#root)
    const definitions: Record<string, unknown> = {}
    // The loop reaches targets that it adds.
    for (const [target, name] of this.#names) {
      definitions[name] = isRecord(target) ? this.#copyOf(target) : target
    }
    return { ...root, $defs: definitions }
  }

  #copyOf(schema: JsonSchema): Record<string, unknown> {
    const { pattern, patternProperties, format, ...others } = currentSchema(schema)
    const known = Object.entries(others).filter(([keyword]) => KEYWORDS.has(keyword))
    const own: Record<string, unknown> = Object.fromEntries(known)
    if (this.#isUsable(pattern)) own['pattern'] = pattern
    if (FORMATS.has(format)) own['format'] = format
    if (isRecord(patternProperties)) {
      const usable = Object.entries(patternProperties).filter(([key]) => this.#isUsable(key))
      if (usable.length < Object.keys(patternProperties).length) {
        // Properties of the other patterns must not count as additional.
        delete own['additionalProperties']
        delete own['unevaluatedProperties']
      }
      own['patternProperties'] = Object.fromEntries(usable)
    }
    if (others['$ref'] !== undefined) own['$ref'] = this.#referenceTo(schema)
    return mapSubschemas(own, (inner) => (isRecord(inner) ? this.#copyOf(inner) : inner))
  }

  #referenceTo(schema: JsonSchema): string {
    const target = this.#document.targetOf(schema) ?? true
    const name = this.#names.get(target) ?? `d${this.#names.size}`
    this.#names.set(target, name)
    return `#/$defs/${name}`
  }

  #isUsable(pattern: unknown): boolean {
    if (!isPattern(pattern)) return false
    this.longestText = Math.min(this.longestText, longestTextFor(pattern))
    return true
  }
}

// Checks values against schemas of servers. A separate entry, because nothing else needs the validator.
import { Validator, type Schema } from '@cfworker/json-schema'
import { createContext, Script } from 'node:vm'
import { longestTextFor } from './expression-cost.ts'
import { isRecord } from './is-record.ts'
import {
  currentSchema,
  definedFields,
  documentOf,
  isPattern,
  mapSubschemas,
  schemasIn,
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
  readonly #formats: ReadonlySet<unknown>
  /** Also kept if the preparation took too long: it would block the process again at each call. */
  #prepared: PreparedSchema | 'unusable' | undefined

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
    this.#prepared ??=
      withinTimeLimit(() => preparedFrom(this.#schema, this.#formats)) ?? 'unusable'
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

function isSmall({ size, longestText }: PreparedSchema, value: unknown): boolean {
  if (size > SMALL) return false
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
  /** In characters, with references replaced by what they lead to. Infinite if the schema is recursive. */
  readonly size: number
  /** Length of the longest text that each pattern matches in little time. */
  readonly longestText: number
}

function preparedFrom(
  schema: JsonSchema,
  formats: ReadonlySet<unknown>,
): PreparedSchema | 'unusable' {
  const document = documentOf(schema)
  if (document.defect !== undefined) return 'unusable'
  const copy = new ValidatorCopy(document, formats)
  const own = copy.make(schema)
  const isOld = /draft-0[4-7]/.test(String(schema['$schema']))
  return {
    // 2020-12 is the default (specification 2025-11-25, "JSON Schema Usage"). `false`: report all errors.
    validator: new Validator(own, isOld ? '7' : '2020-12', false),
    size: copy.sizeOf(schema),
    longestText: copy.longestText,
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

/** Chains of more references count as recursive. */
const MAX_REFERENCES = 100

/**
 * Copies a schema for the validator: only keywords and formats that it knows, in their current form, and without
 * invalid patterns, so that everything else is still checked. The copy accepts every value that the schema accepts.
 * Schemas that references lead to become definitions with names of our own, wherever they are. Thus ids, anchors and
 * pointers mean the same for the validator as for `SchemaDocument`. The validator writes into its schema, and the given
 * one may be frozen or shared.
 */
class ValidatorCopy {
  readonly #document: SchemaDocument
  readonly #formats: ReadonlySet<unknown>
  readonly #names = new Map<Target, string>()
  /** The root and the targets of references: their lengths in characters, and where their own references lead. */
  readonly #parts = new Map<Target, { length: number; readonly targets: Target[] }>()
  readonly #sizes = new Map<Target, number>()
  /** Schemas whose copy accepts the same values as they do. */
  readonly #complete = new Set<JsonSchema>()
  longestText: number = Number.POSITIVE_INFINITY

  constructor(document: SchemaDocument, formats: ReadonlySet<unknown>) {
    this.#document = document
    this.#formats = formats
  }

  make(schema: JsonSchema): Schema {
    const root = this.#partFrom(schema)
    const definitions: Record<string, unknown> = {}
    // The loop reaches targets that it adds.
    for (const [target, name] of this.#names) definitions[name] = this.#partFrom(target)
    return { ...(isRecord(root) && root), $defs: definitions }
  }

  /** Returns the length of a part with its references replaced by their targets. Infinite if it is recursive. */
  sizeOf(target: Target, around = new Set<Target>()): number {
    const known = this.#sizes.get(target)
    if (known !== undefined) return known
    if (around.has(target) || around.size > MAX_REFERENCES) return Number.POSITIVE_INFINITY
    around.add(target)
    const { length = 0, targets = [] } = this.#parts.get(target) ?? {}
    const size = targets.reduce((sum, inner) => sum + this.sizeOf(inner, around), length)
    around.delete(target)
    this.#sizes.set(target, size)
    return size
  }

  #partFrom(target: Target): unknown {
    const targets: Target[] = []
    const copy = isRecord(target) ? this.#copyOf(target, targets) : target
    this.#parts.set(target, { length: JSON.stringify(copy).length, targets })
    return copy
  }

  /** Adds to `targets` where references in the schema lead. */
  #copyOf(schema: JsonSchema, targets: Target[]): Record<string, unknown> {
    const current = currentSchema(schema)
    const { pattern, patternProperties, format, ...others } = current
    const known = Object.entries(others).filter(([keyword]) => KEYWORDS.has(keyword))
    const own = this.#weakened(current, Object.fromEntries(known))
    const usablePattern = this.#patternFrom(pattern)
    if (usablePattern !== undefined) own['pattern'] = usablePattern
    if (this.#formats.has(format)) own['format'] = format
    if (isRecord(patternProperties)) {
      const usable = Object.entries(patternProperties).flatMap(([key, inner]) => {
        const usableKey = this.#patternFrom(key)
        return usableKey === undefined ? [] : [[usableKey, inner] as const]
      })
      own['patternProperties'] = Object.fromEntries(usable)
      // Properties of the other patterns must not count as additional.
      if (usable.length < Object.keys(patternProperties).length) delete own['additionalProperties']
    }
    if (others['$ref'] !== undefined) own['$ref'] = this.#referenceTo(schema, targets)
    return mapSubschemas(own, (inner) => (isRecord(inner) ? this.#copyOf(inner, targets) : inner))
  }

  /**
   * Removes or weakens keywords that could refuse a valid value. They refuse values that a schema in them accepts, and
   * the copy of that schema accepts too many if one of its keywords is not checked.
   */
  #weakened(schema: JsonSchema, known: JsonSchema): Record<string, unknown> {
    const { not, oneOf, if: condition, maxContains, allOf, ...own } = known
    const { unevaluatedProperties, unevaluatedItems, ...others } = own
    const isAlternative = Array.isArray(oneOf) && oneOf.some((one) => !this.#isComplete(one))
    return {
      ...others,
      ...definedFields({
        not: this.#isComplete(not) ? not : undefined,
        // More than one of the copies may accept a valid value.
        oneOf: isAlternative ? undefined : oneOf,
        allOf: isAlternative ? [...(Array.isArray(allOf) ? allOf : []), { anyOf: oneOf }] : allOf,
        if: this.#isComplete(condition) ? condition : undefined,
        maxContains: this.#isComplete(known['contains']) ? maxContains : undefined,
      }),
      // Without one of the other keywords, more properties and items count as unevaluated.
      ...((unevaluatedProperties !== undefined || unevaluatedItems !== undefined) &&
        this.#isComplete(schema) &&
        definedFields({ unevaluatedProperties, unevaluatedItems })),
    }
  }

  /** True if the copy of a schema has all of its keywords, and so have the schemas that it applies. */
  #isComplete(start: unknown): boolean {
    if (!isRecord(start)) return true
    const reached = new Set<JsonSchema>([start])
    // The loop reaches schemas that it adds.
    for (const schema of reached) {
      if (this.#complete.has(schema)) continue
      if (this.#hasUnchecked(schema)) return false
      for (const [keyword, value] of Object.entries(schema)) {
        if (KEYWORDS.has(keyword)) for (const inner of schemasIn(keyword, value)) reached.add(inner)
      }
      const target = this.#document.targetOf(schema)
      if (isRecord(target)) reached.add(target)
    }
    for (const schema of reached) this.#complete.add(schema)
    return true
  }

  /** True for a schema with a keyword that is not checked although values can be invalid by it. */
  #hasUnchecked(schema: JsonSchema): boolean {
    const { pattern, patternProperties, format, $dynamicRef, $recursiveRef } = schema
    const patterns: unknown[] = isRecord(patternProperties) ? Object.keys(patternProperties) : []
    if (pattern !== undefined) patterns.push(pattern)
    return (
      patterns.some((one) => this.#patternFrom(one) === undefined) ||
      (!this.#formats.has(format) && (FORMATS.has(format) || format === 'url')) ||
      $dynamicRef !== undefined ||
      $recursiveRef !== undefined
    )
  }

  #referenceTo(schema: JsonSchema, targets: Target[]): string {
    const target = this.#document.targetOf(schema) ?? true
    const name = this.#names.get(target) ?? `d${this.#names.size}`
    this.#names.set(target, name)
    targets.push(target)
    return `#/$defs/${name}`
  }

  /** Returns a pattern as the validator can read it, or undefined if there is none. */
  #patternFrom(pattern: unknown): string | undefined {
    if (typeof pattern !== 'string') return undefined
    const usable = [pattern, withoutNeedlessEscapes(pattern)].find(isPattern)
    if (usable !== undefined) {
      this.longestText = Math.min(this.longestText, longestTextFor(usable))
    }
    return usable
  }
}

type Target = JsonSchema | boolean

/** Writes `\-` and the like as code points: Unicode mode, in which the validator reads patterns, does not allow them. */
function withoutNeedlessEscapes(pattern: string): string {
  return pattern.replaceAll(/\\(.)/gsu, (escape, char: string) =>
    /[\dA-Za-z^$\\.*+?()[\]{}|/]/.test(char) ? escape : `\\u{${char.codePointAt(0)?.toString(16)}}`,
  )
}

import { isDeepStrictEqual } from 'node:util'
import { isObject, isRecord } from './is-record.ts'

/** A JSON schema as its author wrote it. */
export type JsonSchema = Readonly<Record<string, unknown>>

/** Keywords that contain schemas by name. In draft-07, `dependencies` may also contain lists of names. */
const MAPS: ReadonlySet<string> = new Set(
  'properties patternProperties $defs definitions dependentSchemas dependencies'.split(' '),
)

/** Keywords whose schemas apply to the same value as the schema around them. */
const IN_PLACE: ReadonlySet<string> = new Set(
  'allOf anyOf oneOf not if then else dependentSchemas dependencies'.split(' '),
)

/** Other keywords that contain a schema, or a list of schemas. */
const PARTS: ReadonlySet<string> = new Set([
  ...'additionalProperties unevaluatedProperties propertyNames contentSchema'.split(' '),
  ...'items prefixItems additionalItems unevaluatedItems contains'.split(' '),
])

/** Returns true for keywords that contain schemas, in 2020-12 and older drafts. Other values are data. */
function isApplicator(keyword: string): boolean {
  return MAPS.has(keyword) || IN_PLACE.has(keyword) || PARTS.has(keyword)
}

/**
 * Returns a copy of a schema with every schema directly inside it replaced. `__proto__` is a name like any
 * other.
 */
export function mapSubschemas(
  schema: JsonSchema,
  change: (inner: unknown, path: readonly string[]) => unknown,
): Record<string, unknown> {
  const entries = Object.entries(schema).map(([keyword, value]): [string, unknown] => {
    if (!isApplicator(keyword) || value === undefined) return [keyword, value]
    if (Array.isArray(value)) {
      return [keyword, value.map((inner: unknown, at) => change(inner, [keyword, String(at)]))]
    }
    if (!MAPS.has(keyword) || !isRecord(value)) return [keyword, change(value, [keyword])]
    const named = Object.entries(value).map(([name, inner]): [string, unknown] => [
      name,
      isListOfNames(keyword, inner) ? inner : change(inner, [keyword, name]),
    ])
    return [keyword, Object.fromEntries(named)]
  })
  return Object.fromEntries(entries) // an assignment would not create a field `__proto__`
}

function isListOfNames(keyword: string | undefined, value: unknown): boolean {
  return keyword === 'dependencies' && Array.isArray(value)
}

/** Returns the schemas in the value of a keyword. */
function schemasIn(keyword: string, value: unknown): JsonSchema[] {
  if (!isApplicator(keyword) || !isObject(value)) return []
  const isList = Array.isArray(value) || MAPS.has(keyword)
  return (isList ? Object.values(value) : [value]).filter((one) => isRecord(one))
}

/** Returns a place in a schema as a JSON pointer with `#`. */
export function pointerOf(path: readonly string[]): string {
  return ['#', ...path.map((step) => step.replaceAll('~', '~0').replaceAll('/', '~1'))].join('/')
}

interface SchemaLimits {
  /** Maximum nesting of objects and lists. */
  readonly depth: number
  /** Maximum number of objects and lists. */
  readonly nodes: number
}

/** Base URL of a schema without an `$id`. */
const NOWHERE = 'https://schema.invalid/'

/** Limit of schemas that apply to the same value. References that double at each step grow without bound. */
const MAX_STEPS = 10_000

/** Limit of schemas that lead to each other for the same value. A longer chain would overflow the stack. */
const MAX_CHAIN = 500

const LONG_CHAIN = `its references follow each other more than ${MAX_CHAIN} times`

const TYPES: ReadonlySet<unknown> = new Set(
  'object array string number integer boolean null'.split(' '),
)

interface Form {
  readonly fits: (value: unknown) => boolean
  readonly problem: string
}

const UNION: Form = {
  fits: (value) => Array.isArray(value) && value.length > 0,
  problem: 'is not a list of schemas',
}

/** Forms of the values of keywords. A schema with another value cannot be evaluated. */
const FORMS: ReadonlyMap<string, Form> = new Map<string, Form>([
  ['type', { fits: isType, problem: 'is not a type of JSON schema' }],
  ['required', { fits: isListOfTexts, problem: 'is not a list of names' }],
  ['properties', { fits: isRecord, problem: 'is not an object' }],
  ['enum', { fits: Array.isArray, problem: 'is not a list' }],
  ['allOf', UNION],
  ['anyOf', UNION],
  ['oneOf', UNION],
  ['$ref', { fits: isText, problem: 'is not a text' }],
])

/**
 * One JSON schema whose form was checked, and whose references can be resolved: pointers, anchors, and `$id`s of
 * embedded schemas (2020-12 core, 8.2), which are relative to the `$id` of the root. Nothing is fetched.
 */
export class SchemaDocument {
  /** Why the schema cannot be evaluated. Undefined if it can. */
  readonly defect: string | undefined
  readonly #root: JsonSchema
  readonly #limits: SchemaLimits
  #nodes = 0
  /** The current place while the schema is read. */
  readonly #path: string[] = []
  /** Schemas with a `$ref`. */
  readonly #referring = new Map<JsonSchema, Place>()
  #base = NOWHERE
  /** Schemas by URL or `#anchor`. Undefined: different schemas have this name. */
  readonly #names = new Map<string, JsonSchema | undefined>()
  /** The schemas that were read. A reference may lead to others: to data, or to the value of an unknown keyword. */
  readonly #read = new Set<JsonSchema>()

  constructor(root: JsonSchema, limits: SchemaLimits) {
    this.#root = root
    this.#limits = limits
    try {
      this.#readSchema(root, root, 1)
      // Without references every schema applies at most once.
      if (this.#referring.size > 0) this.#checkReferences()
    } catch (error) {
      if (!(error instanceof Defect)) throw error
      this.defect = error.message
    }
  }

  get hasReferences(): boolean {
    return this.#referring.size > 0
  }

  /** Returns the schema that the `$ref` of a schema leads to. Undefined without a `$ref`, or if it is broken. */
  targetOf(schema: JsonSchema): JsonSchema | boolean | undefined {
    const { $ref } = schema
    if (!isText($ref)) return undefined
    const [address = '', fragment = ''] = $ref.split('#', 2)
    const document =
      address === '' ? this.#referring.get(schema)?.document : this.#names.get(this.#urlOf(address))
    const name = decoded(fragment)
    const isPointer = name === '' || name.startsWith('/')
    const found = isPointer ? valueAt(document, name) : this.#names.get(`#${name}`)
    return isRecord(found) || typeof found === 'boolean' ? found : undefined
  }

  /** `outer` is the document that contains the schema: the root, or an embedded schema with an `$id`. */
  #readSchema(schema: JsonSchema, outer: JsonSchema, depth: number): void {
    this.#count(depth)
    this.#read.add(schema)
    const document = this.#named(schema) ? schema : outer
    for (const keyword of Object.keys(schema)) {
      const value = schema[keyword]
      if (value === undefined) continue
      this.#path.push(keyword)
      const form = FORMS.get(keyword)
      if (form?.fits(value) === false) throw this.#defect(form.problem)
      if (keyword === '$ref')
        this.#referring.set(schema, { pointer: pointerOf(this.#path), document })
      if (!isApplicator(keyword)) this.#readData(value, depth + 1)
      else if (Array.isArray(value) || (MAPS.has(keyword) && isRecord(value))) {
        this.#readList(value, document, depth + 1)
      } else this.#readInner(value, document, depth + 1)
      this.#path.pop()
    }
  }

  /** Reads a list of schemas, or schemas by name. */
  #readList(list: object, document: JsonSchema, depth: number): void {
    this.#count(depth)
    const keyword = this.#path.at(-1)
    for (const [name, inner] of Object.entries(list)) {
      this.#path.push(name)
      if (isListOfNames(keyword, inner)) this.#readData(inner, depth + 1)
      else this.#readInner(inner, document, depth + 1)
      this.#path.pop()
    }
  }

  #readInner(value: unknown, document: JsonSchema, depth: number): void {
    if (isRecord(value)) this.#readSchema(value, document, depth)
    else if (typeof value !== 'boolean') throw this.#defect('is not a schema')
  }

  #readData(value: unknown, depth: number): void {
    if (!isObject(value)) return
    this.#count(depth)
    for (const inner of Object.values(value)) this.#readData(inner, depth + 1)
  }

  #count(depth: number): void {
    const limits = this.#limits
    if (++this.#nodes > limits.nodes) throw new Defect(`it has more than ${limits.nodes} nodes`)
    if (depth > limits.depth) {
      throw new Defect(`it is nested more than ${limits.depth} levels deep`)
    }
  }

  #defect(problem: string): Defect {
    return new Defect(`${pointerOf(this.#path)} ${problem}`)
  }

  /** Stores the names of a schema. Returns whether it is a document of its own. */
  #named(schema: JsonSchema): boolean {
    const { $id, id, $anchor, $dynamicAnchor } = schema
    const address = $id ?? (schema === this.#root ? id : undefined) // draft-04 has `id`
    // Draft-07 writes an anchor as an `$id`.
    const isDocument = isText(address) && !address.startsWith('#')
    if (isDocument) {
      const url = this.#urlOf(address)
      if (schema === this.#root) this.#base = url
      this.#name(url, schema)
    } else if (isText(address)) this.#name(address, schema)
    for (const anchor of [$anchor, $dynamicAnchor]) {
      if (isText(anchor)) this.#name(`#${anchor}`, schema)
    }
    return isDocument
  }

  /**
   * A name may be repeated by a copy of its schema: some generators write a type wherever it is used. A name of
   * different schemas is a defect only where a reference uses it.
   */
  #name(name: string, schema: JsonSchema): void {
    const isNew = !this.#names.has(name) || isDeepStrictEqual(this.#names.get(name), schema)
    this.#names.set(name, isNew ? schema : undefined)
  }

  #urlOf(address: string): string {
    return (URL.parse(address, this.#base)?.href ?? address).replace(/#$/, '')
  }

  /** A circle through a part of the value is allowed recursion, because it ends where the value ends. */
  #checkReferences(): void {
    const counted = new Map<JsonSchema, Steps>()
    /** Schemas that apply to a part of the value, and are counted separately. */
    const later = [this.#root]
    for (const next of later) this.#countSteps(next, { counted, around: new Set(), later })
  }

  #countSteps(schema: JsonSchema | boolean, context: StepContext): Steps {
    if (typeof schema === 'boolean') return { count: 1, depth: 1 }
    const { counted, around, later } = context
    const known = counted.get(schema)
    if (known !== undefined) return known
    if (around.has(schema)) throw new Defect('a reference in it leads back to itself')
    around.add(schema)
    if (around.size > MAX_CHAIN) throw new Defect(LONG_CHAIN)
    const inner = schema['$ref'] === undefined ? [] : [this.#target(schema)]
    for (const [keyword, value] of Object.entries(schema)) {
      ;(IN_PLACE.has(keyword) ? inner : later).push(...schemasIn(keyword, value))
    }
    const steps = { count: 1, depth: 1 }
    for (const one of inner) {
      const { count, depth } = this.#countSteps(one, context)
      steps.count += count
      steps.depth = Math.max(steps.depth, depth + 1)
      if (steps.count > MAX_STEPS) throw new Defect('its references multiply without bound')
      if (steps.depth > MAX_CHAIN) throw new Defect(LONG_CHAIN)
    }
    around.delete(schema)
    counted.set(schema, steps)
    return steps
  }

  #target(schema: JsonSchema): JsonSchema | boolean {
    const target = this.targetOf(schema)
    const [address = '', fragment = ''] = String(schema['$ref']).split('#', 2)
    const { pointer, document } = this.#referring.get(schema) ?? {
      pointer: '#/$ref',
      document: this.#root,
    }
    if (target === undefined) {
      const shown = String(schema['$ref']).split('?', 1)[0]?.slice(0, 100) // a query may contain secrets
      const isElsewhere = address !== '' && !this.#names.has(this.#urlOf(address))
      throw new Defect(
        isElsewhere
          ? `${pointer} leads to another document ("${shown}"), which is not fetched`
          : `${pointer} does not lead to one schema ("${shown}")`,
      )
    }
    // It may lead to data, or to the value of an unknown keyword.
    if (isRecord(target) && !this.#read.has(target)) {
      this.#path.splice(0, this.#path.length, ...stepsOf(decoded(fragment)))
      const outer = address === '' ? document : this.#names.get(this.#urlOf(address))
      this.#readSchema(target, outer ?? this.#root, 1)
    }
    return target
  }
}

/** Where a reference is. */
interface Place {
  readonly pointer: string
  readonly document: JsonSchema
}

/** The schemas that apply to one value, because of references and keywords such as `allOf`. */
interface Steps {
  readonly count: number
  /** Length of the longest chain of them. */
  readonly depth: number
}

interface StepContext {
  readonly counted: Map<JsonSchema, Steps>
  /** Schemas that are being counted. Meeting one again is a circle. */
  readonly around: Set<JsonSchema>
  readonly later: JsonSchema[]
}

/** Ends the reading of a schema. Its message becomes `SchemaDocument.defect`. */
class Defect extends Error {}

function isType(value: unknown): boolean {
  return Array.isArray(value) ? value.every((one) => TYPES.has(one)) : TYPES.has(value)
}

function isListOfTexts(value: unknown): boolean {
  return Array.isArray(value) && value.every(isText)
}

function isText(value: unknown): value is string {
  return typeof value === 'string'
}

function decoded(fragment: string): string {
  try {
    return decodeURIComponent(fragment)
  } catch {
    return fragment
  }
}

/** Returns the steps of a JSON pointer. */
function stepsOf(pointer: string): readonly string[] {
  const steps = pointer.split('/').slice(1)
  return steps.map((step) => step.replaceAll('~1', '/').replaceAll('~0', '~'))
}

function valueAt(document: JsonSchema | undefined, pointer: string): unknown {
  let value: unknown = document
  for (const name of stepsOf(pointer)) {
    if (!isObject(value) || !Object.hasOwn(value, name)) return undefined
    value = Object.getOwnPropertyDescriptor(value, name)?.value
  }
  return value
}

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
 * Returns a schema without keywords that newer drafts write differently: `nullable` of OpenAPI 3.0 becomes
 * the type `null`, and limits of draft-04 that are flags become numbers. Schemas inside it stay as they are.
 */
export function currentSchema(schema: JsonSchema): JsonSchema {
  return withCurrentLimit(withCurrentLimit(withNullType(schema), MINIMUM), MAXIMUM)
}

function withNullType({ nullable, ...schema }: JsonSchema): JsonSchema {
  if (nullable !== true) return schema
  const { type, enum: values, $ref, allOf, anyOf, oneOf } = schema
  if (type !== undefined) {
    const withNull = Array.isArray(values) ? { enum: [...new Set([...values, null])] } : {}
    return { ...schema, type: [...new Set([type, 'null'].flat())], ...withNull }
  }
  if ([$ref, allOf, anyOf, oneOf].every((one) => one === undefined)) return schema
  const { title, description, default: initial, ...alternative } = schema
  const isUnion = Array.isArray(anyOf) && Object.keys(alternative).length === 1
  return {
    anyOf: [...(isUnion ? anyOf : [alternative]), { type: 'null' }],
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

/** Returns true for a pattern that the validator can read: it compiles all patterns as Unicode. */
export function isPattern(pattern: unknown): pattern is string {
  if (typeof pattern !== 'string') return false
  try {
    return new RegExp(pattern, 'u') instanceof RegExp
  } catch {
    return false
  }
}

import { isRecord } from '@x/internal'
import type { JsonSchema } from '../base/tool-source.ts'
import { eachSubschema, LocalReferences, pointerOf, schemaKeyword } from './json-schema.ts'

/**
 * Why a schema cannot describe the arguments of a tool; `undefined` if it can. Such a tool would spoil a
 * whole request, since providers refuse all tools together. Nothing is fetched.
 */
export function schemaDefectOf(schema: unknown): string | undefined {
  if (!isRecord(schema)) return 'it is not an object'
  const { type } = schema
  if (type === undefined || type === 'object' || (Array.isArray(type) && type.includes('object'))) {
    return structureDefectOf(schema)
  }
  return `arguments are an object, but the schema is of type ${JSON.stringify(type)}`
}

/** A schema is looked at when its tool is made, and again when a model is told of it. */
const defects = new WeakMap<JsonSchema, { readonly defect: string | undefined }>()

/** Why a schema, of whatever values, can neither be followed nor evaluated; `undefined` if it can. */
export function structureDefectOf(schema: JsonSchema): string | undefined {
  const known = defects.get(schema)
  if (known !== undefined) return known.defect
  const defect = defectOf(schema)
  defects.set(schema, { defect })
  return defect
}

function defectOf(schema: JsonSchema): string | undefined {
  try {
    const form = new SchemaForm(schema)
    // Without references every schema applies once at most.
    if (form.referring.length > 0) checkReferences(schema, form)
    return undefined
  } catch (error) {
    if (error instanceof FoundDefect) return error.message
    throw error
  }
}

/** Deeper or larger is no description of arguments, and costs whoever looks at it. */
const MAX_DEPTH = 128
const MAX_NODES = 10_000

const TYPES: ReadonlySet<unknown> = new Set([
  'object',
  'array',
  'string',
  'number',
  'integer',
  'boolean',
  'null',
])

/** A schema that refers to another one, and where its `$ref` is. */
interface Referring {
  readonly schema: JsonSchema
  readonly path: readonly string[]
}

/** One walk over all of a schema: its size, its form, and what it says about references. */
class SchemaForm {
  readonly referring: Referring[] = []
  /** Whether references may go by anything but a place in the schema. */
  hasNames = false
  #nodes = 0
  /** Where the walk is. One list for all of it: places are told of defects only. */
  readonly #path: string[] = []

  /** @throws FoundDefect */
  constructor(root: JsonSchema) {
    this.hasNames = root['id'] !== undefined // of draft-04, where it stands at the root
    this.#schema(root, 1)
  }

  #schema(schema: JsonSchema, depth: number): void {
    this.#count(depth)
    for (const keyword of Object.keys(schema)) {
      const value = schema[keyword]
      if (value === undefined) continue
      this.#form(keyword, value, schema)
      this.#path.push(keyword)
      const known = schemaKeyword(keyword)
      if (known === undefined) this.#data(value, depth + 1)
      else this.#inner(value, { keyword, isMap: known.shape === 'map', depth: depth + 1 })
      this.#path.pop()
    }
  }

  /** What holds schemas: one, a list, or by name. */
  #inner(
    value: unknown,
    { keyword, isMap, depth }: { readonly keyword: string; readonly isMap: boolean; depth: number },
  ): void {
    if (Array.isArray(value)) {
      this.#count(depth)
      for (const [index, inner] of value.entries()) this.#at(String(index), inner, depth + 1)
    } else if (isMap && isRecord(value)) {
      this.#count(depth)
      for (const name of Object.keys(value)) {
        const inner = value[name]
        const isNames = keyword === 'dependencies' && Array.isArray(inner)
        if (isNames) this.#data(inner, depth + 1)
        else this.#at(name, inner, depth + 1)
      }
    } else {
      this.#one(value, depth)
    }
  }

  #at(step: string, value: unknown, depth: number): void {
    this.#path.push(step)
    this.#one(value, depth)
    this.#path.pop()
  }

  #one(value: unknown, depth: number): void {
    if (isRecord(value)) this.#schema(value, depth)
    else if (typeof value !== 'boolean') throw this.#defect('is not a schema')
  }

  #data(value: unknown, depth: number): void {
    if (!isObject(value)) return
    this.#count(depth)
    if (Array.isArray(value)) for (const item of value) this.#data(item, depth + 1)
    else for (const item of Object.values(value)) this.#data(item, depth + 1)
  }

  #count(depth: number): void {
    if (++this.#nodes > MAX_NODES) throw new FoundDefect(`it has more than ${MAX_NODES} nodes`)
    if (depth > MAX_DEPTH) {
      throw new FoundDefect(`it is nested more than ${MAX_DEPTH} levels deep`)
    }
  }

  #form(keyword: string, value: unknown, schema: JsonSchema): void {
    switch (keyword) {
      case 'type':
        if (!(Array.isArray(value) ? value.every((one) => TYPES.has(one)) : TYPES.has(value))) {
          throw this.#defect('is not a type of JSON schema', keyword)
        }
        break
      case 'required':
        if (!isListOf(value, (name) => typeof name === 'string')) {
          throw this.#defect('is not a list of names', keyword)
        }
        break
      case 'properties':
        if (!isRecord(value)) throw this.#defect('is not an object', keyword)
        break
      case 'enum':
        if (!Array.isArray(value)) throw this.#defect('is not a list', keyword)
        break
      case 'allOf':
      case 'anyOf':
      case 'oneOf':
        if (!Array.isArray(value) || value.length === 0) {
          throw this.#defect('is not a list of schemas', keyword)
        }
        break
      case '$ref':
        this.referring.push({ schema, path: [...this.#path, keyword] })
        break
      case '$id':
      case '$anchor':
      case '$dynamicAnchor':
        this.hasNames = true
        break
    }
  }

  #defect(what: string, ...steps: readonly string[]): FoundDefect {
    return new FoundDefect(`${pointerOf([...this.#path, ...steps])} ${what}`)
  }
}

function isObject(value: unknown): value is object {
  return typeof value === 'object' && value !== null
}

function isListOf(value: unknown, fits: (item: unknown) => boolean): boolean {
  return Array.isArray(value) && value.every(fits)
}

/** How often schemas may apply to one and the same value: references that double at each step grow to any number. */
const MAX_STEPS = 10_000

/** What the `$ref` of a schema leads to. One that only a reference leads to is not among them. */
type Targets = Map<JsonSchema, JsonSchema | boolean>

/**
 * References have to lead to a schema of the same document, and neither in circles nor to any number of
 * schemas for one value.
 *
 * @throws FoundDefect
 */
function checkReferences(root: JsonSchema, { referring, hasNames }: SchemaForm): void {
  const references = new LocalReferences(root, { hasNames })
  const targets: Targets = new Map()
  for (const one of referring) targets.set(one.schema, targetOf(one, references))
  const isFlat = !hasNames && [...targets].every(isPlainReference)
  if (!isFlat) checkSteps(root, { references, targets })
}

function targetOf({ schema, path }: Referring, references: LocalReferences): JsonSchema | boolean {
  const { $ref } = schema
  if (typeof $ref === 'string') {
    const found = references.resolve($ref, schema)
    if (found.kind === 'schema') return found.schema
    const shown = shortened($ref)
    const where =
      found.kind === 'remote'
        ? `leads to another document ("${shown}"), which is not fetched`
        : `leads nowhere ("${shown}")`
    throw new FoundDefect(`${pointerOf(path)} ${where}`)
  }
  throw new FoundDefect(`${pointerOf(path)} is not a text`)
}

/** In the usual places of definitions, where the walk has been. */
const TO_DEFINITION = /^#\/(?:\$defs|definitions)\/[^/]+$/

/** What leads to a definition that applies nothing else to the same value can neither go in circles nor multiply. */
function isPlainReference([{ $ref }, target]: [JsonSchema, JsonSchema | boolean]): boolean {
  if (typeof $ref !== 'string' || !TO_DEFINITION.test($ref)) return false
  if (typeof target === 'boolean') return true
  return Object.keys(target).every(
    (keyword) => keyword !== '$ref' && schemaKeyword(keyword)?.isInPlace !== true,
  )
}

interface StepContext {
  readonly references: LocalReferences
  readonly targets: Targets
  /** What was counted already. */
  readonly steps: Map<object, number>
  /** What is being counted: meeting one of them again is a circle. */
  readonly around: Set<object>
  /** What applies to a part of the value, and so starts anew. */
  readonly later: JsonSchema[]
}

/** A circle through a part of the value is recursion, which is fine: it ends where the value ends. */
function checkSteps(root: JsonSchema, given: Pick<StepContext, 'references' | 'targets'>): void {
  const later = [root]
  const steps = new Map<object, number>()
  for (let next = later.pop(); next !== undefined; next = later.pop()) {
    stepsOf(next, { ...given, steps, around: new Set(), later })
  }
}

/** How many schemas apply to one value of `schema`. */
function stepsOf(schema: JsonSchema | boolean, context: StepContext): number {
  if (typeof schema === 'boolean') return 1
  const { references, targets, steps, around, later } = context
  const known = steps.get(schema)
  if (known !== undefined) return known
  if (around.has(schema)) throw new FoundDefect('a reference in it leads back to itself')
  around.add(schema)
  let count = 1
  if (schema['$ref'] !== undefined) {
    const target = targets.get(schema) ?? targetOf({ schema, path: ['$ref'] }, references)
    count += stepsOf(target, context)
  }
  eachSubschema(schema, (inner, isInPlace) => {
    if (!isRecord(inner)) return
    if (isInPlace) count += stepsOf(inner, context)
    else later.push(inner)
  })
  if (count > MAX_STEPS) throw new FoundDefect('its references multiply without bound')
  around.delete(schema)
  steps.set(schema, count)
  return count
}

/** A reference may be a URL: its query is nobody's business. */
function shortened(reference: string): string {
  const [start = ''] = reference.split('?')
  return start.length > 100 ? `${start.slice(0, 100)}…` : start
}

/** Why a schema cannot be used, in words. Ends the search: `structureDefectOf()` catches it. */
class FoundDefect extends Error {
  override readonly name = 'FoundDefect'
}

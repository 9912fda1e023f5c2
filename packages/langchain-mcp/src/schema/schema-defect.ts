import { isObject, isRecord } from '@x/internal'
import type { JsonSchema } from '../base/tool-source.ts'
import { eachSubschema, LocalReferences, pointerOf, schemaKeyword } from './json-schema.ts'

/**
 * Returns why a schema cannot describe the arguments of a tool, or undefined if it can. One such tool would
 * spoil the whole request, because providers refuse all tools together. Nothing is fetched.
 */
export function schemaDefectOf(schema: unknown): string | undefined {
  if (!isRecord(schema)) return 'it is not an object'
  const { type } = schema
  if (type === undefined || type === 'object' || (Array.isArray(type) && type.includes('object'))) {
    return structureDefectOf(schema)
  }
  return `arguments are an object, but the schema is of type ${JSON.stringify(type)}`
}

/** A schema is checked when its tool is made, and again when a model sees it. */
const defects = new WeakMap<JsonSchema, { readonly defect: string | undefined }>()

/** Returns why a schema cannot be resolved or evaluated, or undefined if it can. */
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
    // Without references every schema applies at most once.
    if (form.referring.length > 0) checkReferences(schema, form)
    return undefined
  } catch (error) {
    if (error instanceof FoundDefect) return error.message
    throw error
  }
}

/** Limits of a schema. Deeper or larger ones take too long to check. */
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

/** A schema with a `$ref`, and the place of the `$ref`. */
interface Referring {
  readonly schema: JsonSchema
  readonly path: readonly string[]
}

/** Walks once over a whole schema. Checks its size and form, and collects its references. */
class SchemaForm {
  readonly referring: Referring[] = []
  /** True if references may use anything but pointers. */
  hasNames = false
  #nodes = 0
  /** The current place. One list for the whole walk, because only defects need it. */
  readonly #path: string[] = []

  /** @throws FoundDefect */
  constructor(root: JsonSchema) {
    this.hasNames = root['id'] !== undefined // draft-04 has `id` at the root
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

  /** Checks the value of a keyword that contains schemas: one schema, a list, or schemas by name. */
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

function isListOf(value: unknown, fits: (item: unknown) => boolean): boolean {
  return Array.isArray(value) && value.every(fits)
}

/** Limit of schemas that apply to the same value. References that double at each step grow without bound. */
const MAX_STEPS = 10_000

/**
 * Targets of the references that the walk found. References in schemas that only a reference reaches are
 * missing.
 */
type Targets = Map<JsonSchema, JsonSchema | boolean>

/**
 * Checks that references lead to a schema of the same document, without circles, and without too many
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

/** References to the usual places of definitions, which the walk visits. */
const TO_DEFINITION = /^#\/(?:\$defs|definitions)\/[^/]+$/

/**
 * Returns true if the target applies no other schema to the same value, so that circles and growth are
 * impossible.
 */
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
  /** Results so far. */
  readonly steps: Map<object, number>
  /** Schemas that are being counted. Meeting one again is a circle. */
  readonly around: Set<object>
  /** Schemas that apply to a part of the value, and are counted separately. */
  readonly later: JsonSchema[]
}

/** A circle through a part of the value is allowed recursion, because it ends where the value ends. */
function checkSteps(root: JsonSchema, given: Pick<StepContext, 'references' | 'targets'>): void {
  const later = [root]
  const steps = new Map<object, number>()
  for (let next = later.pop(); next !== undefined; next = later.pop()) {
    stepsOf(next, { ...given, steps, around: new Set(), later })
  }
}

/** Returns the number of schemas that apply to one value of `schema`. */
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

/** Removes the query, because a reference may be a URL with secrets. */
function shortened(reference: string): string {
  const [start = ''] = reference.split('?')
  return start.length > 100 ? `${start.slice(0, 100)}…` : start
}

/** Ends the walk. `structureDefectOf()` catches it and returns its message. */
class FoundDefect extends Error {
  override readonly name = 'FoundDefect'
}

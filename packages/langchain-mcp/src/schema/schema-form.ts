import { isRecord } from '@x/internal'
import type { JsonSchema } from '../catalogue/tool-source.ts'
import { FoundDefect } from './found-defect.ts'
import { pointerOf, schemaKeyword } from './subschemas.ts'

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
export interface Referring {
  readonly schema: JsonSchema
  readonly path: readonly string[]
}

/** One walk over all of a schema: its size, its form, and what it says about references. */
export class SchemaForm {
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

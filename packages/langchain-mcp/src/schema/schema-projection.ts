import { isRecord } from '@x/internal'
import type { JsonSchema } from '../base/tool-source.ts'
import { googleProjection } from './google-projection.ts'
import { LocalReferences, mapSubschemas, pointerOf } from './json-schema.ts'
import { objectShapeOf } from './object-shape.ts'
import { isPattern, withCurrentLimits, withNullType } from './schema-check.ts'

/**
 * The part of a tool's schema that the model sees. Arguments are always checked against the whole schema.
 *
 * - `common`: the schema as OpenAI and Anthropic accept it. Keywords that they refuse at the root (`$ref`,
 *   `allOf`, `anyOf`, `oneOf`, `not`, `enum`) are merged into one object, and older drafts become 2020-12.
 *   Other schemas stay as they are.
 * - `openai`: as `common`. `anthropic`: as `common`, without arguments whose names it refuses.
 * - `google`: the part of OpenAPI 3.0 that Gemini reads: references are inlined, recursion is cut,
 *   conditions are left out.
 * - `none`: the server's schema as it is.
 * - a function: the schema that it returns. `note` takes one line for each thing that is left out.
 */
export type SchemaProjection =
  | 'common'
  | 'openai'
  | 'anthropic'
  | 'google'
  | 'none'
  | SchemaProjector

/** Returns the schema that the model sees. `note` takes one line for each thing that is left out. */
export type SchemaProjector = (schema: JsonSchema, note: (text: string) => void) => JsonSchema

export interface ProjectedSchema {
  readonly schema: JsonSchema
  /** Parts of the schema that the model does not see, one line each. They are checked at the call. */
  readonly notes: readonly string[]
}

/** Limit of notes in one list. */
const MAX_NOTES = 20

/** Argument names that Anthropic accepts. */
const ANTHROPIC_NAME = /^[a-zA-Z0-9_.-]{1,64}$/

export function projectedSchema(schema: JsonSchema, projection: SchemaProjection): ProjectedSchema {
  const notes: string[] = []
  let more = 0
  const note = (text: string): void => {
    if (notes.includes(text)) return
    if (notes.length < MAX_NOTES) notes.push(text)
    else more++
  }
  const shown = projectorOf(projection)(schema, note)
  return { schema: shown, notes: more > 0 ? [...notes, `and ${more} more`] : notes }
}

function projectorOf(projection: SchemaProjection): SchemaProjector {
  if (typeof projection === 'function') return projection
  switch (projection) {
    case 'none':
      return (schema) => schema
    case 'common':
    case 'openai':
      return (schema, note) => commonProjection(schema, { note })
    case 'anthropic':
      return (schema, note) => commonProjection(schema, { note, argumentNames: ANTHROPIC_NAME })
    case 'google':
      return googleProjection
  }
}

interface CommonProjectionOptions {
  readonly note: (text: string) => void
  /** Allowed argument names; others are left out. @default any */
  readonly argumentNames?: RegExp | undefined
}

/** Keywords that OpenAI or Anthropic refuse at the root of a schema. They would refuse the whole request. */
const REFUSED_AT_ROOT = ['$ref', 'allOf', 'anyOf', 'oneOf', 'not', 'enum', 'const'] as const

/** Names and dialects of schemas, which have no meaning after references are rewritten. */
const IDENTITY: ReadonlySet<string> = new Set([
  '$schema',
  '$id',
  '$anchor',
  '$dynamicAnchor',
  '$vocabulary',
  '$comment',
])

/** References that providers follow: to the definitions of the root. */
const DEFINITION = /^#\/(?:\$defs|definitions)\/[^/%~]+$/

/**
 * Returns a schema that OpenAI and Anthropic accept: an object at the root, in 2020-12, with references to
 * `$defs` only. Nothing below the root is lost. Combinations of fields at the root become a sentence.
 */
function commonProjection(schema: JsonSchema, options: CommonProjectionOptions): JsonSchema {
  const shown = new CommonProjection(schema, options).project()
  return JSON.stringify(shown) === JSON.stringify(schema) ? schema : shown
}

class CommonProjection {
  readonly #root: JsonSchema
  readonly #options: CommonProjectionOptions
  readonly #references: LocalReferences
  readonly #isFolded: boolean
  /** Targets of references in other forms, and the names of the definitions that they became. */
  readonly #moved = new Map<object, string>()
  readonly #definitions: [name: string, schema: unknown][] = []
  readonly #taken: Set<string>

  constructor(root: JsonSchema, options: CommonProjectionOptions) {
    this.#root = root
    this.#options = options
    this.#references = new LocalReferences(root)
    this.#isFolded = REFUSED_AT_ROOT.some((keyword) => root[keyword] !== undefined)
    const { $defs, definitions } = root
    this.#taken = new Set([
      ...Object.keys(isRecord($defs) ? $defs : {}),
      ...Object.keys(isRecord(definitions) ? definitions : {}),
    ])
  }

  project(): JsonSchema {
    const root = this.#node(this.#isFolded ? this.#foldedRoot() : this.#root, [])
    const properties = isRecord(root['properties']) ? root['properties'] : {}
    const shown = this.#withoutRefusedNames({ ...root, type: 'object', properties })
    if (this.#definitions.length === 0) return shown
    const own = isRecord(shown['$defs']) ? Object.entries(shown['$defs']) : []
    return { ...shown, $defs: Object.fromEntries([...own, ...this.#definitions]) }
  }

  #foldedRoot(): JsonSchema {
    const { note } = this.#options
    const shape = objectShapeOf(this.#root, this.#references)
    const rest = Object.entries(this.#root).filter(
      ([keyword]) => !REFUSED_AT_ROOT.some((refused) => refused === keyword),
    )
    for (const keyword of ['not', 'enum', 'const', 'oneOf', 'anyOf'] as const) {
      if (this.#root[keyword] !== undefined) note(`#: "${keyword}" is not shown`)
    }
    const description = descriptionOf(this.#root, shape.alternatives)
    if (shape.alternatives.length > 0) {
      note('#: alternatives are shown as one object with the fields of all of them')
    }
    return {
      ...Object.fromEntries(rest),
      type: 'object',
      ...(description !== undefined && { description }),
      properties: Object.fromEntries(shape.properties),
      ...(shape.required.length > 0 && { required: shape.required }),
      ...(shape.isClosed && { additionalProperties: false }),
    }
  }

  #node(given: JsonSchema, path: readonly string[]): Record<string, unknown> {
    const { note } = this.#options
    const reference = this.#referenceFor(given, path)
    let schema = withCurrentLimits(withNullType(given))
    schema = withCurrentDependencies(withCurrentItems(schema))
    const { $ref, pattern, $dynamicRef, $recursiveRef, ...rest } = without(schema, IDENTITY)
    if ($dynamicRef !== undefined || $recursiveRef !== undefined) {
      note(`${pointerOf(path)}: a dynamic reference is not shown`)
    }
    const isReadable = pattern === undefined || isPattern(pattern)
    if (!isReadable)
      note(
        `${pointerOf(path)}: "pattern" is not shown, because it is not a valid regular expression`,
      )
    const own = {
      ...($ref !== undefined && { $ref: reference ?? $ref }),
      ...rest,
      ...(isReadable && pattern !== undefined && { pattern }),
    }
    return mapSubschemas(own, (inner, below) => this.#inner(inner, [...path, ...below]))
  }

  #inner(schema: unknown, path: readonly string[]): unknown {
    if (isRecord(schema)) return this.#node(schema, path)
    const isField = path.at(-2) === 'properties'
    return isField ? (schema === false ? { not: {} } : {}) : schema
  }

  /** Returns the new `$ref`, or undefined without a reference. */
  #referenceFor(schema: JsonSchema, path: readonly string[]): string | undefined {
    const { $ref } = schema
    if (typeof $ref !== 'string') return undefined
    const found = this.#references.resolve($ref, schema)
    if (found.kind !== 'schema' || typeof found.schema === 'boolean') return $ref
    const { schema: target } = found
    const isRoot = target === this.#root
    if (isRoot && !this.#isFolded) return '#'
    if (DEFINITION.test($ref) && this.#isOwnDefinition($ref, target)) return $ref
    const known = this.#moved.get(target)
    if (known !== undefined) return `#/$defs/${known}`
    const name = this.#freeName(isRoot ? 'root' : nameFrom($ref, path))
    this.#moved.set(target, name)
    this.#taken.add(name)
    const moved = isRoot ? without(target, new Set(['$defs', 'definitions'])) : target
    // reserves the place, so that definitions stay in the order of their references
    this.#definitions.push([name, undefined])
    const index = this.#definitions.length - 1
    this.#definitions[index] = [name, this.#node(moved, ['$defs', name])]
    return `#/$defs/${name}`
  }

  #isOwnDefinition($ref: string, target: object): boolean {
    const [, keyword = '', name = ''] = $ref.split('/')
    const definitions = this.#root[keyword]
    return isRecord(definitions) && Object.hasOwn(definitions, name) && definitions[name] === target
  }

  #freeName(wanted: string): string {
    for (let number = 1; ; number++) {
      const name = number === 1 ? wanted : `${wanted}_${number}`
      if (!this.#taken.has(name)) return name
    }
  }

  #withoutRefusedNames(schema: JsonSchema): JsonSchema {
    const { argumentNames, note } = this.#options
    const { properties, required } = schema
    if (argumentNames === undefined || !isRecord(properties)) return schema
    const refused = Object.keys(properties).filter((name) => !argumentNames.test(name))
    if (refused.length === 0) return schema
    for (const name of refused) note(`${pointerOf(['properties', name])}: not shown, for its name`)
    return {
      ...schema,
      properties: without(properties, new Set(refused)),
      ...(Array.isArray(required) && {
        required: required.filter((name) => !refused.includes(String(name))),
      }),
    }
  }
}

/** Draft-07 writes tuples as a list of `items`. Some providers refuse an array without `items`. */
function withCurrentItems(schema: JsonSchema): JsonSchema {
  const { items, additionalItems, ...rest } = schema
  if (Array.isArray(items)) {
    return {
      ...rest,
      prefixItems: items,
      ...(additionalItems !== undefined && { items: additionalItems }),
    }
  }
  const { type, prefixItems } = schema
  const isArray = type === 'array' || (Array.isArray(type) && type.includes('array'))
  return isArray && items === undefined && prefixItems === undefined
    ? { ...schema, items: {} }
    : schema
}

/** `dependencies` of draft-07 became two keywords. */
function withCurrentDependencies(schema: JsonSchema): JsonSchema {
  const { dependencies, ...rest } = schema
  if (!isRecord(dependencies)) return schema
  const entries = Object.entries(dependencies)
  const names = entries.filter(([, value]) => Array.isArray(value))
  const schemas = entries.filter(([, value]) => !Array.isArray(value))
  return {
    ...rest,
    ...(names.length > 0 && { dependentRequired: Object.fromEntries(names) }),
    ...(schemas.length > 0 && { dependentSchemas: Object.fromEntries(schemas) }),
  }
}

function descriptionOf(
  { description }: JsonSchema,
  alternatives: readonly (readonly string[])[],
): string | undefined {
  const own = typeof description === 'string' ? description : undefined
  const sets = [
    ...new Set(alternatives.filter((one) => one.length > 0).map((one) => one.join(', '))),
  ]
  if (sets.length < 2) return own
  const words = `Give one of these sets of fields: ${sets.map((one) => `(${one})`).join(' or ')}.`
  return own === undefined ? words : `${own} ${words}`
}

function nameFrom($ref: string, path: readonly string[]): string {
  const last = ($ref.split(/[#/]/).at(-1) ?? '').replaceAll(/[^A-Za-z0-9_-]/g, '')
  return last === '' ? (path.at(-1) ?? 'schema').replaceAll(/[^A-Za-z0-9_-]/g, '_') : last
}

function without(schema: JsonSchema, keys: ReadonlySet<string>): Readonly<Record<string, unknown>> {
  return Object.fromEntries(Object.entries(schema).filter(([key]) => !keys.has(key)))
}

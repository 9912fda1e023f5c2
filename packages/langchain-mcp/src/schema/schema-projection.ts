import { isRecord } from '@x/internal'
import type { JsonSchema } from '../base/tool-source.ts'
import { googleProjection } from './google-projection.ts'
import { LocalReferences, mapSubschemas, pointerOf } from './json-schema.ts'
import { objectShapeOf } from './object-shape.ts'
import { isPattern, withCurrentLimits, withNullType } from './schema-check.ts'

/**
 * What of a tool's schema the model is shown. Arguments are checked against the whole schema whatever is shown.
 *
 * - `common`: everything that is left when what OpenAI or Anthropic refuse for the root of a schema is
 *   folded (`$ref`, `allOf`, `anyOf`, `oneOf`, `not`, `enum`), and older spellings are brought to 2020-12.
 *   A schema that has none of it stays as it is.
 * - `openai`: the same. `anthropic`: the same, without arguments whose names it refuses.
 * - `google`: the part of OpenAPI 3.0 that Gemini reads: references inlined, recursion cut, no conditions.
 * - `none`: the server's schema as it is.
 * - a function: the schema it returns; `note` takes what of the schema the model does not see.
 */
export type SchemaProjection =
  | 'common'
  | 'openai'
  | 'anthropic'
  | 'google'
  | 'none'
  | SchemaProjector

/** Makes of a server's schema what the model is shown; `note` takes one line for each thing that is left out. */
export type SchemaProjector = (schema: JsonSchema, note: (text: string) => void) => JsonSchema

export interface ProjectedSchema {
  readonly schema: JsonSchema
  /** What the model does not see of the schema, one line each. It is checked at the call all the same. */
  readonly notes: readonly string[]
}

/** A long list of notes is read by no one. */
const MAX_NOTES = 20

/** Names of arguments that Anthropic takes. */
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
  /** The names that arguments may have; others are not shown. @default any */
  readonly argumentNames?: RegExp | undefined
}

/** What OpenAI or Anthropic refuse for the root of a schema, and with it every tool of the request. */
const REFUSED_AT_ROOT = ['$ref', 'allOf', 'anyOf', 'oneOf', 'not', 'enum', 'const'] as const

/** Names and dialects of schemas: without meaning once references have been rewritten. */
const IDENTITY: ReadonlySet<string> = new Set([
  '$schema',
  '$id',
  '$anchor',
  '$dynamicAnchor',
  '$vocabulary',
  '$comment',
])

/** References that providers follow: into the definitions of the root. */
const DEFINITION = /^#\/(?:\$defs|definitions)\/[^/%~]+$/

/**
 * A schema as both OpenAI and Anthropic take it: an object at the root, the dialect of 2020-12, references
 * into `$defs` alone. Nothing below the root is lost; what goes together at the root is said in words.
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
  /** Schemas that were referred to in a way of their own, and the definitions they became. */
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
    if (!isReadable) note(`${pointerOf(path)}: "pattern" is not shown, it is no regular expression`)
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

  /** The way to write a `$ref`, where it is not what it was. */
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
    this.#definitions.push([name, undefined]) // keeps the order of mention
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

/** Draft-07 wrote tuples as a list of `items`; some providers refuse an array without any. */
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

import {
  currentSchema,
  definedFields,
  documentOf,
  isPattern,
  isRecord,
  mapSubschemas,
  objectShapeOf,
  pointerOf,
  type SchemaDocument,
} from '@x/internal'
import type { JsonSchema } from '../tool-source.ts'
import { googleProjection } from './google-projection.ts'
import { without } from './json-schema.ts'
import { portableSchema } from './portable-schema.ts'
import { withShownNames } from './shown-names.ts'

/**
 * The part of a tool's schema that the model sees. Arguments are always checked against the whole schema.
 *
 * - `common`: the schema as most providers accept it. Keywords that OpenAI and Anthropic refuse at the root (`$ref`,
 *   `allOf`, `anyOf`, `oneOf`, `not`, `enum`) are merged into one object, older drafts become 2020-12, and values
 *   get types where Moonshot wants them. Other schemas stay as they are.
 * - `openai`, `anthropic`: as `common`. Arguments whose names Anthropic refuses have other names in all three.
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
type SchemaProjector = (schema: JsonSchema, note: (text: string) => void) => JsonSchema

export interface ProjectedSchema {
  readonly schema: JsonSchema
  /** Parts of the schema that the model does not see, one line each. They are checked at the call. */
  readonly notes: readonly string[]
  /** Names of arguments on the server, by the names that the model sees. Only those that differ. @default none */
  readonly names?: ReadonlyMap<string, string> | undefined
}

/** Limit of notes in one list. */
const MAX_NOTES = 20

export function projectedSchema(schema: JsonSchema, projection: SchemaProjection): ProjectedSchema {
  const all = new Set<string>()
  const shown = projectorOf(projection)(schema, (text) => void all.add(text))
  const notes = [...all].slice(0, MAX_NOTES)
  const more = all.size - notes.length
  const projected = { schema: shown, notes: more > 0 ? [...notes, `and ${more} more`] : notes }
  const isNamed = projection === 'common' || projection === 'openai' || projection === 'anthropic'
  return isNamed ? { ...projected, ...withShownNames(shown) } : projected
}

function projectorOf(projection: SchemaProjection): SchemaProjector {
  if (typeof projection === 'function') return projection
  switch (projection) {
    case 'none':
      return (schema) => schema
    case 'common':
    case 'openai':
    case 'anthropic':
      return commonProjection
    case 'google':
      return googleProjection
  }
}

/** Keywords that OpenAI or Anthropic refuse at the root of a schema. They would refuse the whole request. */
const REFUSED_AT_ROOT = ['$ref', 'allOf', 'anyOf', 'oneOf', 'not', 'enum', 'const'] as const

/** Names and dialects of schemas, which have no meaning after references are rewritten. */
const IDENTITY: ReadonlySet<string> = new Set(
  '$schema $id $anchor $dynamicAnchor $vocabulary $comment'.split(' '),
)

const DEFINITIONS = ['$defs', 'definitions'] as const

/** Keywords whose schemas are conditions for a value, and do not describe it. */
const CONDITIONS: ReadonlySet<string> = new Set(
  'allOf not if then else contains propertyNames dependentSchemas'.split(' '),
)

/** Keyword of draft-07. Definitions that a reference uses are moved. */
const OLD_DEFINITIONS: ReadonlySet<string> = new Set(['definitions'])

/** References that all providers follow: Moonshot refuses those to `definitions` (Softeria/ms-365-mcp-server#458). */
const DEFINITION = /^#\/\$defs\/([^/%~]+)$/

/**
 * Returns a schema that most providers accept: an object at the root, in 2020-12, with references to `$defs` only, and
 * with `portableSchema()` below. Nothing below the root is lost. Combinations of fields at the root become a sentence.
 */
function commonProjection(schema: JsonSchema, note: (text: string) => void): JsonSchema {
  const shown = new CommonProjection(schema, note).project()
  return JSON.stringify(shown) === JSON.stringify(schema) ? schema : shown
}

class CommonProjection {
  readonly #root: JsonSchema
  readonly #note: (text: string) => void
  readonly #document: SchemaDocument
  /** True if keywords of the root are merged into one object. */
  readonly #isFolded: boolean
  /** Names of the definitions that targets of other references become, in the order of the references. */
  readonly #moved = new Map<JsonSchema, string>()
  readonly #names: Set<string>
  readonly #repeated = { characters: 0 }

  constructor(root: JsonSchema, note: (text: string) => void) {
    this.#root = root
    this.#note = note
    this.#document = documentOf(root)
    this.#isFolded = REFUSED_AT_ROOT.some((keyword) => root[keyword] !== undefined)
    this.#names = new Set(isRecord(root['$defs']) ? Object.keys(root['$defs']) : [])
  }

  project(): JsonSchema {
    const shape = this.#isFolded ? this.#foldedRoot() : this.#root
    const root = this.#node({ ...shape, type: 'object' }, [])
    const properties = isRecord(root['properties']) ? root['properties'] : {}
    const definitions = Object.entries(isRecord(root['$defs']) ? root['$defs'] : {})
    // The loop reaches targets that it adds. A recursion would overflow the stack.
    for (const [target, name] of this.#moved) {
      const schema = target === this.#root ? without(target, new Set(DEFINITIONS)) : target
      definitions.push([name, this.#node(schema, ['$defs', name])])
    }
    const $defs = this.#moved.size > 0 && { $defs: Object.fromEntries(definitions) }
    return { ...without(root, OLD_DEFINITIONS), type: 'object', properties, ...$defs }
  }

  #foldedRoot(): JsonSchema {
    const { properties, required, isClosed, alternatives } = objectShapeOf(
      this.#root,
      this.#document,
    )
    for (const keyword of ['not', 'enum', 'const', 'oneOf', 'anyOf'] as const) {
      if (this.#root[keyword] !== undefined) this.#note(`#: "${keyword}" is not shown`)
    }
    if (alternatives.length > 0) {
      this.#note('#: alternatives are shown as one object with the fields of all of them')
    }
    return {
      ...without(this.#root, new Set(REFUSED_AT_ROOT)),
      type: 'object',
      ...definedFields({ description: descriptionOf(this.#root, alternatives) }),
      properties: Object.fromEntries(properties),
      ...(required.length > 0 && { required }),
      ...(isClosed && { additionalProperties: false }),
    }
  }

  #node(given: JsonSchema, path: readonly string[], isValue = true): Record<string, unknown> {
    const $ref = given['$ref'] === undefined ? {} : { $ref: this.#referenceTo(given, path) }
    const referring = currentSchema({ ...given, ...$ref })
    const current = withCurrentDependencies(withCurrentItems(referring))
    const { pattern, $dynamicRef, $recursiveRef, ...own } = without(current, IDENTITY)
    if ($dynamicRef !== undefined || $recursiveRef !== undefined) {
      this.#note(`${pointerOf(path)}: a dynamic reference is not shown`)
    }
    if (pattern !== undefined && !isPattern(pattern)) {
      const reason = 'because it is not a valid regular expression'
      this.#note(`${pointerOf(path)}: "pattern" is not shown, ${reason}`)
    }
    const changed = { ...own, ...(isPattern(pattern) && { pattern }) }
    const note = (text: string): void => this.#note(`${pointerOf(path)}: ${text}`)
    const context = { note, repeated: this.#repeated }
    const shown = isValue
      ? portableSchema(changed, this.#document.targetOf(given), context)
      : changed
    return mapSubschemas(shown, (inner, below) => {
      const [keyword = ''] = below
      const schema = keyword === 'properties' && inner === true ? {} : inner
      if (isRecord(schema)) {
        const isAny = keyword === 'additionalProperties' && Object.keys(schema).length === 0
        const isInnerValue = isValue && !isAny && !CONDITIONS.has(keyword)
        return this.#node(schema, [...path, ...below], isInnerValue)
      }
      return keyword === 'properties' ? { not: {} } : inner
    })
  }

  /** Returns the new `$ref` of a schema. */
  #referenceTo(schema: JsonSchema, path: readonly string[]): unknown {
    const { $ref } = schema
    const target = this.#document.targetOf(schema)
    if (!isRecord(target)) return $ref
    const isRoot = target === this.#root // llama.cpp refuses "#"
    const [, definition = ''] = DEFINITION.exec(String($ref)) ?? []
    const definitions = this.#root['$defs']
    const isDefinition = isRecord(definitions) && Object.hasOwn(definitions, definition)
    if (isDefinition && definitions[definition] === target) return $ref
    const name = this.#moved.get(target) ?? this.#newName(isRoot ? 'root' : nameFrom($ref, path))
    this.#moved.set(target, name)
    return `#/$defs/${name}`
  }

  #newName(wanted: string): string {
    let name = wanted
    for (let number = 2; this.#names.has(name); number++) name = `${wanted}_${number}`
    this.#names.add(name)
    return name
  }
}

/**
 * Draft-07 writes tuples as a list of `items`. Some providers refuse an array without `items`, also if it has
 * `prefixItems` (PrefectHQ/fastmcp#2464).
 */
function withCurrentItems(schema: JsonSchema): JsonSchema {
  const { items, additionalItems, ...rest } = schema
  if (Array.isArray(items)) return { ...rest, prefixItems: items, items: additionalItems ?? {} }
  const isArray = [schema['type']].flat().includes('array') || schema['prefixItems'] !== undefined
  return isArray && (items === undefined || items === true) ? { ...schema, items: {} } : schema
}

/** `dependencies` of draft-07 became two keywords. */
function withCurrentDependencies(schema: JsonSchema): JsonSchema {
  const { dependencies, ...rest } = schema
  if (!isRecord(dependencies)) return schema
  const [names, schemas] = [true, false].map((isNames) =>
    Object.entries(dependencies).filter(([, value]) => Array.isArray(value) === isNames),
  )
  return {
    ...rest,
    ...(names?.length && { dependentRequired: Object.fromEntries(names) }),
    ...(schemas?.length && { dependentSchemas: Object.fromEntries(schemas) }),
  }
}

function descriptionOf(
  { description }: JsonSchema,
  alternatives: readonly (readonly string[])[],
): unknown {
  const sets = new Set(alternatives.filter((one) => one.length > 0).map((one) => one.join(', ')))
  if (sets.size < 2) return description
  const words = `Give one of these sets of fields: ${Array.from(sets, (one) => `(${one})`).join(' or ')}.`
  return typeof description === 'string' ? `${description} ${words}` : words
}

function nameFrom($ref: unknown, path: readonly string[]): string {
  const last = (String($ref).split(/[#/]/).at(-1) ?? '').replaceAll(/[^A-Za-z0-9_-]/g, '')
  return last === '' ? (path.at(-1) ?? 'schema').replaceAll(/[^A-Za-z0-9_-]/g, '_') : last
}

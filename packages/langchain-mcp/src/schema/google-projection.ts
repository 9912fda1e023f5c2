import { isRecord } from '@x/internal'
import type { JsonSchema } from '../base/tool-source.ts'
import { LocalReferences, pointerOf } from './json-schema.ts'
import { objectShapeOf } from './object-shape.ts'
import { isPattern, withCurrentLimits, withNullType } from './schema-check.ts'

/** Limit of nodes, because inlined references multiply. Further nodes become objects without fields. */
const MAX_NODES = 10_000
const MAX_DEPTH = 32

type Node = Record<string, unknown>

/**
 * Returns the part of a schema that Gemini reads (its `Schema`, a subset of OpenAPI 3.0): references are
 * inlined, recursion is cut after one level, unions become `anyOf`, null becomes `nullable`, and only lists
 * of texts become `enum`.
 */
export function googleProjection(schema: JsonSchema, note: (text: string) => void): JsonSchema {
  return new GoogleProjection(schema, note).project()
}

interface Place {
  readonly path: readonly string[]
  /** References that were followed to this place. */
  readonly around: ReadonlySet<object>
}

class GoogleProjection {
  readonly #root: JsonSchema
  readonly #note: (text: string) => void
  readonly #references: LocalReferences
  #nodes = 0

  constructor(root: JsonSchema, note: (text: string) => void) {
    this.#root = root
    this.#note = note
    this.#references = new LocalReferences(root)
  }

  project(): JsonSchema {
    return this.#object(this.#root, { path: [], around: new Set([this.#root]) })
  }

  #node(given: unknown, place: Place): Node {
    const at = pointerOf(place.path)
    if (++this.#nodes > MAX_NODES || place.path.length > MAX_DEPTH * 2) {
      this.#note(`${at}: shown as an object of any kind, the schema is too large`)
      return { type: 'object' }
    }
    if (!isRecord(given)) return this.#anything(at)
    if (typeof given['$ref'] === 'string') return this.#referred(given, place)
    const schema = withCurrentLimits(withNullType(given))
    const union = schema['anyOf'] ?? schema['oneOf']
    const isObject =
      schema['type'] === 'object' ||
      (schema['type'] === undefined && isRecord(schema['properties']))
    if (isObject || (union === undefined && schema['allOf'] !== undefined)) {
      const isPlainIntersection = !isObject && !this.#hasFields(schema)
      return isPlainIntersection ? this.#merged(schema, place) : this.#object(schema, place)
    }
    if (Array.isArray(union)) return this.#union(schema, { members: union, place })
    return this.#value(schema, place)
  }

  #hasFields(schema: JsonSchema): boolean {
    return objectShapeOf(schema, this.#references).properties.size > 0
  }

  #referred(schema: JsonSchema, place: Place): Node {
    const { $ref, description } = schema
    const found = this.#references.resolve(String($ref), schema)
    const target = found.kind === 'schema' ? found.schema : undefined
    const at = pointerOf(place.path)
    if (!isRecord(target)) return this.#anything(at)
    if (place.around.has(target)) {
      this.#note(`${at}: recursion is shown one level deep`)
      const type = typeof target['type'] === 'string' ? target['type'] : 'object'
      return { type, description: 'As above.', ...(type === 'array' && { items: TEXT }) }
    }
    const inner = this.#node(target, { ...place, around: new Set([...place.around, target]) })
    return description === undefined ? inner : { ...inner, description }
  }

  #object(schema: JsonSchema, place: Place): Node {
    const { properties, required, alternatives } = objectShapeOf(schema, this.#references)
    const at = pointerOf(place.path)
    if (alternatives.length > 0) {
      this.#note(`${at}: alternatives are shown as one object with the fields of all of them`)
    }
    this.#noteDropped(schema, at)
    const shown = [...properties].map(([name, inner]): [string, Node] => [
      name,
      this.#node(inner, { ...place, path: [...place.path, 'properties', name] }),
    ])
    const known = required.filter((name) => properties.has(name))
    return {
      type: 'object',
      ...wordsOf(schema),
      properties: Object.fromEntries(shown),
      ...(known.length > 0 && { required: known }),
    }
  }

  /** Merges the restrictions of one value that is not an object. */
  #merged(schema: JsonSchema, place: Place): Node {
    const { allOf, ...own } = schema
    const parts = Array.isArray(allOf) ? allOf : []
    const nodes = parts.map((part: unknown) => this.#node(part, place))
    const rest =
      Object.keys(own).length > 0 && own['type'] !== undefined ? [this.#value(own, place)] : []
    return { ...Object.assign({}, ...nodes, ...rest), ...wordsOf(own) }
  }

  #union(
    schema: JsonSchema,
    { members, place }: { readonly members: readonly unknown[]; readonly place: Place },
  ): Node {
    const keyword = schema['anyOf'] === undefined ? 'oneOf' : 'anyOf'
    const at = pointerOf(place.path)
    const isNullable = members.some(isNull)
    const shown = members
      .map((member, index) => ({ member, path: [...place.path, keyword, String(index)] }))
      .filter(({ member }) => !isNull(member))
      .map(({ member, path }) => this.#node(member, { ...place, path }))
    if (keyword === 'oneOf') this.#note(`${at}: "oneOf" is shown as "anyOf"`)
    const { anyOf: _, oneOf: __, ...rest } = schema
    this.#noteDropped(rest, at)
    const nullable = isNullable ? { nullable: true } : {}
    const words = wordsOf(schema)
    const texts = shown.map(({ enum: values }) => values)
    if (shown.length > 1 && texts.every((one) => Array.isArray(one))) {
      return { type: 'string', ...words, enum: [...new Set(texts.flat())], ...nullable }
    }
    const [only] = shown
    if (only === undefined) return { ...this.#anything(at), ...words, ...nullable }
    return shown.length === 1
      ? { ...only, ...words, ...nullable }
      : { ...words, anyOf: shown, ...nullable }
  }

  #value(schema: JsonSchema, place: Place): Node {
    const at = pointerOf(place.path)
    const { type, const: constant, enum: listed } = schema
    this.#noteDropped(schema, at)
    const values: readonly unknown[] | undefined =
      constant === undefined ? (Array.isArray(listed) ? listed : undefined) : [constant]
    const given: readonly unknown[] = Array.isArray(type) ? type : type === undefined ? [] : [type]
    const types = given.length > 0 ? given : typesOf(values ?? [])
    const named = types.filter((one) => one !== 'null')
    const nullable =
      types.length > named.length || values?.includes(null) === true ? { nullable: true } : {}
    if (named.length > 1) {
      const anyOf = named.map((one, index) =>
        this.#value(
          { ...schema, type: one, description: undefined },
          {
            ...place,
            path: [...place.path, 'type', String(index)],
          },
        ),
      )
      return { ...wordsOf(schema), anyOf, ...nullable }
    }
    const [only] = named
    if (only === undefined) return { ...this.#anything(at), ...wordsOf(schema), ...nullable }
    if (only === 'object') return { ...this.#object({ ...schema, type: only }, place), ...nullable }
    return {
      type: only,
      ...wordsOf(schema),
      ...(values !== undefined && valuesFor({ schema, values, type: only })),
      ...textRulesOf(schema),
      ...(only === 'array' && { items: this.#items(schema, place) }),
      ...nullable,
    }
  }

  #items({ items, prefixItems }: JsonSchema, place: Place): Node {
    const path = [...place.path, 'items']
    const tuple = Array.isArray(prefixItems)
      ? prefixItems
      : Array.isArray(items)
        ? items
        : undefined
    if (tuple === undefined) return this.#node(items ?? { type: 'string' }, { ...place, path })
    this.#note(`${pointerOf(place.path)}: the order of the items is not shown`)
    const shown = tuple.map((item: unknown, index) =>
      this.#node(item, { ...place, path: [...path, String(index)] }),
    )
    const different = [...new Map(shown.map((one) => [JSON.stringify(one), one])).values()]
    return different.length === 1 ? { ...different[0] } : { anyOf: different }
  }

  #anything(at: string): Node {
    this.#note(`${at}: a value of any kind is shown as text`)
    return { ...TEXT }
  }

  #noteDropped(schema: JsonSchema, at: string): void {
    for (const keyword of droppedKeywordsOf(schema)) this.#note(`${at}: "${keyword}" is not shown`)
  }
}

const TEXT = { type: 'string' } as const

/** `enum` is for texts. Other values become a sentence. */
function valuesFor({
  schema: { description },
  values,
  type,
}: {
  readonly schema: JsonSchema
  readonly values: readonly unknown[]
  readonly type: unknown
}): Node {
  const others = values.filter((value) => value !== null)
  if (type === 'string' && others.every((value) => typeof value === 'string')) {
    return { enum: others }
  }
  const words = `One of: ${others.map((value) => JSON.stringify(value)).join(', ')}.`
  return { description: typeof description === 'string' ? `${description} ${words}` : words }
}

function typesOf(values: readonly unknown[]): unknown[] {
  return [
    ...new Set(
      values.map((value) =>
        value === null ? 'null' : Array.isArray(value) ? 'array' : typeof value,
      ),
    ),
  ]
}

function isNull(schema: unknown): boolean {
  return (
    isRecord(schema) &&
    (schema['type'] === 'null' || schema['const'] === null) &&
    schema['enum'] === undefined
  )
}

/** Keywords of Gemini's `Schema` that are copied. */
const PLAIN: ReadonlySet<string> = new Set([
  'title',
  'minItems',
  'maxItems',
  'minProperties',
  'maxProperties',
  'minLength',
  'maxLength',
  'minimum',
  'maximum',
])

/** Keywords that are converted, or that do not restrict values. */
const READ: ReadonlySet<string> = new Set([
  'type',
  'description',
  'nullable',
  'enum',
  'const',
  'properties',
  'required',
  'items',
  'prefixItems',
  'anyOf',
  'oneOf',
  'allOf',
  'pattern',
  'format',
  '$ref',
  '$defs',
  'definitions',
  '$schema',
  '$id',
  'id',
  '$anchor',
  '$comment',
  'default',
  'examples',
  'deprecated',
  'readOnly',
  'writeOnly',
])

const FORMATS: ReadonlySet<unknown> = new Set([
  'date-time',
  'enum',
  'int32',
  'int64',
  'float',
  'double',
])

/** Returns title, description and limits. */
function wordsOf(schema: JsonSchema): Record<string, unknown> {
  const entries = Object.entries(schema).filter(
    ([keyword, value]) => value !== undefined && (PLAIN.has(keyword) || keyword === 'description'),
  )
  return Object.fromEntries(entries)
}

/** Returns pattern and format, if Gemini can read them. */
function textRulesOf({ pattern, format }: JsonSchema): Record<string, unknown> {
  return {
    ...(isPattern(pattern) && { pattern }),
    ...(FORMATS.has(format) && { format }),
  }
}

/** Returns the keywords that Gemini does not see although they restrict values. */
function droppedKeywordsOf(schema: JsonSchema): string[] {
  return Object.entries(schema).flatMap(([keyword, value]) => {
    const isUnreadable = keyword === 'pattern' && !isPattern(value)
    const isKnown = PLAIN.has(keyword) || (READ.has(keyword) && !isUnreadable)
    const isFormat = keyword === 'format' && !FORMATS.has(value)
    return (!isKnown || isFormat) && value !== undefined && value !== true ? [keyword] : []
  })
}

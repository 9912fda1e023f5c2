import {
  currentSchema,
  definedFields,
  documentOf,
  isPattern,
  isRecord,
  objectShapeOf,
  pointerOf,
  type SchemaDocument,
} from '@x/internal'
import type { JsonSchema } from '../tool-source.ts'

/**
 * Limits of the result, because inlined references multiply. Deeper parts become objects without fields. The depth
 * counts every part around a part, also those of `allOf`: what a model sees must not depend on the size of the stack.
 */
const MAX_NODES = 10_000
const MAX_DEPTH = 64

type Node = Record<string, unknown>
type Path = readonly string[]

/**
 * Returns the part of a schema that Gemini reads (its `Schema`, a subset of OpenAPI 3.0): references are
 * inlined, recursion is cut after one level, unions become `anyOf`, null becomes `nullable`, and only lists
 * of texts become `enum`. LangChain does not do this: `@langchain/google` 0.2.6 refuses references and lists of
 * types and drops `oneOf`, `allOf` and `const`, and `@langchain/google-genai` 2.3.2 passes all of them on.
 */
export function googleProjection(schema: JsonSchema, note: (text: string) => void): JsonSchema {
  return new GoogleProjection(schema, note).project()
}

class GoogleProjection {
  readonly #root: JsonSchema
  readonly #note: (text: string) => void
  readonly #document: SchemaDocument
  /** References that were followed to the current place. */
  readonly #around: Set<object>
  #nodes = 0
  #depth = 0

  constructor(root: JsonSchema, note: (text: string) => void) {
    this.#root = root
    this.#note = note
    this.#document = documentOf(root)
    this.#around = new Set([root])
  }

  project(): JsonSchema {
    return this.#object(this.#root, [])
  }

  #node(given: unknown, path: Path): Node {
    if (++this.#nodes > MAX_NODES || this.#depth >= MAX_DEPTH) {
      this.#noteAt(path, 'shown as an object of any kind, the schema is too large')
      return { type: 'object' }
    }
    this.#depth++
    const shown = this.#shown(given, path)
    this.#depth--
    return withPlainUnion(shown)
  }

  #shown(given: unknown, path: Path): Node {
    if (!isRecord(given)) return this.#anything(path)
    if (given['$ref'] !== undefined) return this.#referred(given, path)
    const schema = currentSchema(given)
    const { type, properties, allOf, anyOf, oneOf } = schema
    const union = anyOf ?? oneOf
    if (type === 'object' || (type === undefined && isRecord(properties))) {
      return this.#object(schema, path)
    }
    if (allOf !== undefined && union === undefined) return this.#intersection(schema, path)
    if (!Array.isArray(union)) return this.#value(schema, path)
    if (anyOf === undefined) this.#noteAt(path, '"oneOf" is shown as "anyOf"')
    const keyword = anyOf === undefined ? 'oneOf' : 'anyOf'
    this.#noteDropped(schema, path)
    const shown = union.flatMap((member: unknown, index) =>
      isNull(member) ? [] : [this.#node(member, [...path, keyword, String(index)])],
    )
    if (shown.length === 0) shown.push(this.#anything(path))
    return unionOf(schema, shown, union.some(isNull))
  }

  /** Follows references that lead to references in a loop: a recursion could overflow the stack. */
  #referred(schema: JsonSchema, path: Path): Node {
    const followed: JsonSchema[] = []
    let description: unknown
    let isNullable = false
    let shown: Node | undefined
    for (let referring = schema; shown === undefined;) {
      const target = this.#document.targetOf(referring)
      isNullable ||= referring['nullable'] === true
      if (!isRecord(target)) shown = this.#anything(path)
      else if (this.#around.has(target)) shown = this.#asAbove(target, path)
      else {
        description ??= referring['description']
        this.#around.add(target)
        followed.push(target)
        this.#nodes++
        if (target['$ref'] === undefined) shown = this.#node(target, path)
        referring = target
      }
    }
    for (const target of followed) this.#around.delete(target)
    return { ...shown, ...definedFields({ description }), ...(isNullable && { nullable: true }) }
  }

  #asAbove(target: JsonSchema, path: Path): Node {
    this.#noteAt(path, 'recursion is shown one level deep')
    const type = typeof target['type'] === 'string' ? target['type'] : 'object'
    return { type, description: 'As above.', ...(type === 'array' && { items: TEXT }) }
  }

  #object(schema: JsonSchema, path: Path): Node {
    const { properties, required, alternatives } = objectShapeOf(schema, this.#document)
    if (alternatives.length > 0) {
      this.#noteAt(path, 'alternatives are shown as one object with the fields of all of them')
    }
    this.#noteDropped(schema, path)
    const shown = Array.from(properties, ([name, inner]) => [
      name,
      this.#node(inner, [...path, 'properties', name]),
    ])
    const known = required.filter((name) => properties.has(name))
    return {
      type: 'object',
      ...wordsOf(schema),
      properties: Object.fromEntries(shown),
      ...(known.length > 0 && { required: known }),
    }
  }

  /** Merges the restrictions of one value, which may be an object. */
  #intersection(schema: JsonSchema, path: Path): Node {
    const { allOf, ...own } = schema
    const given: readonly unknown[] = Array.isArray(allOf) ? allOf : []
    const typed = given.filter((part) => isRecord(part) && DESCRIBING.some((one) => one in part))
    // A single one may be a union, of which an object is only a member.
    const isSingle = typed.length === 1 && own['type'] === undefined
    const isObject = !isSingle && objectShapeOf(schema, this.#document).properties.size > 0
    if (isObject) return this.#object(schema, path)
    const parts = typed.map((part) => this.#node(part, path))
    // A part such as { minimum: 1 } restricts the others, and is not a value of any kind.
    for (const part of given) {
      if (!isRecord(part) || typed.includes(part)) continue
      this.#noteDropped(part, path)
      parts.push(wordsOf(part))
    }
    if (typed.length === 0 && own['type'] === undefined) parts.unshift(this.#anything(path))
    const rest = own['type'] === undefined ? [] : [this.#value(own, path)]
    return { ...Object.assign({}, ...parts, ...rest), ...wordsOf(own) }
  }

  #value(schema: JsonSchema, path: Path): Node {
    const { const: constant, enum: listed } = schema
    const values = constant === undefined ? listed : [constant]
    const listedValues: readonly unknown[] | undefined = Array.isArray(values) ? values : undefined
    const types = [schema['type'] ?? impliedTypes(schema, listedValues)].flat()
    const [type, ...others] = types.filter((one) => one !== 'null')
    const isNullable = types.includes('null') || listedValues?.includes(null) === true
    if (others.length > 0) {
      const { description: _, ...rest } = schema
      const shown = [type, ...others].map((one) => this.#node({ ...rest, type: one }, path))
      return unionOf(schema, shown, isNullable)
    }
    const nullable = isNullable && { nullable: true }
    if (type === 'object') return { ...this.#object({ ...schema, type }, path), ...nullable }
    this.#noteDropped(schema, path)
    if (type === undefined) return { ...this.#anything(path), ...wordsOf(schema), ...nullable }
    const { pattern, format } = schema
    return {
      type,
      ...wordsOf(schema),
      ...(listedValues !== undefined && valuesFor(schema, listedValues, type)),
      ...(isPattern(pattern) && { pattern }),
      ...(isFormatOf(type, format) && { format }),
      ...(type === 'array' && { items: this.#items(schema, path) }),
      ...nullable,
    }
  }

  #items({ items = TEXT, prefixItems }: JsonSchema, path: Path): Node {
    const inside = [...path, 'items']
    const tuple = [prefixItems, items].find((one) => Array.isArray(one)) // draft-07 has `items`
    if (tuple === undefined) return this.#node(items, inside)
    this.#noteAt(path, 'the order of the items is not shown')
    const shown = tuple.map((item: unknown, index) => this.#node(item, [...inside, String(index)]))
    const different = [...new Map(shown.map((one) => [JSON.stringify(one), one])).values()]
    return different.length === 1 ? { ...different[0] } : { anyOf: different }
  }

  #anything(path: Path): Node {
    this.#noteAt(path, 'a value of any kind is shown as text')
    return { ...TEXT }
  }

  /** Notes the keywords that Gemini does not see although they restrict values. */
  #noteDropped(schema: JsonSchema, path: Path): void {
    for (const [keyword, value] of Object.entries(schema)) {
      const isShown =
        keyword === 'pattern'
          ? isPattern(value)
          : keyword === 'format'
            ? isFormatOf(schema['type'], value)
            : PLAIN.has(keyword) || READ.has(keyword)
      if (!isShown && value !== undefined && value !== true) {
        this.#noteAt(path, `"${keyword}" is not shown`)
      }
    }
  }

  #noteAt(path: Path, text: string): void {
    this.#note(`${pointerOf(path)}: ${text}`)
  }
}

const TEXT = { type: 'string' } as const

/** Keywords of a schema that says what a value is. */
const DESCRIBING = 'type $ref properties items prefixItems enum const allOf anyOf oneOf'.split(' ')

/** Joins the members of a union. Members that are lists of texts become one list. */
function unionOf(schema: JsonSchema, shown: readonly Node[], isNullable: boolean): Node {
  const more = { ...wordsOf(schema), ...(isNullable && { nullable: true }) }
  if (shown.length === 1) return { ...shown[0], ...more }
  const texts = shown.map(({ enum: values }) => values)
  if (!texts.every((one) => Array.isArray(one))) return { anyOf: shown, ...more }
  const withNull = shown.some(({ nullable }) => nullable === true) && { nullable: true }
  return { type: 'string', enum: [...new Set(texts.flat())], ...more, ...withNull }
}

/** Vertex AI refuses other keywords beside `anyOf` (opencode#15795), so each member repeats them, but not the title. */
function withPlainUnion(node: Node): Node {
  const { anyOf, title: _, ...shared } = node
  if (!Array.isArray(anyOf)) return node
  const members = anyOf.flatMap((one: Node) => (Array.isArray(one['anyOf']) ? one['anyOf'] : [one]))
  return {
    anyOf: members.map((one: Node) => {
      const texts = new Set([shared['description'], one['description']].filter(Boolean))
      return { ...shared, ...one, ...(texts.size > 0 && { description: [...texts].join('\n') }) }
    }),
  }
}

/** `enum` is for texts, and for none that is empty (opencode#46676). Other values become a sentence. */
function valuesFor(
  { description }: JsonSchema,
  values: readonly unknown[],
  type: unknown,
): Record<string, unknown> {
  const others = [...new Set(values)].filter((value) => value !== null)
  if (others.length === 0) return {}
  if (type === 'string' && others.every((value) => typeof value === 'string' && value !== '')) {
    return { enum: others }
  }
  const words = `One of: ${others.map((value) => JSON.stringify(value)).join(', ')}.`
  return { description: typeof description === 'string' ? `${description} ${words}` : words }
}

/** Returns the types of a schema that names none. */
function impliedTypes(schema: JsonSchema, values: readonly unknown[] | undefined): string[] {
  if (values !== undefined) return [...new Set(values.map(typeOf))]
  const isArray = schema['items'] !== undefined || schema['prefixItems'] !== undefined
  return isArray ? ['array'] : []
}

function typeOf(value: unknown): string {
  if (value === null) return 'null'
  return Array.isArray(value) ? 'array' : typeof value
}

function isNull(schema: unknown): boolean {
  if (!isRecord(schema) || schema['enum'] !== undefined) return false
  return schema['type'] === 'null' || schema['const'] === null
}

/** Keywords of Gemini's `Schema` that are copied. */
const PLAIN: ReadonlySet<string> = new Set([
  ...'title description minimum maximum'.split(' '),
  ...'minLength maxLength minItems maxItems minProperties maxProperties'.split(' '),
])

/** Keywords that are converted, or that do not restrict values. */
const READ: ReadonlySet<string> = new Set([
  ...'type nullable enum const properties required items prefixItems anyOf oneOf allOf'.split(' '),
  ...'$ref $defs definitions $schema $id id $anchor'.split(' '),
  ...'$comment default examples deprecated readOnly writeOnly'.split(' '),
])

/** Formats that Gemini takes, by type. It refuses `int64` of a text, which protobuf writes for large numbers. */
const FORMATS: ReadonlyMap<unknown, readonly unknown[]> = new Map([
  ['string', ['date-time']],
  ['integer', ['int32', 'int64']],
  ['number', ['float', 'double']],
])

function isFormatOf(type: unknown, format: unknown): boolean {
  return [type].flat().some((one) => FORMATS.get(one)?.includes(format) === true)
}

/** Returns title, description and limits. */
function wordsOf(schema: JsonSchema): Record<string, unknown> {
  const entries = Object.entries(schema).filter(
    ([keyword, value]) => value !== undefined && PLAIN.has(keyword),
  )
  return Object.fromEntries(entries)
}

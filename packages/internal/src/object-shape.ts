import { canonicalJson } from './canonical-json.ts'
import { isRecord } from './is-record.ts'
import type { JsonSchema, SchemaDocument } from './json-schema.ts'

/** The fields of the objects that fit a schema, without the dependencies between fields. */
interface ObjectShape {
  readonly properties: ReadonlyMap<string, unknown>
  /** Names of properties that not all alternatives describe: the others allow any value. */
  readonly partial: ReadonlySet<string>
  readonly required: readonly string[]
  /** True if other fields are not allowed. */
  readonly isClosed: boolean
  /** Required fields of each alternative, if there are alternatives. */
  readonly alternatives: readonly (readonly string[])[]
}

const EMPTY: ObjectShape = {
  properties: new Map(),
  partial: new Set(),
  required: [],
  isClosed: false,
  alternatives: [],
}

/**
 * Returns the shape of the object that a schema describes: its own fields, those behind `$ref` and `allOf`,
 * and all fields of alternatives (`anyOf`, `oneOf`, `then`, `else`), which are required if every alternative
 * requires them. A field that only some alternatives describe is as it is described outside of them, if it is. The
 * document must have no defect.
 */
export function objectShapeOf(schema: unknown, document: SchemaDocument): ObjectShape {
  if (!isRecord(schema)) return EMPTY
  const known = shapes.get(schema)
  if (known !== undefined) return known
  const shape = readShape(schema, document)
  shapes.set(schema, shape)
  return shape
}

/** Many references may lead to one schema, and each place where it is inlined needs its shape. */
const shapes = new WeakMap<JsonSchema, ObjectShape>()

function readShape(schema: JsonSchema, document: SchemaDocument): ObjectShape {
  const shapeOf = (inner: unknown): ObjectShape => objectShapeOf(inner, document)
  const { properties, required, allOf, if: condition, then, else: otherwise } = schema
  const own: ObjectShape = {
    properties: new Map(isRecord(properties) ? Object.entries(properties) : []),
    partial: new Set(),
    required: listOf(required).filter((name) => typeof name === 'string'),
    isClosed: schema['additionalProperties'] === false,
    alternatives: [],
  }
  const alternatives = [schema['oneOf'], schema['anyOf']].filter((one) => Array.isArray(one))
  const { dependentSchemas } = schema
  return allOfThem([
    own,
    shapeOf(document.targetOf(schema)),
    ...listOf(allOf).map(shapeOf),
    ...alternatives.map((branches) => oneOfThem(branches.map(shapeOf))),
    ...(condition === undefined
      ? []
      : [oneOfThem([allOfThem([shapeOf(condition), shapeOf(then)]), shapeOf(otherwise)])]),
    ...Object.values(isRecord(dependentSchemas) ? dependentSchemas : {}).map((inner) =>
      oneOfThem([shapeOf(inner), EMPTY]),
    ),
  ])
}

function allOfThem(parts: readonly ObjectShape[]): ObjectShape {
  const properties = new Map<string, unknown>()
  const partial = new Map<string, unknown[]>()
  for (const part of parts) {
    for (const [name, schema] of part.properties) {
      if (!part.partial.has(name)) {
        properties.set(name, intersectionOf(properties.get(name), schema))
        continue
      }
      const described = partial.get(name)
      if (described === undefined) partial.set(name, [schema])
      else described.push(schema)
    }
  }
  // A condition such as `if` does not restrict a property that is described without it.
  for (const name of properties.keys()) partial.delete(name)
  for (const [name, schemas] of partial) properties.set(name, unionOf(schemas))
  return {
    properties,
    partial: new Set(partial.keys()),
    required: [...new Set(parts.flatMap(({ required }) => required))],
    isClosed: parts.some(({ isClosed }) => isClosed),
    alternatives: parts.flatMap(({ alternatives }) => alternatives),
  }
}

function oneOfThem(branches: readonly ObjectShape[]): ObjectShape {
  const names = new Set(branches.flatMap(({ properties }) => [...properties.keys()]))
  const [first = EMPTY, ...others] = branches
  const isEverywhere = (name: string): boolean =>
    branches.every(({ properties, partial }) => properties.has(name) && !partial.has(name))
  return {
    partial: new Set([...names].filter((name) => !isEverywhere(name))),
    properties: new Map(
      Array.from(names, (name) => {
        const those = branches.filter(({ properties }) => properties.has(name))
        return [name, unionOf(those.map(({ properties }) => properties.get(name)))]
      }),
    ),
    required: first.required.filter((name) =>
      others.every(({ required }) => required.includes(name)),
    ),
    isClosed: branches.every(({ isClosed }) => isClosed),
    alternatives: branches.map(({ required }) => required),
  }
}

function intersectionOf(a: unknown, b: unknown): unknown {
  if (a === undefined || a === true || canonicalJson(a) === canonicalJson(b)) return b
  if (b === true || (isRecord(b) && Object.keys(b).length === 0)) return a
  return { allOf: [a, b] }
}

/** Joins constants into one `enum`, which every provider understands. */
function unionOf(schemas: readonly unknown[]): unknown {
  const different = [...new Map(schemas.map((one) => [canonicalJson(one), one])).values()]
  const [first] = different
  if (different.length === 1) return first
  const values = different.map(constantsOf)
  if (values.some((one) => one === undefined)) return { anyOf: different }
  const type = isRecord(first) ? first['type'] : undefined
  const isSameType = different.every((one) => isRecord(one) && one['type'] === type)
  return {
    ...(isSameType && type !== undefined && { type }),
    enum: [...new Set(values.flat())],
  }
}

function constantsOf(schema: unknown): readonly unknown[] | undefined {
  if (!isRecord(schema)) return undefined
  const { const: constant, enum: values } = schema
  if (constant !== undefined) return [constant]
  return Array.isArray(values) ? values : undefined
}

function listOf(value: unknown): readonly unknown[] {
  return Array.isArray(value) ? value : []
}

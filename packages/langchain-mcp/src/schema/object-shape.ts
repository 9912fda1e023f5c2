import { canonicalJson, isRecord } from '@x/internal'
import type { JsonSchema } from '../base/tool-source.ts'
import type { LocalReferences } from './json-schema.ts'

/** The fields of the objects that fit a schema, without the dependencies between fields. */
interface ObjectShape {
  readonly properties: ReadonlyMap<string, unknown>
  readonly required: readonly string[]
  /** True if other fields are not allowed. */
  readonly isClosed: boolean
  /** Required fields of each alternative, if there are alternatives. */
  readonly alternatives: readonly (readonly string[])[]
}

const EMPTY: ObjectShape = {
  properties: new Map(),
  required: [],
  isClosed: false,
  alternatives: [],
}

/**
 * Returns the shape of the object that a schema describes: its own fields, those behind `$ref` and `allOf`,
 * and all fields of alternatives (`anyOf`, `oneOf`, `then`, `else`), which are required if every alternative
 * requires them. The schema must have no circle for the same value (`schemaDefectOf`).
 */
export function objectShapeOf(schema: unknown, references: LocalReferences): ObjectShape {
  if (!isRecord(schema)) return EMPTY
  const shape = (inner: unknown): ObjectShape => objectShapeOf(inner, references)
  let result = ownShapeOf(schema)
  const { $ref, allOf, if: condition, then, else: otherwise, dependentSchemas } = schema
  if (typeof $ref === 'string') {
    const found = references.resolve($ref, schema)
    if (found.kind === 'schema') result = bothOf(result, shape(found.schema))
  }
  if (Array.isArray(allOf)) result = allOf.map(shape).reduce(bothOf, result)
  for (const branches of [schema['oneOf'], schema['anyOf']]) {
    if (Array.isArray(branches)) result = bothOf(result, oneOf(branches.map(shape)))
  }
  if (condition !== undefined) {
    result = bothOf(result, oneOf([bothOf(shape(condition), shape(then)), shape(otherwise)]))
  }
  if (isRecord(dependentSchemas)) {
    for (const inner of Object.values(dependentSchemas)) {
      result = bothOf(result, oneOf([shape(inner), EMPTY]))
    }
  }
  return result
}

function ownShapeOf(schema: JsonSchema): ObjectShape {
  const { properties, required, additionalProperties } = schema
  return {
    properties: new Map(isRecord(properties) ? Object.entries(properties) : []),
    required: Array.isArray(required) ? required.filter((name) => typeof name === 'string') : [],
    isClosed: additionalProperties === false,
    alternatives: [],
  }
}

function bothOf(a: ObjectShape, b: ObjectShape): ObjectShape {
  const properties = new Map(a.properties)
  for (const [name, schema] of b.properties) {
    properties.set(name, intersectionOf(properties.get(name), schema))
  }
  return {
    properties,
    required: [...new Set([...a.required, ...b.required])],
    isClosed: a.isClosed || b.isClosed,
    alternatives: [...a.alternatives, ...b.alternatives],
  }
}

function oneOf(branches: readonly ObjectShape[]): ObjectShape {
  const names = new Set(branches.flatMap(({ properties }) => [...properties.keys()]))
  const [first = EMPTY, ...others] = branches
  return {
    properties: new Map(
      [...names].map((name) => {
        const schemas = branches.flatMap(({ properties }) =>
          properties.has(name) ? [properties.get(name)] : [],
        )
        return [name, unionOf(schemas)]
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
  if (different.length === 1) return different[0]
  const values = different.map(constantsOf)
  if (values.every((one) => one !== undefined)) {
    const [first] = different
    const type = isRecord(first) ? first['type'] : undefined
    const isSameType = different.every((one) => isRecord(one) && one['type'] === type)
    return {
      ...(isSameType && type !== undefined && { type }),
      enum: [...new Set(values.flat())],
    }
  }
  return { anyOf: different }
}

function constantsOf(schema: unknown): readonly unknown[] | undefined {
  if (!isRecord(schema)) return undefined
  const { const: constant, enum: values } = schema
  if (constant !== undefined) return [constant]
  return Array.isArray(values) ? values : undefined
}

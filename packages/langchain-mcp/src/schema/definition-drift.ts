import {
  canonicalJson,
  documentOf,
  isRecord,
  mapSubschemas,
  type SchemaDocument,
} from '@x/internal'
import type { JsonSchema, ToolDefinition } from '../base/tool-source.ts'
import { objectShapeOf, without } from './json-schema.ts'

/**
 * Returns the changes that break calls made for the older definition, one line each. Breaking changes are a
 * newly required parameter, a removed parameter, and another type. New optional parameters and other
 * descriptions are not.
 */
export function breakingChanges(older: ToolDefinition, newer: ToolDefinition): string[] {
  const before = parametersOf(older.inputSchema)
  const after = parametersOf(newer.inputSchema)
  const changed = [...before].flatMap(([name, { type }]) => {
    const now = after.get(name)
    if (now === undefined) return [`"${name}" no longer exists`]
    return now.type === type ? [] : [`"${name}" is now of type ${now.type}, was ${type}`]
  })
  const required = [...after].filter(
    ([name, { isRequired }]) => isRequired && before.get(name)?.isRequired !== true,
  )
  return [...changed, ...required.map(([name]) => `"${name}" is now required`)]
}

/** Returns the parameters of a tool as text: `item (string), count (integer, optional)`, or "no parameters". */
export function parameterText(schema: JsonSchema): string {
  const parameters = [...parametersOf(schema)].map(([name, { schema: inner, isRequired }]) => {
    const type = isRecord(inner) && typeof inner['type'] === 'string' ? [inner['type']] : []
    const details = [...type, ...(isRequired ? [] : ['optional'])]
    return details.length > 0 ? `${name} (${details.join(', ')})` : name
  })
  return parameters.length === 0 ? 'no parameters' : parameters.join(', ')
}

interface Parameter {
  readonly schema: unknown
  readonly type: string
  readonly isRequired: boolean
}

function parametersOf(schema: JsonSchema = {}): ReadonlyMap<string, Parameter> {
  const document = documentOf(schema)
  const { properties, required } = objectShapeOf(schema, document)
  const names = new Set([...properties.keys(), ...required]) // a required one may have no schema
  return new Map(
    Array.from(names, (name): [string, Parameter] => {
      const inner = properties.get(name)
      const type = [...kindsOf(inner, document)].toSorted().join(' | ') || 'any'
      return [name, { schema: inner, type, isRequired: required.includes(name) }]
    }),
  )
}

/** Keywords that do not restrict values. */
const WORDS: ReadonlySet<string> = new Set(
  'title description default examples deprecated $comment'.split(' '),
)

/**
 * Returns the kinds of values that a schema describes, as texts to compare. They are equal for `["string",
 * "null"]`, for the union of both, and for a reference to it. Members of a union count with all keywords
 * except descriptions; other schemas count by their type.
 */
function kindsOf(given: unknown, document: SchemaDocument): ReadonlySet<string> {
  const schema = resolved(given, document)
  if (!isRecord(schema)) return new Set()
  const { type, const: constant, enum: values, properties } = schema
  if (type !== undefined) return new Set([type].flat().map(String))
  const members = unionOf(schema)
  if (members !== undefined) {
    return new Set(members.flatMap((member) => [...kindsOfMember(member, document)]))
  }
  if (constant !== undefined) return new Set([kindOfValue(constant)])
  if (Array.isArray(values)) return new Set(values.map(kindOfValue))
  return new Set(isRecord(properties) ? ['object'] : [])
}

function kindsOfMember(given: unknown, document: SchemaDocument): ReadonlySet<string> {
  const schema = resolved(given, document)
  if (!isRecord(schema)) return new Set([canonicalJson(schema)])
  const isOnlyType = Object.keys(without(schema, WORDS)).join() === 'type'
  if (isOnlyType || unionOf(schema) !== undefined) return kindsOf(schema, document)
  return new Set([canonicalJson(new Inliner(document).inlined(schema, []))])
}

function unionOf({ anyOf, oneOf }: JsonSchema): readonly unknown[] | undefined {
  return [anyOf, oneOf].find((members) => Array.isArray(members))
}

/** Limits of inlined schemas, because references multiply. Equal schemas are cut at equal places. */
const MAX_DEPTH = 64
const MAX_NODES = 10_000

/** Replaces references by their targets. A circular reference stays as it is. */
class Inliner {
  readonly #document: SchemaDocument
  #nodes = 0

  constructor(document: SchemaDocument) {
    this.#document = document
  }

  inlined(schema: unknown, around: readonly JsonSchema[]): unknown {
    const target = resolved(schema, this.#document)
    if (!isRecord(target)) return target
    const isCut = around.length >= MAX_DEPTH || ++this.#nodes > MAX_NODES
    if (isCut || around.includes(target)) return isRecord(schema) ? (schema['$ref'] ?? {}) : {}
    const inside = [...around, target]
    return mapSubschemas(without(target, WORDS), (inner) => this.inlined(inner, inside))
  }
}

function resolved(schema: unknown, document: SchemaDocument): unknown {
  const target = isRecord(schema) ? document.targetOf(schema) : undefined
  return target === undefined ? schema : resolved(target, document)
}

function kindOfValue(value: unknown): string {
  if (value === null) return 'null'
  return Array.isArray(value) ? 'array' : typeof value
}

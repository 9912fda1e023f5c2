import { canonicalJson, isRecord } from '@x/internal'
import type { JsonSchema, ToolDefinition } from '../base/tool-source.ts'
import { LocalReferences, mapSubschemas } from './json-schema.ts'
import { objectShapeOf } from './object-shape.ts'

/**
 * Returns the changes that break calls made for the older definition, one line each. Breaking changes are a
 * newly required parameter, a removed parameter, and another type. New optional parameters and other
 * descriptions are not.
 */
export function breakingChanges(older: ToolDefinition, newer: ToolDefinition): string[] {
  const before = parametersOf(older.inputSchema)
  const after = parametersOf(newer.inputSchema)
  const changes: string[] = []
  for (const [name, { type }] of before) {
    const now = after.get(name)
    if (now === undefined) changes.push(`"${name}" no longer exists`)
    else if (now.type !== type) changes.push(`"${name}" is now of type ${now.type}, was ${type}`)
  }
  for (const [name, { isRequired }] of after) {
    if (isRequired && before.get(name)?.isRequired !== true)
      changes.push(`"${name}" is now required`)
  }
  return changes
}

interface Parameter {
  readonly type: string
  readonly isRequired: boolean
}

function parametersOf(schema: JsonSchema | undefined): ReadonlyMap<string, Parameter> {
  if (schema === undefined) return new Map()
  const references = new LocalReferences(schema)
  const { properties, required } = objectShapeOf(schema, references)
  const found = [...properties].map(([name, inner]): [string, Parameter] => [
    name,
    { type: typeSignature(inner, references), isRequired: required.includes(name) },
  ])
  // A parameter may be required without a description.
  const bare = required.filter((name) => !properties.has(name))
  return new Map([
    ...found,
    ...bare.map((name): [string, Parameter] => [name, { type: 'any', isRequired: true }]),
  ])
}

/** Returns the parameters of a tool as text: `item (string), count (integer, optional)`, or "no parameters". */
export function parameterText(schema: JsonSchema): string {
  const { properties, required } = objectShapeOf(schema, new LocalReferences(schema))
  const names = [...new Set([...properties.keys(), ...required])]
  if (names.length === 0) return 'no parameters'
  return names
    .map((name) => {
      const inner = properties.get(name)
      const type = isRecord(inner) && typeof inner['type'] === 'string' ? [inner['type']] : []
      const details = [...type, ...(required.includes(name) ? [] : ['optional'])]
      return details.length > 0 ? `${name} (${details.join(', ')})` : name
    })
    .join(', ')
}

const UNIONS = ['anyOf', 'oneOf'] as const

/** Keywords that do not restrict values. */
const WORDS: ReadonlySet<string> = new Set([
  'title',
  'description',
  'default',
  'examples',
  'deprecated',
  '$comment',
])

/**
 * Returns the kind of value that a schema describes, as text to compare. It is equal for `["string",
 * "null"]`, for the union of both, and for a reference to it. Members of a union count with all keywords
 * except descriptions; other schemas count by their type. Returns `any` without a type.
 */
function typeSignature(schema: unknown, references: LocalReferences): string {
  return [...memberSignatures(schema, references)].toSorted().join(' | ') || 'any'
}

function memberSignatures(given: unknown, references: LocalReferences): ReadonlySet<string> {
  const schema = resolved(given, references)
  if (!isRecord(schema)) return new Set()
  const { type, const: constant, enum: values } = schema
  if (typeof type === 'string') return new Set([type])
  if (Array.isArray(type)) return new Set(type.map(String))
  for (const keyword of UNIONS) {
    const members = schema[keyword]
    if (!Array.isArray(members)) continue
    return new Set(members.flatMap((member) => [...unionMember(member, references)]))
  }
  if (constant !== undefined) return new Set([kindOf(constant)])
  if (Array.isArray(values)) return new Set(values.map(kindOf))
  return isRecord(schema['properties']) ? new Set(['object']) : new Set()
}

function unionMember(given: unknown, references: LocalReferences): ReadonlySet<string> {
  const schema = resolved(given, references)
  if (!isRecord(schema)) return new Set([canonicalJson(schema)])
  const fields = Object.keys(schema).filter((key) => !WORDS.has(key))
  const isPlain = fields.length === 1 && schema['type'] !== undefined
  if (isPlain || UNIONS.some((keyword) => schema[keyword] !== undefined)) {
    return memberSignatures(schema, references)
  }
  return new Set([canonicalJson(inlined(schema, references, new Set()))])
}

/** Replaces references by their targets. A circular reference stays as it is. */
function inlined(schema: JsonSchema, references: LocalReferences, around: Set<object>): unknown {
  if (around.has(schema)) return schema['$ref'] ?? {}
  const inside = new Set([...around, schema])
  const target = resolved(schema, references)
  if (target !== schema) return isRecord(target) ? inlined(target, references, inside) : target
  const bare = Object.fromEntries(Object.entries(schema).filter(([key]) => !WORDS.has(key)))
  return mapSubschemas(bare, (inner) =>
    isRecord(inner) ? inlined(inner, references, inside) : inner,
  )
}

function resolved(schema: unknown, references: LocalReferences): unknown {
  let current = schema
  const seen = new Set<unknown>()
  while (isRecord(current) && typeof current['$ref'] === 'string' && !seen.has(current)) {
    seen.add(current)
    const found = references.resolve(current['$ref'], current)
    if (found.kind !== 'schema') return current
    current = found.schema
  }
  return current
}

function kindOf(value: unknown): string {
  if (value === null) return 'null'
  return Array.isArray(value) ? 'array' : typeof value
}

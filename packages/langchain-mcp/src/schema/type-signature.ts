import { canonicalJson, isRecord } from '@x/internal'
import type { JsonSchema } from '../catalogue/tool-source.ts'
import type { LocalReferences } from './local-references.ts'
import { mapSubschemas } from './subschemas.ts'

const UNIONS = ['anyOf', 'oneOf'] as const

/** Says nothing about which values fit. */
const WORDS: ReadonlySet<string> = new Set([
  'title',
  'description',
  'default',
  'examples',
  'deprecated',
  '$comment',
])

/**
 * What kind of value a schema describes, as text to compare: equal for `["string", "null"]`, the union of
 * both, and a reference to it. The members of a union count whole, without their wording; anything else
 * by its type alone. `any` where nothing is said.
 */
export function typeSignature(schema: unknown, references: LocalReferences): string {
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

/** With references replaced by what they lead to; one that comes back is left as it is. */
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

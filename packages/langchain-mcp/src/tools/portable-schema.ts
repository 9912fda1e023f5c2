import { isRecord, jsonTypeOf, legible } from '@x/internal'
import type { JsonSchema } from '../tool-source.ts'
import { without } from './json-schema.ts'
import { MAX_REPETITIONS, portablePattern } from './portable-pattern.ts'

type Note = (text: string) => void

const keywords = (text: string): ReadonlySet<string> => new Set(text.split(' '))

/** Keywords that restrict values of one type only. */
const OF_TYPE: ReadonlyMap<string, ReadonlySet<string>> = new Map([
  [
    'object',
    keywords(
      'properties required additionalProperties patternProperties propertyNames minProperties maxProperties unevaluatedProperties dependentRequired dependentSchemas',
    ),
  ],
  [
    'array',
    keywords(
      'items prefixItems minItems maxItems uniqueItems unevaluatedItems contains minContains maxContains',
    ),
  ],
  [
    'string',
    keywords('minLength maxLength pattern format contentEncoding contentMediaType contentSchema'),
  ],
  ['number', keywords('minimum maximum exclusiveMinimum exclusiveMaximum multipleOf')],
])

const OF_VALUES = keywords('type enum const')

/** Keywords that belong to a type or list values. The other ones stay around a union. */
const RESTRICTING: ReadonlySet<string> = new Set([
  ...OF_VALUES,
  ...[...OF_TYPE.values()].flatMap((own) => [...own]),
])

const COMBINING = ['$ref', 'allOf', 'anyOf', 'oneOf', 'not', 'if'] as const

/** Limit of the characters that the members of a union repeat. */
const MAX_REPEATED = 20_000

/** Limit for all unions of a schema: unions inside of unions double at each level. */
const MAX_REPEATED_IN_ALL = 100_000

/** State that the parts of one schema share while they are made portable. */
export interface PortableContext {
  readonly note: Note
  /** Characters that the members of unions have repeated so far. */
  readonly repeated: { characters: number }
}

/**
 * Returns a schema with the same meaning, without what strict providers refuse. Moonshot refuses values without a type,
 * a type beside `anyOf`, keywords beside several types, a `$ref` beside keywords of its target, and required names
 * without a property (kimi-cli#1595, #2061). Fireworks needs types, too (docker/mcp-gateway#234), and llama.cpp takes
 * `{}` for an object. Patterns and limits that a provider cannot read become a sentence. Schemas inside stay as they are.
 *
 * @param target the schema that `$ref` leads to
 */
export function portableSchema(
  given: JsonSchema,
  target: unknown,
  context: PortableContext,
): JsonSchema {
  const { note } = context
  const schema = withWords(withoutWrongValues(given, note), note)
  if (schema['$ref'] !== undefined) return withReference(schema, target)
  const isCombined = COMBINING.some((keyword) => schema[keyword] !== undefined)
  const types = typesOf(schema)
  const [first, ...others] = types
  if (first === undefined) return isCombined ? schema : { ...schema, ...anyValue() }
  const whole = types.includes('object') ? withRequiredNames(schema) : schema
  const union = (['anyOf', 'oneOf'] as const).find((keyword) => Array.isArray(whole[keyword]))
  if (union !== undefined) return withTypedMembers(whole, { union, types }, context)
  if (others.length === 0) return { ...whole, type: first }
  return isCombined ? { ...whole, type: types } : withMemberForEachType(whole, types)
}

/**
 * The types of a value without a type, which the model would not see otherwise. Items need types as well, so lists are two
 * levels deep, as the rows of a table are.
 */
function anyValue(): JsonSchema {
  const type = ['string', 'number', 'boolean', 'object', 'null']
  const listOf = (items: JsonSchema): JsonSchema => ({
    anyOf: [{ type }, { type: 'array', items }],
  })
  return listOf(listOf({ type }))
}

/** Returns the types that a schema names, or those that its keywords are for. */
function typesOf(schema: JsonSchema): string[] {
  const { type, enum: values } = schema
  if (type !== undefined) {
    const named = [type].flat().filter((one) => typeof one === 'string')
    return named.includes('number') ? named.filter((one) => one !== 'integer') : named
  }
  if (Array.isArray(values)) return [...new Set(values.map(jsonTypeOf))]
  if (schema['const'] !== undefined) return [jsonTypeOf(schema['const'])]
  return [...OF_TYPE].flatMap(([one, own]) =>
    Object.keys(schema).some((keyword) => own.has(keyword)) ? [one] : [],
  )
}

function withoutWrongValues(schema: JsonSchema, note: Note): JsonSchema {
  const wrong = ['title', 'description'].filter(
    (keyword) => schema[keyword] !== undefined && typeof schema[keyword] !== 'string',
  )
  if (Array.isArray(schema['enum']) && schema['enum'].length === 0) wrong.push('enum')
  for (const keyword of wrong) note(`"${keyword}" is not shown, because it is not valid`)
  return wrong.length === 0 ? schema : without(schema, new Set(wrong))
}

/** Limits of repetitions as sentences. */
const LIMITS: ReadonlyMap<string, (limit: unknown) => string> = new Map([
  ['minLength', (limit: unknown) => `At least ${String(limit)} characters.`],
  ['maxLength', (limit: unknown) => `At most ${String(limit)} characters.`],
  ['minItems', (limit: unknown) => `At least ${String(limit)} items.`],
  ['maxItems', (limit: unknown) => `At most ${String(limit)} items.`],
])

/** Limit of the characters of a pattern in a description. */
const MAX_PATTERN = 200

/** Says in the description what cannot be shown as a keyword. Arguments are checked against it at the call. */
function withWords(schema: JsonSchema, note: Note): JsonSchema {
  const { pattern, description } = schema
  const large = [...LIMITS].filter(([keyword]) => Number(schema[keyword]) > MAX_REPETITIONS)
  const words = large.map(([keyword, say]) => say(schema[keyword]))
  const portable = typeof pattern === 'string' ? portablePattern(pattern) : undefined
  if (typeof pattern === 'string' && portable === undefined) {
    if (pattern.length > MAX_PATTERN) note('"pattern" is not shown, because it is long')
    else words.push(`Matches the regular expression ${legible(pattern)}`)
  }
  const said = new Set([...large.map(([keyword]) => keyword), 'pattern'])
  const text = typeof description === 'string' ? [description, ...words] : words
  return {
    ...without(schema, said),
    ...(portable !== undefined && { pattern: portable }),
    ...(words.length > 0 && { description: text.join(' ') }),
  }
}

/** Wraps a reference beside keywords that its target has as well. A type belongs to the target. */
function withReference(schema: JsonSchema, target: unknown): JsonSchema {
  const { $ref, ...others } = without(schema, new Set(['type']))
  const isRepeated = isRecord(target) && Object.keys(others).some((keyword) => keyword in target)
  return isRepeated ? { ...others, anyOf: [{ $ref }] } : { $ref, ...others }
}

function withRequiredNames(schema: JsonSchema): JsonSchema {
  const { properties = {}, required } = schema
  if (!Array.isArray(required) || !isRecord(properties)) return schema
  const missing = required.filter((name) => !Object.hasOwn(properties, name))
  if (missing.length === 0) return schema
  const added = missing.map((name): [string, unknown] => [name, {}])
  return { ...schema, properties: Object.fromEntries([...Object.entries(properties), ...added]) }
}

/**
 * Moves the restrictions of a union into its members, or only its type, if they cannot take all of them. llama.cpp reads
 * nothing else of a schema with a union.
 */
function withTypedMembers(
  schema: JsonSchema,
  { union, types }: { readonly union: string; readonly types: readonly string[] },
  { note, repeated }: PortableContext,
): JsonSchema {
  const given: readonly unknown[] = [schema[union]].flat()
  const type = types.length === 1 ? types[0] : types
  const own = Object.entries(schema).filter(([keyword]) => RESTRICTING.has(keyword))
  const size = JSON.stringify(own).length * given.length
  const left = MAX_REPEATED_IN_ALL - repeated.characters
  const isWhole = size <= Math.min(MAX_REPEATED, left) && given.every(isPlain)
  if (isWhole) repeated.characters += size
  const outer = isWhole ? Object.fromEntries([...own, ['type', type]]) : { type }
  const members = given.map((member) => (isPlain(member) ? merged(outer, member, note) : member))
  const rest = without(schema, isWhole ? RESTRICTING : new Set(['type']))
  if (!isWhole || own.every(([keyword]) => keyword === 'type')) return { ...rest, [union]: members }
  // Members with joined restrictions may accept the same value, which `oneOf` would refuse.
  return { ...without(rest, new Set([union])), anyOf: members }
}

function isPlain(schema: unknown): schema is JsonSchema {
  return isRecord(schema) && COMBINING.every((keyword) => schema[keyword] === undefined)
}

/** Merges the restrictions of a union and of one member. Where both restrict the same, that of the member is shown. */
function merged(outer: JsonSchema, member: JsonSchema, note: Note): JsonSchema {
  const { properties: fields, required: names } = outer
  const { properties, required } = member
  for (const keyword of Object.keys(outer)) {
    const isJoined = keyword === 'properties' || keyword === 'required' || keyword === 'type'
    if (!isJoined && member[keyword] !== undefined) {
      note(`"${keyword}" is shown as the members of the union have it`)
    }
  }
  return {
    ...outer,
    ...member,
    ...(isRecord(fields) && isRecord(properties) && { properties: joined(fields, properties) }),
    ...(Array.isArray(names) &&
      Array.isArray(required) && { required: [...new Set([...names, ...required])] }),
  }
}

/** `__proto__` is a name like any other. */
function joined(outer: JsonSchema, inner: JsonSchema): JsonSchema {
  return Object.fromEntries([...Object.entries(outer), ...Object.entries(inner)])
}

/** Returns a union with a member for each type, with the keywords that are for this type. */
function withMemberForEachType(schema: JsonSchema, types: readonly string[]): JsonSchema {
  const entries = Object.entries(schema)
  const restrictions = entries.filter(([keyword]) => RESTRICTING.has(keyword) && keyword !== 'type')
  const { enum: listed, const: constant, default: initial } = schema
  const values = constant === undefined ? listed : [constant]
  if (restrictions.length === 0 && initial === undefined) return { ...schema, type: types }
  const members = types.flatMap((type) => {
    const own = OF_TYPE.get(type === 'integer' ? 'number' : type)
    const fields = Object.fromEntries(entries.filter(([keyword]) => own?.has(keyword)))
    if (!Array.isArray(values)) return [{ type, ...fields }]
    const fitting = values.filter((value) => isOfType(value, type))
    if (type === 'null') return fitting.length === 0 ? [] : [{ type }]
    return fitting.length === 0 ? [] : [{ type, ...fields, enum: fitting }]
  })
  const rest = without(schema, RESTRICTING)
  return members.length === 1 ? { ...rest, ...members[0] } : { ...rest, anyOf: members }
}

function isOfType(value: unknown, type: string): boolean {
  return type === 'integer' ? Number.isInteger(value) : jsonTypeOf(value) === type
}

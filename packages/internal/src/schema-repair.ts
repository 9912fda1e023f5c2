// Repairs JSON Schemas of tools, before they are checked and before a model sees them. A provider refuses a request with
// all its tools for one keyword whose value has another type than JSON Schema says (claude-code#586, kintone/mcp-server#547).
// The server checks the arguments itself, so a restriction that cannot be read is left out.
import { flag, isObject, list, named, nullable, number, text } from './repairs.ts'
import type { Fields, Repair } from './repairs.ts'

/** Schemas of servers are nested deeper only by mistake, or to hurt. */
const MAX_DEPTH = 64

/** Number of restrictions that were left out so far. */
let losses = 0

/** A definition of the current schema has lost a restriction, and with it each reference. */
let areDefinitionsLess = false

const DEFINITIONS: ReadonlySet<string> = new Set(['$defs', 'definitions'])

/** Repairs a JSON Schema at every level, but not the values in it. */
function schemaAt(depth: number): Repair {
  return (given) => {
    const isName = depth > 0 && typeof given === 'string'
    const value = isEmptyList(given) ? {} : isName ? { type: given } : given
    if (!isObject(value)) return value ?? undefined
    if (depth >= MAX_DEPTH) return value
    if (depth === 0) areDefinitionsLess = false
    const inner = schemaAt(depth + 1)
    listRequired(value) // before the properties are repaired, which may have such properties themselves
    const keywords = Object.entries(value)
    const definitionsFirst = [true, false].flatMap((isFirst) =>
      keywords.filter(([name]) => DEFINITIONS.has(name) === isFirst),
    )
    for (const [name, child] of definitionsFirst) {
      const repair = schemaFields.get(name) ?? nullable
      const before = losses
      const repaired = repair(child, inner)
      if (repaired === undefined) delete value[name]
      else value[name] = repaired
      if (name === 'oneOf' && losses > before) allowSeveral(value)
      if (DEFINITIONS.has(name) && losses > before) areDefinitionsLess = true
      if (name === '$ref' && areDefinitionsLess) losses++
      const isLess = name === 'type' ? String(repaired) !== String(child) : repaired === undefined
      if (isLess && child !== null) losses++
    }
    return value
  }
}

/** Without one of their restrictions, several choices may hold for a value, which `oneOf` would refuse. */
function allowSeveral(value: Fields): void {
  value['anyOf'] ??= value['oneOf']
  delete value['oneOf']
}

/** Replaces a boolean `required` of a property (draft-03; MarkusPfundstein/mcp-gsuite#48) by the name in the list of its owner. */
function listRequired(owner: Fields): void {
  const { properties } = owner
  if (!isObject(properties)) return
  for (const [name, property] of Object.entries(properties)) {
    if (!isObject(property) || typeof property['required'] !== 'boolean') continue
    const names = requiredNames(owner['required']) ?? []
    if (property['required'] && Array.isArray(names) && !names.includes(name)) {
      owner['required'] = [...names, name]
    }
    delete property['required']
  }
}

/** Returns the list of required names, or undefined for a boolean, which no owner has taken into its list. */
function requiredNames(given: unknown): unknown {
  const value = typeof given === 'string' && flagFrom(given) === undefined ? [given] : given
  const names = list(nullable)(value)
  if (!Array.isArray(names)) return undefined
  return [...new Set(names.filter((name) => typeof name === 'string'))]
}

/** PHP sends an empty object as `[]`. */
function isEmptyList(value: unknown): boolean {
  return Array.isArray(value) && value.length === 0
}

function flagFrom(value: unknown): unknown {
  if (value === 'true') return true
  return value === 'false' ? false : flag(value)
}

const size: Repair = (given) => {
  const value = number(given)
  return Number.isInteger(value) && Number(value) >= 0 ? value : undefined
}

/** Names of types in programming languages (can4hou6joeng4/boss-agent-cli#367, blurrah/mcp-graphql#14), in small letters. */
const TYPES = named(
  Object.fromEntries(
    Object.entries({
      object: 'object dict map struct record',
      array: 'array list tuple set',
      string:
        'string str text char date datetime date-time time uuid uri url email file binary bytes',
      integer: 'integer int int32 int64 long uint',
      number: 'number float float32 float64 double decimal',
      boolean: 'boolean bool',
      null: 'null',
    }).flatMap(([type, names]) => names.split(' ').map((name) => [name, type])),
  ),
)

/** Returns undefined for a value of any type: also for `any`, and for a type that is not known. */
function typeFrom(given: unknown): unknown {
  if (typeof given === 'string') return TYPES.get(given.toLowerCase())
  if (!Array.isArray(given) || given.length === 0) return undefined
  const types = given.map(typeFrom)
  return types.includes(undefined) ? undefined : [...new Set(types)]
}

/** A list without any value would refuse all of them. */
function valuesFrom(given: unknown): unknown {
  const listed = list((item) => item)(given)
  const values = typeof listed === 'string' || typeof listed === 'number' ? [listed] : listed
  return Array.isArray(values) && values.length > 0 ? [...new Set(values)] : undefined
}

type SchemaRepair = (value: unknown, inner: Repair) => unknown

const schemas: SchemaRepair = (given, inner) => {
  const value = isEmptyList(given) ? {} : given
  if (!isObject(value)) return value ?? undefined
  for (const [name, child] of Object.entries(value)) value[name] = inner(child) ?? {}
  return value
}
const each: SchemaRepair = (given, inner) => {
  const value = list((item) => item)(given)
  if (Array.isArray(value)) return value.map((child: unknown) => inner(child) ?? {})
  return isObject(value) ? [inner(value)] : (value ?? undefined)
}
/** A union of nothing restricts nothing: its author means that there is none. */
const union: SchemaRepair = (value, inner) => (isEmptyList(value) ? undefined : each(value, inner))
const namesByName: SchemaRepair = (value) => {
  if (!isObject(value)) return undefined
  const lists = Object.entries(value).map(([name, names]) => [name, requiredNames(names)])
  return Object.fromEntries(lists.filter(([, names]) => names !== undefined))
}

/** Without one of its restrictions, a condition would hold for more values, and refuse them: then there is none. */
const condition: SchemaRepair = (value, inner) => {
  const before = losses
  const repaired = inner(value)
  return losses === before ? repaired : undefined
}
const single: SchemaRepair = (value, inner) => inner(value)
const singleOrFlag: SchemaRepair = (value, inner) => flagFrom(value) ?? inner(value)

/** Repairs of keywords. Those of `default`, `const` and `example` are values, and stay as they are. */
const schemaFields = named<SchemaRepair>({
  ...sameFor('title description format pattern contentEncoding contentMediaType $comment', text),
  ...sameFor('properties patternProperties $defs definitions dependentSchemas', schemas),
  ...sameFor('anyOf oneOf allOf prefixItems', union),
  ...sameFor('minLength maxLength minItems maxItems minProperties maxProperties', size),
  ...sameFor('minContains maxContains', size),
  ...sameFor('minimum maximum', number),
  ...sameFor('uniqueItems nullable deprecated readOnly writeOnly', flagFrom),
  ...sameFor('default const example', (value) => value),
  // A flag in draft-04.
  ...sameFor('exclusiveMinimum exclusiveMaximum', (value) => flagFrom(value) ?? number(value)),
  multipleOf: (value) => (Number(number(value)) > 0 ? number(value) : undefined),
  type: typeFrom,
  enum: valuesFrom,
  examples: (value) => (Array.isArray(value) ? value : undefined),
  required: requiredNames,
  dependentRequired: namesByName,
  items: (value, inner) =>
    Array.isArray(value) && value.length > 0 ? each(value, inner) : inner(value),
  ...sameFor('additionalProperties unevaluatedProperties', singleOrFlag),
  ...sameFor('additionalItems unevaluatedItems', singleOrFlag),
  ...sameFor('then else contains propertyNames', single),
  ...sameFor('if not', condition),
})

function sameFor(keywords: string, repair: SchemaRepair): Record<string, SchemaRepair> {
  return Object.fromEntries(keywords.split(' ').map((keyword) => [keyword, repair]))
}

/** Repairs a JSON Schema in place. */
export const schema: Repair = schemaAt(0)

/** The schema of arguments or of a structured result: an object, if it does not say so. */
export const objectSchema: Repair = (given) => {
  const value = schema(given)
  if (!isObject(value)) return value
  value['type'] ??= 'object'
  const { properties } = value
  // A boolean schema is JSON Schema, but the SDK takes only objects.
  if (isObject(properties)) {
    for (const [name, property] of Object.entries(properties)) {
      if (typeof property === 'boolean') properties[name] = property ? {} : { not: {} }
    }
  }
  return value
}

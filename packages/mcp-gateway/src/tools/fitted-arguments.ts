import {
  documentOf,
  fittedValue,
  isBlank,
  isRecord,
  nearestWord,
  objectShapeOf,
  takesText,
  typesOf,
  type JsonType,
  type PartSchema,
  type Reading,
} from '@x/internal'
import type { JsonSchema } from '../agents/agent.ts'
import type { Refusal } from '../agents/schemas.ts'
import { excessOf, valueFromJson } from '../internal/text.ts'

export type Arguments = Readonly<Record<string, unknown>>

export interface FittedArguments {
  readonly value: Arguments
  /** Names of the fields that were left out, because the schema does not allow them. */
  readonly leftOut: readonly string[]
  /** Why the schema still refuses the value. */
  readonly refusals: readonly Refusal[]
}

/** Text inside of JSON text inside of JSON text. More levels are a mistake that the caller should see. */
const MAX_NESTING = 4
/** A call with more unknown fields is meant for another tool. */
const MAX_LEFT_OUT = 20
/** Number and length of the properties to which an unknown field is compared: comparing takes time. */
const MAX_COMPARED = { number: 50, length: 40 }

/**
 * Returns arguments as they were meant, if the schema refuses them as they are. Clients and models are known to write:
 *
 * - `null`, `""` or `"[]"` for an optional field without a value: the field is left out. So is `[]` where no list fits,
 *   unless it is an empty object of PHP
 * - JSON text where a list or an object is due: it becomes its value
 * - fields of their own, such as `toolCallId` (n8n#21500): they are left out, unless they seem to be a misspelt property
 *
 * A value that the schema accepts never changes: a text stays text where texts fit, and `null` stays where it is allowed.
 * Texts do not become numbers or booleans. Never throws.
 *
 * @param refusalsOf returns all places that the schema refuses
 * @returns the same object if nothing changes
 */
export function fittedArguments(
  given: Arguments,
  schema: JsonSchema,
  refusalsOf: (value: Arguments) => readonly Refusal[],
): FittedArguments {
  const leftOut: string[] = []
  let value = given
  let refusals = refusalsOf(value)
  if (refusals.length === 0) return { value, leftOut, refusals }
  const part = { schema, document: documentOf(schema) }
  if (part.document.defect !== undefined) return { value, leftOut, refusals }
  for (let round = 0; round < MAX_NESTING && refusals.length > 0; round++) {
    const added = addedFields(value, refusals, part)
    const refused = new Set(refusals.map(({ place }) => place))
    const fitted = fittedValue(without(value, added), part, { reading: READING, refused })
    if (fitted === value || !isRecord(fitted)) break
    leftOut.push(...added)
    value = fitted
    refusals = refusalsOf(value)
  }
  return { value, leftOut, refusals }
}

/** Returns the arguments of a request: none for `null`, an empty text or list, and the value of JSON text that is an object. */
export function argumentsFrom(given: unknown): unknown {
  if (given === undefined || isBlank(given)) return {}
  if (typeof given !== 'string') return given
  const value = valueOfJson(given)
  return isRecord(value) ? value : given
}

const READING: Reading = {
  meantBy: (value, part) => {
    const types = typesOf(part)
    if (typeof value !== 'string') return isBlank(value) ? asObject(value, types) : value
    if (types.includes('string') || !types.some(isStructured)) return value
    const meant = valueOfJson(value)
    const type = Array.isArray(meant) ? 'array' : 'object'
    if (meant === undefined) return value
    return types.includes(type) ? meant : asObject(meant, types, value)
  },
  isAbsent: (value, part) => {
    if (!isBlank(value)) return false
    if (typeof value === 'string') return !takesText(value, part)
    const types = typesOf(part)
    if (value === null) return !types.includes('null')
    return !types.includes('array') && !takesEmptyObject(part)
  },
}

function isStructured(type: JsonType): boolean {
  return type === 'array' || type === 'object'
}

/** PHP writes an empty object as an empty list. */
function asObject(value: unknown, types: readonly JsonType[], otherwise = value): unknown {
  const isEmptyList = Array.isArray(value) && value.length === 0
  const isObjectDue = types.includes('object') && !types.includes('array')
  return isEmptyList && isObjectDue ? {} : otherwise
}

function takesEmptyObject({ schema, document }: PartSchema): boolean {
  const isObjectDue = typesOf({ schema, document }).includes('object')
  return isObjectDue && objectShapeOf(schema, document).required.length === 0
}

/** Returns the value of a text that is a list or an object in JSON, within the limits of a whole request. */
function valueOfJson(text: string): unknown {
  const isOpened = /^\s*[[{]/.test(text)
  if (!isOpened || excessOf(text) !== undefined) return undefined
  return valueFromJson(text)
}

/** Fields that clients are known to add. No model writes them instead of a property. */
const OF_CLIENTS: ReadonlySet<string> = new Set(['toolCallId', 'sessionId'])

/** Returns the fields that no part of the schema has, apart from those that a model may have misspelt. */
function addedFields(
  value: Arguments,
  refusals: readonly Refusal[],
  { schema, document }: PartSchema,
): readonly string[] {
  const { properties } = objectShapeOf(schema, document)
  const names = new Set<string>()
  for (const { place, unknownField: name } of refusals) {
    if (place === '' && name !== undefined && !properties.has(name)) names.add(name)
  }
  if (names.size > MAX_LEFT_OUT) return []
  const isShort = (name: string): boolean => name.length <= MAX_COMPARED.length
  const missing = [...properties.keys()].filter((name) => !Object.hasOwn(value, name))
  const compared = missing.filter(isShort).slice(0, MAX_COMPARED.number)
  const isMisspelt = (name: string): boolean =>
    !OF_CLIENTS.has(name) && isShort(name) && nearestWord(name, compared) !== undefined
  return [...names].filter((name) => !isMisspelt(name))
}

function without(value: Arguments, names: readonly string[]): Arguments {
  if (names.length === 0) return value
  return Object.fromEntries(Object.entries(value).filter(([name]) => !names.includes(name)))
}

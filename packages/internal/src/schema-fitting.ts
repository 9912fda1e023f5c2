import { isRecord } from './is-record.ts'
import { currentSchema, isPattern } from './json-schema.ts'
import type { JsonSchema, SchemaDocument } from './json-schema.ts'
import { objectShapeOf } from './object-shape.ts'

export type JsonType = 'null' | 'boolean' | 'number' | 'string' | 'array' | 'object'

const ALL: readonly JsonType[] = ['null', 'boolean', 'number', 'string', 'array', 'object']

/** The schema of one part of a value. Its document must have no defect. */
export interface PartSchema {
  readonly schema: unknown
  readonly document: SchemaDocument
}

/** How values are read that a schema refuses. */
export interface Reading {
  /** Returns the value that was meant. @returns the same value if it stands for no other */
  readonly meantBy: (value: unknown, part: PartSchema) => unknown
  /** Returns whether the value of an optional field says that there is none. */
  readonly isAbsent: (value: unknown, part: PartSchema) => boolean
}

/**
 * Returns a value with its refused parts replaced by those that were meant. The same object if nothing changes. Values
 * that are found in a text are read by the next walk.
 *
 * @param refused places of the parts that the schema refuses, as JSON pointers (RFC 6901). Other parts stay
 */
export function fittedValue(
  value: unknown,
  part: PartSchema,
  { reading, refused }: { readonly reading: Reading; readonly refused: ReadonlySet<string> },
): unknown {
  return new Fitting(part.document, reading, refused).at('', value, part.schema)
}

/** One walk over a value and its schema. */
class Fitting {
  readonly #document: SchemaDocument
  readonly #reading: Reading
  readonly #refused: ReadonlySet<string>

  constructor(document: SchemaDocument, reading: Reading, refused: ReadonlySet<string>) {
    this.#document = document
    this.#reading = reading
    this.#refused = refused
  }

  at(place: string, value: unknown, schema: unknown): unknown {
    if (!isRecord(schema)) return value
    if (this.#refused.has(place)) {
      const meant = this.#reading.meantBy(value, { schema, document: this.#document })
      if (meant !== value) return meant
    }
    if (Array.isArray(value)) return this.#list(place, value, schema)
    return isRecord(value) ? this.#object(place, value, schema) : value
  }

  #object(place: string, value: Readonly<Record<string, unknown>>, schema: JsonSchema): unknown {
    const { properties, required } = objectShapeOf(schema, this.#document)
    const others = schema['patternProperties'] === undefined && schema['additionalProperties']
    let isChanged = false
    const fields = Object.entries(value).flatMap(([name, field]): [string, unknown][] => {
      const isKnown = properties.has(name)
      const own = isKnown ? properties.get(name) : others
      const ownPlace = `${place}/${stepOf(name)}`
      const isOptional = isKnown && !required.includes(name) && this.#refused.has(ownPlace)
      if (isOptional && this.#isAbsent(field, own)) {
        isChanged = true
        return []
      }
      const fitted = this.at(ownPlace, field, own)
      if (fitted === field) return [[name, field]]
      isChanged = true
      return isOptional && this.#isAbsent(fitted, own) ? [] : [[name, fitted]]
    })
    return isChanged ? Object.fromEntries(fields) : value
  }

  #isAbsent(value: unknown, schema: unknown): boolean {
    return this.#reading.isAbsent(value, { schema, document: this.#document })
  }

  #list(place: string, value: readonly unknown[], schema: JsonSchema): unknown {
    const { items, prefixItems } = this.#resolved(schema)
    // Draft-07 has a list in `items`.
    const first = [prefixItems, items].find((one) => Array.isArray(one)) ?? []
    const fitted = value.map((item, index) =>
      this.at(`${place}/${index}`, item, index < first.length ? first[index] : items),
    )
    return fitted.some((item, index) => item !== value[index]) ? fitted : value
  }

  /** Returns the schema that says something of the items of a list. */
  #resolved(schema: JsonSchema): JsonSchema {
    for (const one of partsOf(schema, this.#document)) {
      if (one['items'] !== undefined || one['prefixItems'] !== undefined) return one
    }
    return schema
  }
}

/** Returns a name as a step of a JSON pointer. */
export function stepOf(name: string): string {
  return name.replaceAll('~', '~0').replaceAll('/', '~1')
}

/** Returns the schemas that describe the same value: behind `$ref`, in `allOf`, and in the only branch that is not null. */
function partsOf(schema: JsonSchema, document: SchemaDocument): readonly JsonSchema[] {
  const parts: JsonSchema[] = []
  const add = (one: unknown): void => {
    if (!isRecord(one) || parts.includes(one)) return
    parts.push(one)
    add(document.targetOf(one))
    for (const inner of listOf(one['allOf'])) add(inner)
    for (const branches of [one['anyOf'], one['oneOf']].map(listOf)) {
      const lists = branches.filter((branch) => {
        return typesOf({ schema: branch, document }).includes('array')
      })
      if (lists.length === 1) add(lists[0])
    }
  }
  add(schema)
  return parts
}

/** Returns the JSON types of the values that may fit a schema. */
export function typesOf({ schema: given, document }: PartSchema): readonly JsonType[] {
  if (given === false) return []
  if (!isRecord(given)) return ALL
  const known = types.get(given)
  if (known !== undefined) return known
  types.set(given, ALL) // for a schema that contains itself
  const of = (schema: unknown): readonly JsonType[] => typesOf({ schema, document })
  const schema = currentSchema(given)
  const { type, enum: values, const: constant, allOf, anyOf, oneOf } = schema
  const ofType = type === undefined ? ALL : [type].flat().map(typeNamed)
  const constants = constant === undefined ? values : [constant]
  const ofValues = Array.isArray(constants) ? constants.map(jsonTypeOf) : ALL
  const ofTarget = of(document.targetOf(given))
  const ofAll = listOf(allOf).map(of)
  const ofSome = [anyOf, oneOf].flatMap((branches) =>
    Array.isArray(branches) ? [branches.flatMap(of)] : [],
  )
  const every = [ofType, ofValues, ofTarget, ...ofAll, ...ofSome]
  const found = ALL.filter((one) => every.every((some) => some.includes(one)))
  types.set(given, found)
  return found
}

const types = new WeakMap<JsonSchema, readonly JsonType[]>()

/** Formats of texts that are never empty. Validators need not check formats, but agents and servers do. */
export const FILLED_FORMATS: readonly string[] = [
  ...'date time date-time duration email idn-email hostname idn-hostname'.split(' '),
  ...'ipv4 ipv6 uri url iri uuid'.split(' '),
]

/** A pattern of a schema could take too long for a longer text. */
const MAX_MATCHED = 16

/** Returns whether a text may fit a schema. Keywords that cannot be evaluated alone are left out. */
export function takesText(text: string, { schema: given, document }: PartSchema): boolean {
  if (given === false) return false
  if (!isRecord(given)) return true
  const takes = (schema: unknown): boolean => takesText(text, { schema, document })
  const schema = currentSchema(given)
  const { type, enum: values, const: constant, format, minLength, maxLength, pattern } = schema
  const { length } = text
  return (
    (type === undefined || [type].flat().includes('string')) &&
    (!Array.isArray(values) || values.includes(text)) &&
    (constant === undefined || constant === text) &&
    !(text === '' && FILLED_FORMATS.some((one) => one === format)) &&
    !(typeof minLength === 'number' && length < minLength) &&
    !(typeof maxLength === 'number' && length > maxLength) &&
    (!isPattern(pattern) || length > MAX_MATCHED || new RegExp(pattern, 'u').test(text)) &&
    takes(document.targetOf(given)) &&
    listOf(schema['allOf']).every(takes) &&
    [schema['anyOf'], schema['oneOf']].every((some) => !Array.isArray(some) || some.some(takes))
  )
}

function listOf(value: unknown): readonly unknown[] {
  return Array.isArray(value) ? value : []
}

function typeNamed(name: unknown): unknown {
  return name === 'integer' ? 'number' : name
}

export function jsonTypeOf(value: unknown): JsonType {
  if (value === null) return 'null'
  if (Array.isArray(value)) return 'array'
  const name = typeof value
  return ALL.find((one) => one === name) ?? 'string'
}

/**
 * Returns the value that a text writes as JSON, or as Python writes `True` and `False`. `undefined` for any other text,
 * and for one with a number that has more digits than a number keeps: an identifier would become another one.
 */
export function literalFrom(text: string): unknown {
  if (text === 'True' || text === 'False') return text === 'True'
  try {
    const value: unknown = JSON.parse(text)
    return (text.match(TEXTS_AND_NUMBERS) ?? []).every(isKept) ? value : undefined
  } catch {
    return undefined
  }
}

const TEXTS_AND_NUMBERS = /"[^"\\]*(?:\\.[^"\\]*)*"|-?\d[\d.Ee+-]*/g

/** Returns true for a text, and for a number that reads as it is written. */
function isKept(part: string): boolean {
  if (part.startsWith('"')) return true
  const value = Number(part)
  const digits = part.replace(/e.*$/i, '').replaceAll(/[-.]/g, '').replace(/^0+/, '').length
  if (digits <= 15) return Number.isFinite(value)
  return digits <= MAX_DIGITS && value.toPrecision(digits) === part
}

/** Limit of `toPrecision()`. */
const MAX_DIGITS = 100

/** Returns whether a value is one that clients and models write for no value. */
export function isBlank(value: unknown): boolean {
  if (typeof value !== 'string')
    return value === null || (Array.isArray(value) && value.length === 0)
  const text = value.trim()
  if (text === '' || text === 'null') return true
  return text.startsWith('[') && text.endsWith(']') && text.slice(1, -1).trim() === ''
}

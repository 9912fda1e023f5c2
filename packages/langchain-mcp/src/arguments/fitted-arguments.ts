import { currentSchema, documentOf, isRecord, type SchemaDocument } from '@x/internal'
import type { SchemaCheck, ValidationError } from '@x/internal/schema-check'
import type { JsonSchema } from '../base/tool-source.ts'
import { objectShapeOf } from '../schema/json-schema.ts'

type Type = 'null' | 'boolean' | 'number' | 'string' | 'array' | 'object'

const ALL: readonly Type[] = ['null', 'boolean', 'number', 'string', 'array', 'object']

/** Text inside of JSON text inside of JSON text. More levels are a mistake that the model should see. */
const MAX_ROUNDS = 4

interface FittedArguments {
  readonly value: unknown
  /** Why the schema still refuses the value. */
  readonly errors: readonly ValidationError[]
}

/**
 * Returns the arguments of a model, with what models are known to write instead of the value that they mean, repaired:
 * `null` for an optional parameter is left out (NeMo#1269), and JSON text where no text fits becomes its value: an
 * object or a list (LibreChat#11905), a number, or `true` or `false` (claude-code#59227).
 *
 * Only values that the schema refuses change, and only if no other type fits at their place. Arguments that the schema
 * accepts, and arguments of a schema with a defect, are the same object.
 */
export function fittedArguments(
  given: unknown,
  schema: JsonSchema,
  check: Pick<SchemaCheck, 'locatedErrors'>,
): FittedArguments {
  let value = given
  let errors = check.locatedErrors(value)
  for (let round = 0; round < MAX_ROUNDS && errors.length > 0; round++) {
    const refused = new Set(errors.map(({ place }) => place))
    const fitted = new Fitting(documentOf(schema), refused).at('#', value, schema)
    if (fitted === value) break
    value = fitted
    errors = check.locatedErrors(value)
  }
  return { value, errors }
}

/** One walk over a value and its schema, which changes the values at refused places. */
class Fitting {
  readonly #document: SchemaDocument
  readonly #refused: ReadonlySet<string>

  constructor(document: SchemaDocument, refused: ReadonlySet<string>) {
    this.#document = document
    this.#refused = refused
  }

  /** Returns the same object if nothing changes. */
  at(place: string, value: unknown, schema: unknown): unknown {
    if (!isRecord(schema)) return value
    if (typeof value === 'string') {
      if (!this.#refused.has(place)) return value
      const meant = valueOf(value, typesOf(schema, this.#document))
      return meant === undefined ? value : meant
    }
    if (Array.isArray(value)) return this.#list(place, value, schema)
    return isRecord(value) ? this.#object(place, value, schema) : value
  }

  #object(place: string, value: Readonly<Record<string, unknown>>, schema: JsonSchema): unknown {
    const { properties, required } = objectShapeOf(schema, this.#document)
    const others = schema['patternProperties'] === undefined && schema['additionalProperties']
    let isChanged = false
    const fields = Object.entries(value).flatMap(([name, field]): [string, unknown][] => {
      const isParameter = properties.has(name)
      const own = isParameter ? properties.get(name) : others
      const ownPlace = `${place}/${stepOf(name)}`
      const isOptional = isParameter && !required.includes(name) && this.#refused.has(ownPlace)
      const fitted = this.at(ownPlace, field, own)
      if (fitted !== field) isChanged = true
      if (fitted !== null || !isOptional) return [[name, fitted]]
      if (typesOf(own, this.#document).includes('null')) return [[name, fitted]]
      isChanged = true
      return []
    })
    return isChanged ? Object.fromEntries(fields) : value
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

/** Returns the step of a place, as the validator writes it. */
function stepOf(name: string): string {
  const escaped = name.replaceAll('~', '~0').replaceAll('/', '~1').toWellFormed()
  return encodeURI(escaped).replaceAll('#', '%23')
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
      const lists = branches.filter((branch) => typesOf(branch, document).includes('array'))
      if (lists.length === 1) add(lists[0])
    }
  }
  add(schema)
  return parts
}

/** Returns the JSON types of the values that may fit a schema. The document must have no defect. */
function typesOf(given: unknown, document: SchemaDocument): readonly Type[] {
  if (given === false) return []
  if (!isRecord(given)) return ALL
  const known = types.get(given)
  if (known !== undefined) return known
  types.set(given, ALL) // for a schema that contains itself
  const schema = currentSchema(given)
  const { type, enum: values, const: constant, allOf, anyOf, oneOf } = schema
  const ofType = type === undefined ? ALL : [type].flat().map(typeNamed)
  const constants = constant === undefined ? values : [constant]
  const ofValues = Array.isArray(constants) ? constants.map(typeOf) : ALL
  const ofTarget = typesOf(document.targetOf(given), document)
  const ofAll = listOf(allOf).map((one) => typesOf(one, document))
  const ofSome = [anyOf, oneOf].flatMap((branches) =>
    Array.isArray(branches) ? [branches.flatMap((one) => typesOf(one, document))] : [],
  )
  const every = [ofType, ofValues, ofTarget, ...ofAll, ...ofSome]
  const found = ALL.filter((one) => every.every((some) => some.includes(one)))
  types.set(given, found)
  return found
}

const types = new WeakMap<JsonSchema, readonly Type[]>()

function listOf(value: unknown): readonly unknown[] {
  return Array.isArray(value) ? value : []
}

function typeNamed(name: unknown): unknown {
  return name === 'integer' ? 'number' : name
}

function typeOf(value: unknown): Type {
  if (value === null) return 'null'
  if (Array.isArray(value)) return 'array'
  const name = typeof value
  return ALL.find((one) => one === name) ?? 'string'
}

/** Returns the value that a text stands for, or undefined if texts fit, or if the value does not. */
function valueOf(text: string, allowed: readonly Type[]): unknown {
  if (allowed.includes('string')) return undefined
  const value = parsed(text.trim())
  if (value === undefined) return undefined
  // `null` is left out by the next walk, if the parameter is optional.
  return value === null || allowed.includes(typeOf(value)) ? value : undefined
}

function parsed(text: string): unknown {
  // Python's spelling.
  if (text === 'True' || text === 'False') return text === 'True'
  try {
    const value: unknown = JSON.parse(text)
    // More digits than a number keeps would change the value.
    const isExact = typeof value !== 'number' || isKept(text, value)
    return isExact ? value : undefined
  } catch {
    return undefined
  }
}

function isKept(text: string, value: number): boolean {
  const digits = text.replace(/e.*$/i, '').replaceAll(/[-.]/g, '').replace(/^0+/, '').length
  return Number.isFinite(value) && digits <= 15
}

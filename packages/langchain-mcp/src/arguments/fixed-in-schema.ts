import { isRecord, type SchemaDocument } from '@x/internal'
import type { JsonSchema } from '../base/tool-source.ts'
import { documentOf } from '../schema/json-schema.ts'
import { fieldOf, type PathStep } from './argument-property.ts'

/** The known value of an argument when the model sees the tool. */
export type KnownArgument =
  | { readonly kind: 'value'; readonly shown: unknown }
  /** Sensitive, or unknown until the call. */
  | { readonly kind: 'secret' }
  /** The argument is not sent. */
  | { readonly kind: 'absent' }

const LEAVE_EMPTY = 'Pre-configured: leave it empty.'

/**
 * Returns the schema with one argument fixed. A value becomes the only allowed one, a list becomes its JSON
 * text, an object is fixed field by field. A secret is mentioned without its value, and stops being
 * required.
 *
 * @returns undefined if the schema has no such place
 * @throws {InvalidValueError} if the schema needs an object and the value is not one
 */
export function withFixedArgument(
  schema: JsonSchema,
  steps: readonly PathStep[],
  known: KnownArgument,
): JsonSchema | undefined {
  return fixedAt(schema, { steps, known, references: documentOf(schema) })
}

/** A value that does not fit its place. The message does not contain the value. */
export class InvalidValueError extends TypeError {
  override readonly name = 'InvalidValueError'
}

interface Fixing {
  readonly steps: readonly PathStep[]
  readonly known: KnownArgument
  readonly references: SchemaDocument
}

function fixedAt(schema: JsonSchema, { steps, known, references }: Fixing): JsonSchema | undefined {
  const change = (place: JsonSchema): FieldChange | undefined => {
    if (known.kind === 'absent') return undefined
    if (known.kind === 'secret') return withoutValue(place)
    if (isRecord(known.shown)) return withLeaves(place, known.shown, references)
    if (known.shown !== null && isObjectSchema(place, references))
      throw new InvalidValueError('the schema needs an object')
    return { schema: withOnlyValue(place, known.shown) }
  }
  return withPlaceChanged(schema, { steps, references, change })
}

function withLeaves(
  place: JsonSchema,
  value: Readonly<Record<string, unknown>>,
  references: SchemaDocument,
): FieldChange {
  let schema = place
  let isAnyShown = false
  for (const [name, inner] of Object.entries(value)) {
    const leaf = fixedAt(schema, {
      steps: [{ kind: 'field', name }],
      known: { kind: 'value', shown: inner },
      references,
    })
    if (leaf === undefined) continue
    schema = leaf
    isAnyShown = true
  }
  return isAnyShown ? { schema } : withoutValue(place)
}

function withOnlyValue(place: JsonSchema, value: unknown): JsonSchema {
  const { title, description, type } = place
  const words = {
    ...(title !== undefined && { title }),
    ...(description !== undefined && { description }),
  }
  if (Array.isArray(value)) return { type: 'string', ...words, enum: [JSON.stringify(value)] }
  return { ...(type !== undefined && value !== null && { type }), ...words, enum: [value] }
}

function withoutValue(place: JsonSchema): FieldChange {
  const { title, type, items } = place
  const schema = {
    ...(title !== undefined && { title }),
    ...(type !== undefined && { type }),
    ...(type === 'array' && { items: items ?? {} }),
    description: LEAVE_EMPTY,
  }
  return { schema, mayBeRequired: false }
}

function isObjectSchema(place: JsonSchema, references: SchemaDocument): boolean {
  const { $ref, type, properties } = place
  if (typeof $ref === 'string') {
    const target = references.targetOf(place)
    return isRecord(target) && target !== place ? isObjectSchema(target, references) : false
  }
  return type === 'object' || (type === undefined && isRecord(properties))
}

/** Limit of followed references and intersections. */
const MAX_TURNS = 64

/** Returns the new schema of a place, or undefined to remove the field. */
type PlaceChange = (schema: JsonSchema) => FieldChange | undefined

interface FieldChange {
  readonly schema: JsonSchema
  /** `false` removes the field from `required`. @default true */
  readonly mayBeRequired?: boolean | undefined
}

/**
 * Returns a copy of a schema that is changed at a path. References on the way are inlined for this place
 * only. The walk enters the member of a nullable union that is not null, and the member of an intersection
 * that has the field.
 *
 * @returns undefined if the schema has no such place
 */
function withPlaceChanged(
  schema: JsonSchema,
  {
    steps,
    references,
    change,
  }: {
    readonly steps: readonly PathStep[]
    readonly references: SchemaDocument
    readonly change: PlaceChange
  },
): JsonSchema | undefined {
  return descend(schema, { steps, references, change, turns: 0 })?.schema
}

interface Descent {
  readonly steps: readonly PathStep[]
  readonly references: SchemaDocument
  readonly change: PlaceChange
  readonly turns: number
}

/** The changed schema, a removed schema, or undefined if the path does not fit. */
type Descended = FieldChange | { readonly schema: undefined } | undefined

function descend(schema: unknown, descent: Descent): Descended {
  const { steps, references, change, turns } = descent
  if (turns > MAX_TURNS) return undefined
  const [step, ...rest] = steps
  if (schema === true || (isRecord(schema) && step === undefined)) {
    if (step !== undefined) return undefined
    return change(isRecord(schema) ? schema : {}) ?? { schema: undefined }
  }
  if (!isRecord(schema)) return undefined
  const { $ref, ...beside } = schema
  if (typeof $ref === 'string') {
    const target = references.targetOf(schema)
    if (!isRecord(target)) return undefined
    const inlined = Object.keys(beside).length === 0 ? target : { ...target, ...beside }
    return descend(inlined, { ...descent, turns: turns + 1 })
  }
  const nullable = nullableOf(schema)
  if (nullable !== undefined) {
    const { keyword, members, index } = nullable
    const inner = descend(members[index], { ...descent, turns: turns + 1 })
    if (inner?.schema === undefined) return inner
    return { ...inner, schema: { ...schema, [keyword]: members.with(index, inner.schema) } }
  }
  const below = { ...descent, steps: rest, turns: turns + 1 }
  const own =
    step?.kind === 'field' ? inField(schema, step.name, below) : inItems(schema, step, below)
  return own ?? inIntersection(schema, descent)
}

function inField(schema: JsonSchema, name: string, descent: Descent): Descended {
  const { properties, required } = schema
  if (!isRecord(properties) || !Object.hasOwn(properties, name)) return undefined
  const isRequired = Array.isArray(required) && required.includes(name)
  const inner = descend(fieldOf(properties, name), descent)
  if (inner === undefined) return undefined
  const isLast = descent.steps.length === 0
  const entries = Object.entries(properties).flatMap(([key, value]): [string, unknown][] => {
    if (key !== name) return [[key, value]]
    return inner.schema === undefined ? [] : [[key, inner.schema]]
  })
  const mayBeRequired = inner.schema !== undefined && inner.mayBeRequired !== false
  const isDropped = isRequired && isLast && !mayBeRequired
  return {
    schema: {
      ...schema,
      properties: Object.fromEntries(entries),
      ...(isDropped && { required: required.filter((one: unknown) => one !== name) }),
    },
  }
}

function inItems(schema: JsonSchema, step: PathStep | undefined, descent: Descent): Descended {
  if (step === undefined || step.kind === 'field') return undefined
  const { items, prefixItems } = schema
  const tuple = Array.isArray(prefixItems)
    ? 'prefixItems'
    : Array.isArray(items)
      ? 'items'
      : undefined
  if (tuple !== undefined && step.kind === 'item') {
    const list = schema[tuple]
    if (Array.isArray(list) && step.index < list.length) {
      const inner = descend(list[step.index], descent)
      if (inner === undefined) return undefined
      return { schema: { ...schema, [tuple]: list.with(step.index, inner.schema ?? {}) } }
    }
  }
  const isArray =
    schema['type'] === 'array' ||
    (Array.isArray(schema['type']) && schema['type'].includes('array'))
  if (!isArray && items === undefined) return undefined
  if (Array.isArray(items) || items === false) return undefined
  const inner = descend(items ?? true, descent)
  if (inner === undefined) return undefined
  // `items` describes every item of the list, so a change for one item must not alter it.
  return { schema: step.kind === 'item' ? schema : { ...schema, items: inner.schema ?? {} } }
}

function inIntersection(schema: JsonSchema, descent: Descent): Descended {
  const { allOf } = schema
  if (!Array.isArray(allOf)) return undefined
  for (const [index, member] of allOf.entries()) {
    const inner = descend(member, { ...descent, turns: descent.turns + 1 })
    if (inner?.schema !== undefined) {
      return { schema: { ...schema, allOf: allOf.with(index, inner.schema) } }
    }
  }
  return undefined
}

interface Nullable {
  readonly keyword: 'anyOf' | 'oneOf'
  readonly members: readonly unknown[]
  /** Index of the member that is not null. */
  readonly index: number
}

function nullableOf(schema: JsonSchema): Nullable | undefined {
  for (const keyword of ['anyOf', 'oneOf'] as const) {
    const members = schema[keyword]
    if (!Array.isArray(members) || members.length !== 2) continue
    const index = members.findIndex((member) => !isNull(member))
    if (index >= 0 && isNull(members[1 - index])) return { keyword, members, index }
  }
  return undefined
}

function isNull(schema: unknown): boolean {
  return isRecord(schema) && schema['type'] === 'null'
}

import { isRecord } from '@x/internal'
import type { JsonSchema } from '../base/tool-source.ts'
import { LocalReferences } from '../schema/json-schema.ts'
import { fieldOf, type PathStep } from './argument-property.ts'

/** What is known of a place when the model is told of the tool. */
export type KnownArgument =
  | { readonly kind: 'value'; readonly shown: unknown }
  /** Sensitive, or known only when the tool is called. */
  | { readonly kind: 'secret' }
  /** Will not be sent. */
  | { readonly kind: 'absent' }

const LEAVE_EMPTY = 'Pre-configured: leave it empty.'

/**
 * The schema with one place fixed: a value is shown as the only one, a list as its JSON, an object by its
 * leaves; a secret is only said to be there, and no longer required.
 *
 * @returns undefined if the schema has no such place
 * @throws {MisfitError} for a value that is no object where one belongs
 */
export function withFixedArgument(
  schema: JsonSchema,
  steps: readonly PathStep[],
  known: KnownArgument,
): JsonSchema | undefined {
  return fixedAt(schema, { steps, known, references: new LocalReferences(schema) })
}

/** A value that cannot be at its place. Its message holds no value. */
export class MisfitError extends TypeError {
  override readonly name = 'MisfitError'
}

interface Fixing {
  readonly steps: readonly PathStep[]
  readonly known: KnownArgument
  readonly references: LocalReferences
}

function fixedAt(schema: JsonSchema, { steps, known, references }: Fixing): JsonSchema | undefined {
  const change = (place: JsonSchema): FieldChange | undefined => {
    if (known.kind === 'absent') return undefined
    if (known.kind === 'secret') return withoutValue(place)
    if (isRecord(known.shown)) return withLeaves(place, known.shown, references)
    if (known.shown !== null && isObjectSchema(place, references))
      throw new MisfitError('an object belongs there')
    return { schema: withOnlyValue(place, known.shown) }
  }
  return withPlaceChanged(schema, { steps, references, change })
}

function withLeaves(
  place: JsonSchema,
  value: Readonly<Record<string, unknown>>,
  references: LocalReferences,
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

function isObjectSchema(place: JsonSchema, references: LocalReferences): boolean {
  const { $ref, type, properties } = place
  if (typeof $ref === 'string') {
    const found = references.resolve($ref, place)
    return found.kind === 'schema' && isRecord(found.schema) && found.schema !== place
      ? isObjectSchema(found.schema, references)
      : false
  }
  return type === 'object' || (type === undefined && isRecord(properties))
}

/** Longer chains of references and intersections than any author writes. */
const MAX_TURNS = 64

/** What becomes of the schema at a place; `undefined` takes the field away. */
type PlaceChange = (schema: JsonSchema, isRequired: boolean) => FieldChange | undefined

interface FieldChange {
  readonly schema: JsonSchema
  /** Whether the model still has to give it. @default true */
  readonly mayBeRequired?: boolean | undefined
}

/**
 * Changes a schema at the place that a path leads to, in a copy. References on the way are inlined for
 * that place only; the alternative of a nullable that is not null is entered, and so is the member of an
 * intersection that has the field.
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
    readonly references: LocalReferences
    readonly change: PlaceChange
  },
): JsonSchema | undefined {
  return descend(schema, { steps, references, change, isRequired: false, turns: 0 })?.schema
}

interface Descent {
  readonly steps: readonly PathStep[]
  readonly references: LocalReferences
  readonly change: PlaceChange
  readonly isRequired: boolean
  readonly turns: number
}

/** The changed schema, or `'removed'`, or nothing where the path does not fit. */
type Descended = FieldChange | { readonly schema: undefined } | undefined

function descend(schema: unknown, descent: Descent): Descended {
  const { steps, references, change, isRequired, turns } = descent
  if (turns > MAX_TURNS) return undefined
  const [step, ...rest] = steps
  if (schema === true || (isRecord(schema) && step === undefined)) {
    if (step !== undefined) return undefined
    return change(isRecord(schema) ? schema : {}, isRequired) ?? { schema: undefined }
  }
  if (!isRecord(schema)) return undefined
  const { $ref, ...beside } = schema
  if (typeof $ref === 'string') {
    const found = references.resolve($ref, schema)
    if (found.kind !== 'schema' || !isRecord(found.schema)) return undefined
    const inlined = Object.keys(beside).length === 0 ? found.schema : { ...found.schema, ...beside }
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
  const inner = descend(fieldOf(properties, name), { ...descent, isRequired })
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
      const inner = descend(list[step.index], { ...descent, isRequired: true })
      if (inner === undefined) return undefined
      return { schema: { ...schema, [tuple]: list.with(step.index, inner.schema ?? {}) } }
    }
  }
  const isArray =
    schema['type'] === 'array' ||
    (Array.isArray(schema['type']) && schema['type'].includes('array'))
  if (!isArray && items === undefined) return undefined
  if (Array.isArray(items) || items === false) return undefined
  const inner = descend(items ?? true, { ...descent, isRequired: true })
  if (inner === undefined) return undefined
  // One item among others has no schema of its own: the place exists, and says nothing.
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
  /** Of the one that is not null. */
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

import { isRecord } from '@x/internal'
import { LocalReferences } from '../schema/local-references.ts'
import type { JsonSchema } from '../catalogue/tool-source.ts'
import type { PathStep } from './json-path.ts'
import { withPlaceChanged, type FieldChange } from './schema-place.ts'

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

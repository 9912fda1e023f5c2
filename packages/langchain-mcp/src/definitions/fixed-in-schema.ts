import { definedFields, documentOf, isRecord, type SchemaDocument } from '@x/internal'
import type { JsonSchema } from '../tool-source.ts'
import { fieldOf, withField, type PathStep } from './json-path.ts'

/**
 * The value of an argument when the model sees the tool. `secret`: sensitive, or unknown until the call.
 * `absent`: the argument is not sent.
 */
export type KnownArgument = { readonly shown: unknown } | 'secret' | 'absent'

/**
 * Returns the schema with one argument fixed. A value becomes the only allowed one, a list becomes its JSON
 * text, an object is fixed field by field. A secret is mentioned without its value, and stops being
 * required. References on the way are inlined for this place only.
 *
 * @returns undefined if the schema has no such place
 * @throws {InvalidValueError} if the schema needs an object and the value is not one
 */
export function withFixedArgument(
  schema: JsonSchema,
  steps: readonly PathStep[],
  known: KnownArgument,
): JsonSchema | undefined {
  return new SchemaEdit(documentOf(schema), known).at(schema, steps)?.schema
}

/** A value that does not fit its place. The message does not contain the value. */
export class InvalidValueError extends TypeError {
  override readonly name = 'InvalidValueError'
}

/** A changed part of a schema. */
interface Edited {
  /** Undefined removes the field. */
  readonly schema: JsonSchema | undefined
  /** `false` removes the field from `required`. */
  readonly mayBeRequired: boolean
}

/** Limit of visited schemas. References and intersections can lead to more than exist. */
const MAX_VISITS = 1000

class SchemaEdit {
  readonly #document: SchemaDocument
  readonly #known: KnownArgument
  #visits = 0

  constructor(document: SchemaDocument, known: KnownArgument) {
    this.#document = document
    this.#known = known
  }

  /** Returns undefined if the schema has no such place. */
  at(schema: unknown, steps: readonly PathStep[]): Edited | undefined {
    const [step, ...rest] = steps
    if (++this.#visits > MAX_VISITS) return undefined
    if (step === undefined && schema === true) return this.#edited({})
    if (!isRecord(schema)) return undefined
    if (step === undefined) return this.#edited(schema)
    const { $ref, ...beside } = schema
    if ($ref !== undefined) {
      const target = this.#document.targetOf(schema)
      return isRecord(target) ? this.at({ ...target, ...beside }, steps) : undefined
    }
    const own =
      typeof step === 'string'
        ? this.#inField(schema, step, rest)
        : this.#inItem(schema, step, rest)
    return own ?? this.#inMember(schema, steps)
  }

  #inField(schema: JsonSchema, name: string, rest: readonly PathStep[]): Edited | undefined {
    const { properties, required } = schema
    if (!isRecord(properties) || !Object.hasOwn(properties, name)) return undefined
    const edited = this.at(fieldOf(properties, name), rest)
    if (edited === undefined) return undefined
    const changed = { ...schema, properties: withField(properties, name, edited.schema) }
    return edited.mayBeRequired || !Array.isArray(required)
      ? whole(changed)
      : whole({ ...changed, required: required.filter((one) => one !== name) })
  }

  #inItem(schema: JsonSchema, index: number, rest: readonly PathStep[]): Edited | undefined {
    const { type, items, prefixItems } = schema
    const keyword = Array.isArray(prefixItems) ? 'prefixItems' : 'items' // draft-07 has `items`
    const tuple = schema[keyword]
    if (Array.isArray(tuple) && index < tuple.length) {
      const edited = this.at(tuple[index], rest)
      return edited && whole({ ...schema, [keyword]: tuple.with(index, edited.schema ?? {}) })
    }
    const isList = items !== undefined || [type].flat().includes('array')
    if (!isList || Array.isArray(items) || items === false) return undefined
    // `items` describes every item of the list, so a change for one item must not alter it.
    return this.at(items ?? true, rest) && whole(schema)
  }

  /** Enters the first member of an intersection, or of a union with null, that has the place. */
  #inMember(schema: JsonSchema, steps: readonly PathStep[]): Edited | undefined {
    for (const keyword of ['anyOf', 'oneOf', 'allOf'] as const) {
      const members = schema[keyword]
      if (!Array.isArray(members) || (keyword !== 'allOf' && !isNullable(members))) continue
      for (const [index, member] of members.entries()) {
        const edited = this.at(member, steps)?.schema
        if (edited !== undefined) {
          return whole({ ...schema, [keyword]: members.with(index, edited) })
        }
      }
    }
    return undefined
  }

  #edited(place: JsonSchema): Edited {
    const known = this.#known
    if (known === 'absent') return { schema: undefined, mayBeRequired: false }
    if (known === 'secret') return withoutValue(place)
    const { shown } = known
    if (isRecord(shown)) return this.#withFields(place, shown)
    if (shown !== null && this.#isObject(place)) {
      throw new InvalidValueError('the schema needs an object')
    }
    const { title, description, type } = place
    if (!Array.isArray(shown)) {
      const own = { type: shown === null ? undefined : type, title, description }
      return whole({ ...definedFields(own), enum: [shown] })
    }
    const words = definedFields({ title, description })
    return whole({ type: 'string', ...words, enum: [JSON.stringify(shown)] })
  }

  #withFields(place: JsonSchema, value: JsonSchema): Edited {
    let schema = place
    for (const [name, shown] of Object.entries(value)) {
      schema = new SchemaEdit(this.#document, { shown }).at(schema, [name])?.schema ?? schema
    }
    return schema === place ? withoutValue(place) : whole(schema)
  }

  #isObject(place: JsonSchema): boolean {
    if (++this.#visits > MAX_VISITS) return false
    const target = this.#document.targetOf(place)
    if (target !== undefined) return isRecord(target) && this.#isObject(target)
    const { type, properties } = place
    return type === 'object' || (type === undefined && isRecord(properties))
  }
}

function whole(schema: JsonSchema): Edited {
  return { schema, mayBeRequired: true }
}

function withoutValue({ title, type, items = {} }: JsonSchema): Edited {
  const schema = {
    ...definedFields({ title, type }),
    ...(type === 'array' && { items }),
    description: 'Pre-configured: leave it empty.',
  }
  return { schema, mayBeRequired: false }
}

function isNullable(members: readonly unknown[]): boolean {
  return members.length === 2 && members.some((one) => isRecord(one) && one['type'] === 'null')
}

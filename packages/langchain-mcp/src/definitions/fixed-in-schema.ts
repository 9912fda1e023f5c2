import { definedFields, documentOf, isObject, isRecord } from '@x/internal'
import type { JsonSchema } from '../tool-source.ts'
import { fieldOf, withField, type PathStep } from './json-path.ts'

/** Limit of visited schemas. References and intersections can lead to more than exist. */
const MAX_VISITS = 1000

/**
 * Returns the schema with one argument fixed. A text, number, boolean or null becomes the only allowed value. Without
 * such a value, the model is asked to leave the argument empty. References on the way are inlined for this place only.
 *
 * @returns undefined if the schema has no such place
 */
export function withFixedArgument(
  schema: JsonSchema,
  steps: readonly PathStep[],
  shown: unknown,
): JsonSchema | undefined {
  const document = documentOf(schema)
  const isShown = shown !== undefined && !isObject(shown)
  let visits = 0

  function at(part: unknown, path: readonly PathStep[]): JsonSchema | undefined {
    if (++visits > MAX_VISITS || (!isRecord(part) && part !== true)) return undefined
    const given = part === true ? {} : part
    const [step, ...rest] = path
    if (step === undefined) return fixed(given)
    const { $ref, ...beside } = given
    if ($ref === undefined) return inPart(given, step, rest) ?? inMember(given, path)
    const target = document.targetOf(given)
    return isRecord(target) ? at({ ...target, ...beside }, path) : undefined
  }

  function inPart(
    part: JsonSchema,
    step: PathStep,
    rest: readonly PathStep[],
  ): JsonSchema | undefined {
    const { type, items, prefixItems, properties, required } = part
    if (typeof step === 'number') {
      const isList = items !== undefined || [type].flat().includes('array')
      const tuple = [prefixItems, items].find((one) => Array.isArray(one)) // draft-07 has `items`
      const others = Array.isArray(items) ? undefined : (items ?? true)
      const item: unknown = tuple !== undefined && step < tuple.length ? tuple[step] : others
      // The schema of an item may describe other items too, so it stays.
      return isList && at(item, rest) ? part : undefined
    }
    if (!isRecord(properties) || !Object.hasOwn(properties, step)) return undefined
    const field = at(fieldOf(properties, step), rest)
    if (field === undefined) return undefined
    const isOptional = rest.length === 0 && !isShown && Array.isArray(required)
    return {
      ...part,
      properties: withField(properties, step, field),
      ...(isOptional && { required: required.filter((name) => name !== step) }),
    }
  }

  /** Enters the first member of an intersection, or of a union with null, that has the place. */
  function inMember(part: JsonSchema, path: readonly PathStep[]): JsonSchema | undefined {
    for (const keyword of ['anyOf', 'oneOf', 'allOf'] as const) {
      const members = part[keyword]
      if (!Array.isArray(members) || (keyword !== 'allOf' && !isNullable(members))) continue
      for (const [index, member] of members.entries()) {
        const changed = at(member, path)
        if (changed !== undefined) return { ...part, [keyword]: members.with(index, changed) }
      }
    }
    return undefined
  }

  function fixed({ title, description, type, items = {} }: JsonSchema): JsonSchema {
    return isShown
      ? {
          ...definedFields({ type: shown === null ? undefined : type, title, description }),
          enum: [shown],
        }
      : {
          ...definedFields({ title, type }),
          ...(type === 'array' && { items }),
          description: 'Pre-configured: leave it empty.',
        }
  }

  return at(schema, steps)
}

function isNullable(members: readonly unknown[]): boolean {
  return members.length === 2 && members.some((one) => isRecord(one) && one['type'] === 'null')
}

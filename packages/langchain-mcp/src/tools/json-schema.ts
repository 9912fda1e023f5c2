import { canonicalJson, documentOf, isRecord, mapSubschemas, objectShapeOf } from '@x/internal'
import type { JsonSchema } from '../tool-source.ts'

/**
 * Returns why a schema cannot describe the arguments of a tool, or undefined if it can. One such tool would
 * spoil the whole request, because providers refuse all tools together. Nothing is fetched.
 */
export function schemaDefectOf(schema: unknown): string | undefined {
  if (!isRecord(schema)) return 'it is not an object'
  const { type = 'object' } = schema
  if ([type].flat().includes('object')) return documentOf(schema).defect
  return `arguments are an object, but the schema is of type ${JSON.stringify(type)}`
}

/** Returns a copy without these keywords. */
export function without(schema: JsonSchema, keywords: ReadonlySet<string>): JsonSchema {
  return Object.fromEntries(Object.entries(schema).filter(([keyword]) => !keywords.has(keyword)))
}

/**
 * Returns true if calls for the older schema may not fit the newer one. Compares canonical JSON. New optional
 * parameters, parameters that are no longer required, and other texts make no difference.
 */
export function breaksCalls(older: JsonSchema, newer: JsonSchema): boolean {
  const [before, after] = [partsOf(older), partsOf(newer)]
  return (
    before.rest !== after.rest ||
    [...before.parameters].some(([name, text]) => after.parameters.get(name) !== text) ||
    after.required.some((name) => !before.required.includes(name))
  )
}

/** Keywords that do not restrict values. */
const TEXTS: ReadonlySet<string> = new Set(
  'title description default examples deprecated $comment $schema'.split(' '),
)

function withoutTexts(schema: JsonSchema): Record<string, unknown> {
  return mapSubschemas(without(schema, TEXTS), (inner) =>
    isRecord(inner) ? withoutTexts(inner) : inner,
  )
}

function partsOf(schema: JsonSchema): {
  readonly parameters: ReadonlyMap<string, string>
  readonly required: readonly unknown[]
  readonly rest: string
} {
  const { properties, required, ...rest } = withoutTexts(schema)
  const parameters = Object.entries(isRecord(properties) ? properties : {})
  return {
    parameters: new Map(parameters.map(([name, inner]) => [name, canonicalJson(inner)])),
    required: Array.isArray(required) ? required : [],
    rest: canonicalJson(rest),
  }
}

/** Returns the parameters of a tool as text: `item (string), count (integer, optional)`, or "no parameters". */
export function parameterText(schema: JsonSchema): string {
  const { properties, required } = objectShapeOf(schema, documentOf(schema))
  const names = new Set([...properties.keys(), ...required]) // a required one may have no schema
  const parameters = Array.from(names, (name) => {
    const inner = properties.get(name)
    const type = isRecord(inner) && typeof inner['type'] === 'string' ? [inner['type']] : []
    const details = [...type, ...(required.includes(name) ? [] : ['optional'])]
    return details.length > 0 ? `${name} (${details.join(', ')})` : name
  })
  return parameters.length === 0 ? 'no parameters' : parameters.join(', ')
}

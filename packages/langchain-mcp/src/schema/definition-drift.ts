import { isRecord } from '@x/internal'
import type { JsonSchema, ToolDefinition } from '../catalogue/tool-source.ts'
import { LocalReferences } from './local-references.ts'
import { objectShapeOf } from './object-shape.ts'
import { typeSignature } from './type-signature.ts'

/**
 * What of a newer definition breaks calls that were made for the older one, one line each; empty if they
 * still fit. A parameter that is newly required, one that is gone, and a type that is another are breaking;
 * new optional parameters and other wording are not.
 */
export function breakingChanges(older: ToolDefinition, newer: ToolDefinition): string[] {
  const before = parametersOf(older.inputSchema)
  const after = parametersOf(newer.inputSchema)
  const changes: string[] = []
  for (const [name, { type }] of before) {
    const now = after.get(name)
    if (now === undefined) changes.push(`"${name}" no longer exists`)
    else if (now.type !== type) changes.push(`"${name}" is now of type ${now.type}, was ${type}`)
  }
  for (const [name, { isRequired }] of after) {
    if (isRequired && before.get(name)?.isRequired !== true)
      changes.push(`"${name}" is now required`)
  }
  return changes
}

interface Parameter {
  readonly type: string
  readonly isRequired: boolean
}

function parametersOf(schema: JsonSchema | undefined): ReadonlyMap<string, Parameter> {
  if (schema === undefined) return new Map()
  const references = new LocalReferences(schema)
  const { properties, required } = objectShapeOf(schema, references)
  const found = [...properties].map(([name, inner]): [string, Parameter] => [
    name,
    { type: typeSignature(inner, references), isRequired: required.includes(name) },
  ])
  // One may be required without being described.
  const bare = required.filter((name) => !properties.has(name))
  return new Map([
    ...found,
    ...bare.map((name): [string, Parameter] => [name, { type: 'any', isRequired: true }]),
  ])
}

/** The parameters of a tool in words: `item (string), count (integer, optional)`, or "no parameters". */
export function parameterText(schema: JsonSchema): string {
  const { properties, required } = objectShapeOf(schema, new LocalReferences(schema))
  const names = [...new Set([...properties.keys(), ...required])]
  if (names.length === 0) return 'no parameters'
  return names
    .map((name) => {
      const inner = properties.get(name)
      const type = isRecord(inner) && typeof inner['type'] === 'string' ? [inner['type']] : []
      const details = [...type, ...(required.includes(name) ? [] : ['optional'])]
      return details.length > 0 ? `${name} (${details.join(', ')})` : name
    })
    .join(', ')
}

import { isRecord } from '@x/internal'
import { z } from 'zod'

import type { ConfigPath } from './config-path.ts'
import { configSchema } from './config-schema.ts'

/** What a place in a configuration takes, as far as one has to know to read text for it. */
export type ConfigKind = 'number' | 'boolean' | 'text' | 'texts' | 'other'

let shape: unknown

/** Keys that are known at a place; none where keys are names of the user's. */
export function knownKeys(path: ConfigPath): readonly string[] {
  return [...new Set(shapesAt(path).flatMap((each) => Object.keys(recordAt(each, 'properties'))))]
}

export function kindAt(path: ConfigPath): ConfigKind {
  for (const { type, items } of shapesAt(path)) {
    if (type === 'integer' || type === 'number') return 'number'
    if (type === 'boolean') return 'boolean'
    if (type === 'string') return 'text'
    if (type === 'array' && isRecord(items) && items['type'] === 'string') return 'texts'
  }
  return 'other'
}

/** Every place outside of lists and names that takes a single value, or a list of texts. */
export function settablePaths(path: ConfigPath = []): readonly ConfigPath[] {
  const keys = knownKeys(path)
  if (keys.length === 0) return kindAt(path) === 'other' ? [] : [path]
  return keys.flatMap((key) => settablePaths([...path, key]))
}

function shapesAt(path: ConfigPath): readonly Readonly<Record<string, unknown>>[] {
  shape ??= z.toJSONSchema(configSchema, { io: 'input' })
  let shapes = alternatives(shape)
  for (const part of path) {
    shapes = shapes.flatMap((each) => {
      if (typeof part === 'number') return alternatives(each['items'])
      const properties = recordAt(each, 'properties')
      return alternatives(
        Object.hasOwn(properties, part) ? properties[part] : each['additionalProperties'],
      )
    })
  }
  return shapes
}

function alternatives(schema: unknown): readonly Readonly<Record<string, unknown>>[] {
  if (!isRecord(schema)) return []
  const choices = schema['anyOf'] ?? schema['oneOf']
  return Array.isArray(choices) ? choices.flatMap(alternatives) : [schema]
}

function recordAt(
  value: Readonly<Record<string, unknown>>,
  key: string,
): Readonly<Record<string, unknown>> {
  const found = value[key]
  return isRecord(found) ? found : {}
}

import { isSpecType } from '@modelcontextprotocol/server'

import { isRecord } from '@x/internal'
import type { JsonSchema } from '../../agents/agent.ts'

type Values = Readonly<Record<string, unknown>>

/** What clients know of a field. All else (`pattern`) is checked here when the answer comes. */
const FIELD_KEYS: Readonly<Record<string, readonly string[]>> = {
  string: ['minLength', 'maxLength', 'enum', 'enumNames'],
  number: ['minimum', 'maximum'],
  integer: ['minimum', 'maximum'],
  boolean: [],
  array: ['minItems', 'maxItems'],
}
const FORMATS: readonly unknown[] = ['email', 'uri', 'date', 'date-time']

export interface FormFieldOptions {
  /** There are choices of many, and choices with titles: since revision 2025-11-25. @default true */
  readonly knowsChoices?: boolean | undefined
}

/**
 * A property of a schema as a field of a form; `undefined`: it is more than a form can ask. A client refuses the whole
 * question for one word of a field that is not as it knows it, so that what is only said beside it is left out.
 */
export function formFieldFrom(
  property: Values,
  { knowsChoices = true }: FormFieldOptions = {},
): JsonSchema | undefined {
  const { enum: choices, oneOf, items, title, description, default: preset, format } = property
  const type = property['type'] ?? (isChoice(choices) ? 'string' : undefined)
  const keys = typeof type === 'string' ? FIELD_KEYS[type] : undefined
  if (keys === undefined) return undefined
  if (choices !== undefined && (type !== 'string' || !isChoice(choices))) return undefined
  if (type === 'array' && !knowsChoices) return undefined
  const titled = oneOf === undefined ? undefined : titledFrom(oneOf)
  if (oneOf !== undefined && (type !== 'string' || titled === undefined)) return undefined
  const field = {
    type,
    ...(typeof title === 'string' && { title }),
    ...(typeof description === 'string' && { description }),
    ...(fitsType(type, preset) && { default: preset }),
    ...Object.fromEntries(keys.flatMap((key) => (key in property ? [[key, property[key]]] : []))),
    ...(type === 'string' && FORMATS.includes(format) && { format }),
    ...(titled && (knowsChoices ? { oneOf: titled } : namedFrom(titled))),
    ...(type === 'array' && { items: itemsFrom(items) }),
  }
  return isSpecType.PrimitiveSchemaDefinition(field) ? field : undefined
}

/** Of a choice of many. */
function itemsFrom(items: unknown): JsonSchema | undefined {
  if (!isRecord(items)) return undefined
  if (isChoice(items['enum'])) return { type: 'string', enum: items['enum'] }
  const titled = titledFrom(items['anyOf'])
  return titled && { anyOf: titled }
}

interface Titled extends JsonSchema {
  readonly const: string
  readonly title: string
}

/** Choices with titles, as they were written before there was a word for it. */
function namedFrom(titled: readonly Titled[]): JsonSchema {
  return { enum: titled.map((one) => one.const), enumNames: titled.map(({ title }) => title) }
}

/** Choices with titles; one without goes by what it is. */
function titledFrom(value: unknown): readonly Titled[] | undefined {
  if (!Array.isArray(value) || value.length === 0) return undefined
  const titled = value.flatMap((choice: unknown) => {
    if (!isRecord(choice) || typeof choice['const'] !== 'string') return []
    const { const: own, title } = choice
    return [{ const: own, title: typeof title === 'string' ? title : own }]
  })
  return titled.length === value.length ? titled : undefined
}

function isChoice(value: unknown): boolean {
  return Array.isArray(value) && value.length > 0 && value.every((one) => typeof one === 'string')
}

function fitsType(type: unknown, preset: unknown): boolean {
  switch (type) {
    case 'string':
    case 'boolean':
      return typeof preset === type
    case 'array':
      return isChoice(preset)
    default:
      return typeof preset === 'number'
  }
}

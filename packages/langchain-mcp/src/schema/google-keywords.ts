import type { JsonSchema } from '../catalogue/tool-source.ts'
import { isPattern } from './validation-schema.ts'

/** What of a schema Gemini's `Schema` knows, and takes as it is. */
const PLAIN: ReadonlySet<string> = new Set([
  'title',
  'minItems',
  'maxItems',
  'minProperties',
  'maxProperties',
  'minLength',
  'maxLength',
  'minimum',
  'maximum',
])

/** What is read in other ways, or says nothing about values. */
const READ: ReadonlySet<string> = new Set([
  'type',
  'description',
  'nullable',
  'enum',
  'const',
  'properties',
  'required',
  'items',
  'prefixItems',
  'anyOf',
  'oneOf',
  'allOf',
  'pattern',
  'format',
  '$ref',
  '$defs',
  'definitions',
  '$schema',
  '$id',
  'id',
  '$anchor',
  '$comment',
  'default',
  'examples',
  'deprecated',
  'readOnly',
  'writeOnly',
])

const FORMATS: ReadonlySet<unknown> = new Set([
  'date-time',
  'enum',
  'int32',
  'int64',
  'float',
  'double',
])

/** Title, description, and the plain limits. */
export function wordsOf(schema: JsonSchema): Record<string, unknown> {
  const entries = Object.entries(schema).filter(
    ([keyword, value]) => value !== undefined && (PLAIN.has(keyword) || keyword === 'description'),
  )
  return Object.fromEntries(entries)
}

/** Pattern and format, where Gemini can read them. */
export function textRulesOf({ pattern, format }: JsonSchema): Record<string, unknown> {
  return {
    ...(isPattern(pattern) && { pattern }),
    ...(FORMATS.has(format) && { format }),
  }
}

/** The keywords by which a schema says something that Gemini is not shown. */
export function droppedKeywordsOf(schema: JsonSchema): string[] {
  return Object.entries(schema).flatMap(([keyword, value]) => {
    const isUnreadable = keyword === 'pattern' && !isPattern(value)
    const isKnown = PLAIN.has(keyword) || (READ.has(keyword) && !isUnreadable)
    const isFormat = keyword === 'format' && !FORMATS.has(value)
    return (!isKnown || isFormat) && value !== undefined && value !== true ? [keyword] : []
  })
}

import {
  documentOf,
  fittedValue,
  isBlank,
  isRecord,
  jsonTypeOf,
  literalFrom,
  objectShapeOf,
  takesText,
  typesOf,
  type JsonType,
  type Reading,
} from '@x/internal'
import type { SchemaCheck, ValidationError } from '@x/internal/schema-check'
import type { JsonSchema } from '../tool-source.ts'
import { withServerNames } from './shown-names.ts'

/** Text inside of JSON text inside of JSON text. More levels are a mistake that the model should see. */
const MAX_NESTING = 4

/** The tool that a model called. */
interface CalledTool {
  readonly schema: JsonSchema
  readonly check: Pick<SchemaCheck, 'locatedErrors'>
  /** Its name for the model and that on the server. */
  readonly names: readonly string[]
  /** Names of arguments on the server, by those that the model saw. @default none differ */
  readonly argumentNames?: ReadonlyMap<string, string> | undefined
}

interface FittedArguments {
  readonly value: unknown
  /** Why the schema still refuses the value. */
  readonly errors: readonly ValidationError[]
}

/**
 * Returns the arguments of a model, with what models are known to write instead of the value that they mean, repaired:
 *
 * - an empty text, and `null`, `None`, or an empty list where none fits: an optional parameter is left out (NeMo#1269,
 *   coder/xum#2887). Instead of all arguments they are none
 * - JSON text where no text fits becomes its value: an object or a list (LibreChat#11905), a number, or `true` or `false`
 *   (claude-code#59227), also in a fence of Markdown, and with a comma after the last item (pi#8858)
 * - an integer, or `true` or `false`, where only texts fit becomes a text (exa-mcp-server#202)
 * - arguments inside of a description of this call become the arguments (firecrawl-mcp-server#279)
 *
 * Only values that the schema refuses change, and only if no other type fits at their place. Arguments that the schema
 * accepts, and arguments of a schema with a defect, are the same object.
 */
export function fittedArguments(given: unknown, tool: CalledTool): FittedArguments {
  const { schema, check, argumentNames } = tool
  let value = given
  let errors = check.locatedErrors(value)
  if (errors.length > 0 && isBlank(given)) {
    value = {}
    errors = check.locatedErrors(value)
  }
  for (let round = 0; round < MAX_NESTING && errors.length > 0; round++) {
    const refused = new Set(errors.map(({ place }) => pointerFrom(place)))
    const part = { schema, document: documentOf(schema) }
    const read = fittedValue(unwrapped(value, tool), part, { reading: READING, refused })
    const fitted = withServerNames(read, argumentNames) // those in a text, or inside of a description of the call
    if (fitted === value) break
    value = fitted
    errors = check.locatedErrors(value)
  }
  return { value, errors }
}

/** Returns the arguments in a text that a model wrote, or undefined if it cannot be read. */
export function argumentsIn(text: string): Record<string, unknown> | undefined {
  if (isBlank(text)) return {}
  const value = literalIn(text)
  const inner = typeof value === 'string' ? literalIn(value) : value
  return isRecord(inner) ? inner : undefined
}

const ENVELOPE: ReadonlySet<string> = new Set(['name', 'arguments', 'parameters', 'input'])

/** Returns the arguments in a description of this call, if no parameter can have the name of one of its fields. */
function unwrapped(value: unknown, { schema, names }: CalledTool): unknown {
  if (!isRecord(value)) return value
  const { properties } = objectShapeOf(schema, documentOf(schema))
  const { additionalProperties, patternProperties } = schema
  if (isRecord(additionalProperties) || patternProperties !== undefined) return value
  if (Object.keys(value).some((name) => !ENVELOPE.has(name) || properties.has(name))) return value
  const { name, arguments: own, parameters, input } = value
  if (name !== undefined && !names.some((one) => one === name)) return value // another tool is meant
  const [inner, ...others] = [own, parameters, input].filter((one) => one !== undefined)
  const meant = typeof inner === 'string' ? literalFrom(inner) : inner
  return others.length === 0 && isRecord(meant) ? meant : value
}

/** The validator writes a pointer as the fragment of a URI. */
function pointerFrom(fragment: string): string {
  return decodeURIComponent(fragment.slice(1))
}

const READING: Reading = {
  meantBy: (value, part) => {
    const allowed = typesOf(part)
    const takes = (type: JsonType): boolean => allowed.includes(type)
    if (Array.isArray(value)) {
      return value.length === 0 && takes('object') && !takes('array') ? {} : value // as PHP writes it
    }
    if (typeof value === 'string') {
      const meant = valueOf(value, allowed)
      return meant === undefined ? value : meant
    }
    // JSON has lost the digits of a large number, and the zero at the end of version 3.10.
    const isPlain = Number.isSafeInteger(value) || typeof value === 'boolean'
    return isPlain && takes('string') && !takes(jsonTypeOf(value)) ? String(value) : value
  },
  isAbsent: (value, part) => {
    const meant = typeof value === 'string' ? literalIn(value) : value
    // An empty list may empty one, and `null` may end something.
    if (meant !== undefined && typesOf(part).includes(jsonTypeOf(meant))) return false
    if (typeof value !== 'string') return isBlank(value)
    // `none` is a word with a meaning.
    const isNothing = isBlank(value) || value === 'None' || value === 'undefined'
    return isNothing && !takesText(value, part)
  },
}

/** Returns the value that a text stands for, or undefined if texts fit, or if the value does not. */
function valueOf(text: string, allowed: readonly JsonType[]): unknown {
  if (allowed.includes('string')) return undefined
  const value = literalIn(text)
  // `null` is left out then, if the parameter is optional.
  return value === null || allowed.includes(jsonTypeOf(value)) ? value : undefined
}

/**
 * Returns the value of JSON, also in a fence of Markdown, and with a comma after the last item of an object or a list, and
 * that of `None` of Python.
 */
function literalIn(text: string): unknown {
  const trimmed = text.trim()
  if (trimmed === 'None') return null
  const [, fenced = trimmed] = /^```(?:json)?\n(.*)\n```$/s.exec(trimmed) ?? []
  return literalFrom(trimmed) ?? literalFrom(fenced.replaceAll(LAST_COMMA, '$1'))
}

/** Takes each text as a whole, also one without an end: no character is read twice. */
const LAST_COMMA = /("[^"\\]*(?:\\.[^"\\]*)*"?)|,(?=\s*[}\]])/gs

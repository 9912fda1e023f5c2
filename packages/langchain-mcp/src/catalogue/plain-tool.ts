import { isRecord } from '@x/internal'
import type { AgentToolDefinition } from '../agent/agent-definition.ts'

const TEXTS = ['title', 'description'] as const
const OBJECTS = ['inputSchema', 'outputSchema', 'argumentProperties', '_meta'] as const
const FLAGS = ['readOnlyHint', 'destructiveHint', 'idempotentHint', 'openWorldHint'] as const
/** What is spelt as Python spells it is read with care. */
const OTHER_SPELLINGS = ['input_schema', 'output_schema', 'argument_properties'] as const

/**
 * A tool of a snapshot whose fields are all spelt and typed as `AgentToolDefinition` says, as a copy with its
 * default; `undefined` for any other value: that may be read with more patience, or refused with a reason.
 */
export function plainToolFrom(value: unknown): AgentToolDefinition | undefined {
  if (!isRecord(value) || typeof value['name'] !== 'string' || !isPlain(value)) return undefined
  for (const name of TEXTS) if (!isTextOrAbsent(value[name])) return undefined
  for (const name of OBJECTS) if (!isPlainOrAbsent(value[name])) return undefined
  for (const name of OTHER_SPELLINGS) if (name in value) return undefined
  const { name, annotations, argumentProperties = {} } = value
  if (!areAnnotations(annotations) || !isRecord(argumentProperties)) return undefined
  return { ...value, name, argumentProperties }
}

function areAnnotations(value: unknown): boolean {
  if (value === undefined) return true
  if (!isRecord(value) || !isPlain(value) || !isTextOrAbsent(value['title'])) return false
  return FLAGS.every((name) => value[name] === undefined || typeof value[name] === 'boolean')
}

function isTextOrAbsent(value: unknown): boolean {
  return value === undefined || typeof value === 'string'
}

function isPlainOrAbsent(value: unknown): boolean {
  return value === undefined || (isRecord(value) && isPlain(value))
}

/** What JSON gives, not the object of a class. */
function isPlain(value: object): boolean {
  const prototype: unknown = Object.getPrototypeOf(value)
  return prototype === Object.prototype || prototype === null
}

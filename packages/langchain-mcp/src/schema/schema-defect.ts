import { isRecord } from '../is-record.ts'
import type { JsonSchema } from '../tool-source.ts'
import { LocalReferences } from './local-references.ts'
import { pointerOf, subschemasOf } from './subschemas.ts'

/** Deeper or larger is no description of arguments, and costs whoever looks at it. */
const MAX_DEPTH = 128
const MAX_NODES = 10_000
/** How often schemas may apply to one and the same value: references that double at each step grow to any number. */
const MAX_STEPS = 10_000

const TYPES: ReadonlySet<unknown> = new Set([
  'object',
  'array',
  'string',
  'number',
  'integer',
  'boolean',
  'null',
])

/**
 * Why a schema cannot describe the arguments of a tool; `undefined` if it can. Such a tool would spoil a
 * whole request, since providers refuse all tools together. Nothing is fetched.
 */
export function schemaDefectOf(schema: unknown): string | undefined {
  if (!isRecord(schema)) return 'it is not an object'
  const { type } = schema
  if (type === undefined || type === 'object' || (Array.isArray(type) && type.includes('object'))) {
    return structureDefectOf(schema)
  }
  return `arguments are an object, but the schema is of type ${JSON.stringify(type)}`
}

/** A schema is looked at when its tool is made, and again when a model is told of it. */
const defects = new WeakMap<JsonSchema, { readonly defect: string | undefined }>()

/** Why a schema, of whatever values, can neither be followed nor evaluated; `undefined` if it can. */
export function structureDefectOf(schema: JsonSchema): string | undefined {
  const known = defects.get(schema)
  if (known !== undefined) return known.defect
  const defect = defectOf(schema)
  defects.set(schema, { defect })
  return defect
}

function defectOf(schema: JsonSchema): string | undefined {
  const excess = excessOf(schema)
  if (excess !== undefined) return excess
  try {
    const references = new LocalReferences(schema)
    const hasReferences = checkForm(schema, { references, path: [] })
    // Without references every schema applies once at most.
    if (hasReferences) checkSteps(schema, references)
    return undefined
  } catch (error) {
    if (error instanceof SchemaDefect) return error.message
    throw error
  }
}

/** Ends the search; never leaves this file. */
class SchemaDefect extends Error {
  override readonly name = 'SchemaDefect'
}

function excessOf(schema: JsonSchema): string | undefined {
  let nodes = 0
  let depth = 0
  for (let level: object[] = [schema]; level.length > 0;) {
    nodes += level.length
    depth++
    if (nodes > MAX_NODES) return `it has more than ${MAX_NODES} nodes`
    if (depth > MAX_DEPTH) return `it is nested more than ${MAX_DEPTH} levels deep`
    const next: object[] = []
    for (const node of level) {
      for (const value of Object.values(node)) if (isObject(value)) next.push(value)
    }
    level = next
  }
  return undefined
}

interface FormContext {
  readonly references: LocalReferences
  readonly path: readonly string[]
}

/** Returns whether there are references. */
function checkForm(schema: JsonSchema, { references, path }: FormContext): boolean {
  const { type, required, properties, enum: values, $ref } = schema
  const at = (keyword: string): string => pointerOf([...path, keyword])
  if (type !== undefined && !(Array.isArray(type) ? type : [type]).every((one) => TYPES.has(one))) {
    throw new SchemaDefect(`${at('type')} is not a type of JSON schema`)
  }
  if (required !== undefined && !isListOf(required, (name) => typeof name === 'string')) {
    throw new SchemaDefect(`${at('required')} is not a list of names`)
  }
  if (properties !== undefined && !isRecord(properties)) {
    throw new SchemaDefect(`${at('properties')} is not an object`)
  }
  if (values !== undefined && !Array.isArray(values)) {
    throw new SchemaDefect(`${at('enum')} is not a list`)
  }
  for (const keyword of ['allOf', 'anyOf', 'oneOf']) {
    const list = schema[keyword]
    if (list !== undefined && !(Array.isArray(list) && list.length > 0)) {
      throw new SchemaDefect(`${at(keyword)} is not a list of schemas`)
    }
  }
  if ($ref !== undefined) targetOf(schema, { references, place: at('$ref') })
  let hasReferences = $ref !== undefined
  for (const { path: below, schema: inner } of subschemasOf(schema)) {
    const here = [...path, ...below]
    if (isRecord(inner)) {
      hasReferences = checkForm(inner, { references, path: here }) || hasReferences
    } else if (typeof inner !== 'boolean') {
      throw new SchemaDefect(`${pointerOf(here)} is not a schema`)
    }
  }
  return hasReferences
}

function targetOf(
  schema: JsonSchema,
  { references, place }: { readonly references: LocalReferences; readonly place: string },
): JsonSchema | boolean {
  const { $ref } = schema
  if (typeof $ref !== 'string') throw new SchemaDefect(`${place} is not a text`)
  const found = references.resolve($ref, schema)
  if (found.kind === 'schema') return found.schema
  const shown = shortened($ref)
  throw new SchemaDefect(
    found.kind === 'remote'
      ? `${place} leads to another document ("${shown}"), which is not fetched`
      : `${place} leads nowhere ("${shown}")`,
  )
}

interface StepContext {
  readonly references: LocalReferences
  /** What was counted already. */
  readonly steps: Map<object, number>
  /** What is being counted: meeting one of them again is a circle. */
  readonly around: Set<object>
  /** What applies to a part of the value, and so starts anew. */
  readonly later: JsonSchema[]
}

/** A circle through a part of the value is recursion, which is fine: it ends where the value ends. */
function checkSteps(root: JsonSchema, references: LocalReferences): void {
  const later = [root]
  const steps = new Map<object, number>()
  for (let next = later.pop(); next !== undefined; next = later.pop()) {
    stepsOf(next, { references, steps, around: new Set(), later })
  }
}

/** How many schemas apply to one value of `schema`. */
function stepsOf(schema: JsonSchema | boolean, context: StepContext): number {
  if (typeof schema === 'boolean') return 1
  const { references, steps, around, later } = context
  const known = steps.get(schema)
  if (known !== undefined) return known
  if (around.has(schema)) throw new SchemaDefect('a reference in it leads back to itself')
  around.add(schema)
  let count = 1
  if (schema['$ref'] !== undefined) {
    count += stepsOf(targetOf(schema, { references, place: '$ref' }), context)
  }
  for (const { schema: inner, isInPlace } of subschemasOf(schema)) {
    if (!isRecord(inner)) continue
    if (isInPlace) count += stepsOf(inner, context)
    else later.push(inner)
  }
  if (count > MAX_STEPS) throw new SchemaDefect('its references multiply without bound')
  around.delete(schema)
  steps.set(schema, count)
  return count
}

function isObject(value: unknown): value is object {
  return typeof value === 'object' && value !== null
}

function isListOf(value: unknown, fits: (item: unknown) => boolean): boolean {
  return Array.isArray(value) && value.every(fits)
}

/** A reference may be a URL: its query is nobody's business. */
function shortened(reference: string): string {
  const [start = ''] = reference.split('?')
  return start.length > 100 ? `${start.slice(0, 100)}…` : start
}

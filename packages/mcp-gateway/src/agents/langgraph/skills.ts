import { isRecord, mapSchemas } from '@x/internal'
import { wholeCharacters } from '../../internal/text.ts'
import type { JsonSchema, Skill } from '../agent.ts'
import type { GraphDefinition, RunnableGraph } from './definition.ts'
import { fieldsOf, refusalOf, schemasOfFields, takes, type Fields } from './fields.ts'
import { loadSchemaTools } from './library.ts'

/** A graph, and how it is offered. */
interface NamedGraph {
  readonly name: string
  readonly definition: Omit<GraphDefinition, 'graph'>
  readonly graph: RunnableGraph
}

/**
 * Returns the declared skills, or one skill with the schema of the graph's input. Empty for a graph without either.
 *
 * @param onDefect called if the schema cannot be read: then the tool takes a message
 */
export async function skillsOfGraph(
  { definition, graph, name }: NamedGraph,
  onDefect: (cause: unknown) => void,
): Promise<readonly Skill[]> {
  if (definition.skills !== undefined) {
    if (definition.input !== undefined || takesMessages(graph)) return definition.skills
    return definition.skills.map((skill) => ({ startsFrom: 'arguments', ...skill }))
  }
  const inputSchema = takesMessages(graph) ? undefined : await readInputSchema(graph, onDefect)
  if (inputSchema === undefined) return []
  // An `input` function makes the first state, so the schema of the graph may differ from that of a call.
  const startsFrom = definition.input === undefined ? 'arguments' : 'message'
  const { description } = definition
  const fields = inputFieldsOf(graph)
  const isTaken = (property: string, value: unknown): boolean => takes(fields[property], value)
  const outputSchema = definition.output === undefined ? await outputSchemaOf(graph) : undefined
  const schemas = { inputSchema, ...(outputSchema && { outputSchema }) }
  return [{ id: name, name: '', description, ...schemas, startsFrom, takes: isTaken }]
}

async function readInputSchema(
  graph: RunnableGraph,
  onDefect: (cause: unknown) => void,
): Promise<JsonSchema | undefined> {
  try {
    return await inputSchemaOf(graph)
  } catch (cause) {
    onDefect(cause)
    return undefined
  }
}

/** Schemas that check the context of a run: that of the graph, and those of its middleware. */
function contextSchemasOf({ builder, options }: RunnableGraph): readonly unknown[] {
  const own = isRecord(builder) ? builder['_configRuntimeSchema'] : undefined
  const middleware = isRecord(options) ? options['middleware'] : undefined
  const added: readonly unknown[] = Array.isArray(middleware) ? middleware : []
  if (own === undefined && added.length === 0) return []
  const schemas = [
    own,
    ...added.map((each) => (isRecord(each) ? each['contextSchema'] : undefined)),
  ]
  return schemas.filter((schema) => fieldsOf(schema) !== undefined)
}

/** Returns the JSON schema of the context of a graph. `undefined`: it has no context schema. */
export async function contextSchemaOf(graph: RunnableGraph): Promise<JsonSchema | undefined> {
  const schemas = contextSchemasOf(graph)
  if (schemas.length === 0) return undefined
  const fields: Fields = Object.assign({}, ...schemas.map(fieldsOf))
  const properties = mapSchemas({ properties: schemasOfFields(fields, await converter()) }, asInput)
  const required = Object.keys(fields).filter((name) => isNeeded(fields[name]))
  return { type: 'object', ...properties, required }
}

/** Returns the place and the reason of the first mistake in a context. `undefined` if there is none. */
export function contextDefectOf(
  graph: RunnableGraph,
  context: Fields | undefined,
): { readonly path: string; readonly why: string } | undefined {
  const refusals = contextSchemasOf(graph).flatMap(
    (schema) => refusalOf(schema, context ?? {}) ?? [],
  )
  const [first] = refusals.filter(isRecord)
  if (first === undefined) return undefined
  const { message, path } = first
  return {
    path: Array.isArray(path) ? path.map(String).join('.') : '',
    why: wholeCharacters(String(message), 200),
  }
}

/** Returns the fields that a caller may give. */
export function inputFieldsOf(graph: RunnableGraph): Fields {
  const { declared, state } = inputOf(graph)
  return declared ?? state ?? {}
}

/** Returns whether the input of the graph has a key `messages`. */
export function takesMessages({ builder, channels }: RunnableGraph): boolean {
  const input = isRecord(builder) ? builder['_inputDefinition'] : undefined
  if (isRecord(input)) return 'messages' in input
  return channels === undefined || 'messages' in channels
}

/**
 * Returns the schema of an input that is declared without one, such as by `Annotation`: its fields, of any type.
 * `undefined` if it is not declared.
 */
export function untypedInputOf({ builder }: RunnableGraph): JsonSchema | undefined {
  const input = isRecord(builder) ? builder['_inputDefinition'] : undefined
  const names = isRecord(input) ? Object.keys(input) : []
  const properties = Object.fromEntries(names.map((name) => [name, {}]))
  return names.length === 0 ? undefined : { type: 'object', properties }
}

/**
 * Returns why each call with a message would fail. `undefined` if calls can succeed. LangGraph checks the required keys
 * of a declared `input`, and accepts any part of a state.
 */
export function messageDefectOf(graph: RunnableGraph): string | undefined {
  if (!takesMessages(graph)) return 'takes no messages, and no schema declares what else it takes'
  const { declared } = inputOf(graph)
  const needed = Object.keys(declared ?? {}).filter((key) => isNeeded(declared?.[key]))
  const others = needed.filter((key) => key !== 'messages')
  return others.length === 0 ? undefined : `needs more than messages: ${others.join(', ')}`
}

/** Returns `undefined` for a graph whose state and input are declared without a schema, such as by `Annotation`. */
async function inputSchemaOf(graph: RunnableGraph): Promise<JsonSchema | undefined> {
  const fields = inputFieldsOf(graph)
  const partial = (await wholeSchemaOf(graph)) ?? { type: 'object' }
  const known = isRecord(partial['properties']) ? partial['properties'] : {}
  // LangGraph refuses the whole schema for one field of zod that JSON does not have, or leaves out that field.
  const rest = Object.entries(fields).filter(([name]) => !(name in known))
  const others =
    rest.length === 0 ? {} : schemasOfFields(Object.fromEntries(rest), await converter())
  const properties = { ...known, ...others }
  const names = Object.keys(properties)
  if (names.length === 0) return undefined
  const required = await requiredOf(graph, names)
  const mapped = mapSchemas({ ...partial, properties }, asInput)
  const schema = { ...mapped, ...(required.length > 0 && { required }) }
  const dialect = partial['$schema']
  return dialect === undefined ? schema : { $schema: dialect, ...schema }
}

/** Keys of an output that are not the structured result, or hold it. */
const OTHER_RESULTS = ['messages', 'structuredResponse', 'structured_response'] as const

/**
 * Returns the schema of an output that the graph declares. LangGraph does not check whole outputs: no key is required, and
 * others may be there. `undefined` if no output is declared, or JSON cannot express it.
 */
async function outputSchemaOf(graph: RunnableGraph): Promise<JsonSchema | undefined> {
  const { output = {} } = inputOf(graph)
  const fields = Object.entries(output)
  if (fields.length === 0 || OTHER_RESULTS.some((name) => name in output)) return undefined
  const { toJsonSchema, isInteropZodSchema } = await loadSchemaTools()
  const properties: Record<string, JsonSchema> = {}
  try {
    for (const [name, field] of fields) {
      if (!isInteropZodSchema(field)) return undefined
      const schema: unknown = toJsonSchema(field)
      if (!isRecord(schema)) return undefined
      properties[name] = schema
    }
  } catch {
    return undefined // a date or a transformation, for example
  }
  return mapSchemas({ type: 'object', properties }, asOutput)
}

/**
 * Keywords that every client checks as the gateway does. A client that refuses a value ends a call whose work is done.
 * Others are left out: clients check formats, long texts against patterns, and lists of an older dialect more strictly, and
 * a reference would lead into the schema of the whole output.
 */
const OUTPUT_KEYWORDS: ReadonlySet<string> = new Set([
  ...'type title description default enum const properties required items anyOf allOf'.split(' '),
  ...'minimum maximum exclusiveMinimum exclusiveMaximum minItems maxItems'.split(' '),
  ...'minLength maxLength'.split(' '),
])

function asOutput(whole: JsonSchema): JsonSchema {
  const { additionalProperties: more, oneOf, ...schema } = asInput(whole)
  const own = Object.entries(schema).filter(([keyword]) => OUTPUT_KEYWORDS.has(keyword))
  const { items, ...rest } = Object.fromEntries(own)
  const isTuple = 'prefixItems' in schema
  const isClosed = more === undefined || more === false || 'patternProperties' in schema
  return {
    ...rest,
    ...(items !== undefined && !isTuple && { items }),
    ...(!isClosed && { additionalProperties: more }),
    // Without the keywords that are left out, a value may fit several of the alternatives.
    ...(oneOf !== undefined && { anyOf: oneOf }),
  }
}

async function wholeSchemaOf(graph: RunnableGraph): Promise<JsonSchema | undefined> {
  const { getInputTypeSchema } = await loadSchemaTools()
  try {
    const schema: unknown = getInputTypeSchema(graph)
    return isRecord(schema) ? schema : undefined
  } catch {
    return undefined
  }
}

async function converter(): Promise<(field: unknown) => unknown> {
  const { schemaMetaRegistry, toJsonSchema, isInteropZodSchema } = await loadSchemaTools()
  return (field) => {
    if (!isInteropZodSchema(field)) return undefined
    const reducer = schemaMetaRegistry.get(field)?.reducer?.schema
    return toJsonSchema(reducer ?? field)
  }
}

/**
 * Makes properties with a default optional: LangGraph's schema describes parsed values, which have all defaults. Gives
 * lists a schema of their items, without which providers of models refuse the tool.
 */
function asInput({ $schema: _nested, ...own }: JsonSchema): JsonSchema {
  const isOpenList = own['type'] === 'array' && !('items' in own) && !('prefixItems' in own)
  const schema: JsonSchema = isOpenList ? { ...own, items: {} } : own
  const { properties, required, ...rest } = schema
  if (!isRecord(properties) || !Array.isArray(required)) return schema
  const needed = required.filter((name) => {
    const property: unknown = typeof name === 'string' ? properties[name] : undefined
    return !isRecord(property) || property['default'] === undefined
  })
  return { ...rest, properties, ...(needed.length > 0 && { required: needed }) }
}

/**
 * Returns the keys that a caller must give. LangGraph's own schema of the input has none. If the graph declares an output
 * but no input, nodes make the keys of the output.
 */
async function requiredOf(
  graph: RunnableGraph,
  names: readonly string[],
): Promise<readonly string[]> {
  const { schemaMetaRegistry, isInteropZodSchema } = await loadSchemaTools()
  const { declared, state, output } = inputOf(graph)
  const fields = declared ?? state ?? {}
  return names.filter((name) => {
    const field = fields[name]
    if (declared === undefined && output !== undefined && name in output) return false
    const meta: unknown = isInteropZodSchema(field) ? schemaMetaRegistry.get(field) : undefined
    const hasOwnStart = isRecord(meta) && (meta['reducer'] ?? meta['default']) !== undefined
    return !hasOwnStart && isNeeded(field)
  })
}

/** Returns whether a caller must give a field. */
function isNeeded(field: unknown): boolean {
  return refusalOf(field, undefined) !== undefined
}

/** Returns the fields of the declared schemas. LangGraph has no public access to them. */
function inputOf({ builder }: RunnableGraph): {
  readonly declared: Fields | undefined
  readonly state: Fields | undefined
  readonly output: Fields | undefined
} {
  const {
    _inputRuntimeDefinition: input,
    _schemaRuntimeDefinition: state,
    _outputRuntimeDefinition: output,
  }: Fields = isRecord(builder) ? builder : {}
  return {
    declared: fieldsOf(input),
    state: fieldsOf(state),
    output: output === state ? undefined : fieldsOf(output),
  }
}

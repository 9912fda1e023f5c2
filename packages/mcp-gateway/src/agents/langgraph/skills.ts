import { isRecord, mapSchemas } from '@x/internal'
import type { JsonSchema, Skill } from '../agent.ts'
import type { GraphDefinition, RunnableGraph } from './definition.ts'

/** Returns the declared skills, or one skill with the schema of the graph's input. Empty for a graph without either. */
export async function skillsOfGraph(
  name: string,
  definition: GraphDefinition,
  graph: RunnableGraph,
): Promise<readonly Skill[]> {
  if (definition.skills !== undefined) {
    if (definition.input !== undefined || takesMessages(graph)) return definition.skills
    return definition.skills.map((skill) => ({ startsFrom: 'arguments', ...skill }))
  }
  const inputSchema = takesMessages(graph) ? undefined : await inputSchemaOf(graph)
  if (inputSchema === undefined) return []
  // An `input` function makes the first state, so the schema of the graph may differ from that of a call.
  const startsFrom = definition.input === undefined ? 'arguments' : 'message'
  return [{ id: name, name: '', description: definition.description, inputSchema, startsFrom }]
}

/** Returns whether the input of the graph has a key `messages`. */
export function takesMessages({ builder, channels }: RunnableGraph): boolean {
  const input = isRecord(builder) ? builder['_inputDefinition'] : undefined
  if (isRecord(input)) return 'messages' in input
  return channels === undefined || 'messages' in channels
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
  const { getInputTypeSchema } = await import('@langchain/langgraph/zod/schema')
  const partial: unknown = getInputTypeSchema(graph)
  if (!isRecord(partial) || !isRecord(partial['properties'])) return undefined
  const names = Object.keys(partial['properties'])
  if (names.length === 0) return undefined
  const required = await requiredOf(graph, names)
  const schema = { ...mapSchemas(partial, asInput), ...(required.length > 0 && { required }) }
  const dialect = partial['$schema']
  return dialect === undefined ? schema : { $schema: dialect, ...schema }
}

/** Makes properties with a default optional. LangGraph's schema describes parsed values, which have all defaults. */
function asInput({ $schema: _nested, ...schema }: JsonSchema): JsonSchema {
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
  const { schemaMetaRegistry } = await import('@langchain/langgraph/zod')
  const { isInteropZodSchema } = await import('@langchain/core/utils/types')
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

/** Returns whether a field refuses `undefined`, by its Standard Schema interface. */
function isNeeded(field: unknown): boolean {
  const standard = isRecord(field) ? field['~standard'] : undefined
  if (!isRecord(standard) || typeof standard['validate'] !== 'function') return false
  const result: unknown = standard['validate'](undefined)
  return isRecord(result) && result['issues'] !== undefined
}

type Fields = Readonly<Record<string, unknown>>

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

/** Returns the fields of a `StateSchema` or of an object schema of zod. */
function fieldsOf(schema: unknown): Fields | undefined {
  const { fields, shape } = isRecord(schema) ? schema : {}
  if (isRecord(fields)) return fields
  return isRecord(shape) ? shape : undefined
}

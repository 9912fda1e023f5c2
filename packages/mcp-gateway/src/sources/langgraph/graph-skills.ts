import type { JsonSchema, Skill } from '../../agents/agent.ts'
import { isRecord } from '../../is-record.ts'
import type { GraphDefinition, RunnableGraph } from './graph-definition.ts'

/** What a graph can do: as its author says, else what its input says. */
export async function skillsOfGraph(
  name: string,
  definition: GraphDefinition,
  graph: RunnableGraph,
): Promise<readonly Skill[]> {
  if (definition.skills !== undefined) return definition.skills
  const inputSchema = takesMessages(graph) ? undefined : await inputSchemaOf(graph)
  if (inputSchema === undefined) return []
  return [{ id: name, name: '', description: definition.description, inputSchema }]
}

/** A graph that talks. Its state says nothing of what it wants, so it takes a message. */
export function takesMessages({ channels }: RunnableGraph): boolean {
  return channels === undefined || 'messages' in channels
}

/** Of a state that was declared with a schema; `undefined` for any other. */
async function inputSchemaOf(graph: RunnableGraph): Promise<JsonSchema | undefined> {
  const { getInputTypeSchema } = await import('@langchain/langgraph/zod/schema')
  const schema: unknown = getInputTypeSchema(graph)
  if (!isRecord(schema) || !isRecord(schema['properties'])) return undefined
  return Object.keys(schema['properties']).length > 0 ? schema : undefined
}

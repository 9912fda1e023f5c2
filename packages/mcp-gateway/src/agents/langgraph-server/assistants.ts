import type { Assistant, Client } from '@langchain/langgraph-sdk'

import { isRecord } from '@x/internal'
import type { Agent, JsonSchema, Skill } from '../agent.ts'

/** An assistant of a LangGraph server, as an agent. */
export interface RemoteAssistant {
  readonly agent: Agent
  readonly assistantId: string
  /** Changes when the assistant does. */
  readonly version: string
}

const PAGE = 100
/** A server with more of them is not asked for the rest. */
const MAX_PAGES = 10

/** All assistants of a server, page by page. */
export async function listAssistants(
  client: Client,
  signal: AbortSignal,
): Promise<readonly Assistant[]> {
  const all: Assistant[] = []
  for (let page = 0; page < MAX_PAGES; page += 1) {
    const some = await client.assistants.search({ limit: PAGE, offset: page * PAGE, signal })
    all.push(...some)
    if (some.length < PAGE) break
  }
  return all
}

/** With the schema of its input, where that says more than that it talks. */
export async function remoteAssistantFrom(
  client: Client,
  assistant: Assistant,
  { agentId, signal }: { readonly agentId: string; readonly signal: AbortSignal },
): Promise<RemoteAssistant> {
  const { assistant_id: assistantId, name, graph_id: graphId } = assistant
  const description = assistant.description ?? ''
  const inputSchema = await inputSchemaOf(client, assistantId, signal)
  const agent: Agent = {
    id: agentId,
    name: name === '' || name === 'Untitled' ? graphId : name,
    description,
    skills: inputSchema === undefined ? [] : [skillFrom(graphId, description, inputSchema)],
    health: 'healthy',
    canAsk: true,
  }
  return { agent, assistantId, version: versionOf(assistant) }
}

export function versionOf({ version, updated_at: updatedAt }: Assistant): string {
  return `${version} ${updatedAt}`
}

function skillFrom(graphId: string, description: string, inputSchema: JsonSchema): Skill {
  return { id: graphId, name: '', description, inputSchema, startsFrom: 'arguments' }
}

async function inputSchemaOf(
  client: Client,
  assistantId: string,
  signal: AbortSignal,
): Promise<JsonSchema | undefined> {
  const schemas: unknown = await client.assistants.getSchemas(assistantId, { signal })
  const schema = isRecord(schemas) ? schemas['input_schema'] : undefined
  if (!isRecord(schema) || !isRecord(schema['properties'])) return undefined
  const names = Object.keys(schema['properties'])
  return names.length === 0 || names.includes('messages') ? undefined : schema
}

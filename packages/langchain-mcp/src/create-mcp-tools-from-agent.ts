import type { SessionInfoFactory, SessionScope } from '@x/mcp-client'
import { agentDefinitionFrom } from './agent-definition-schema.ts'
import {
  isMcpResource,
  type AgentDefinition,
  type McpResourceDefinition,
} from './agent-definition.ts'
import { buildTools, serverLabelFrom, type BuildToolsOptions } from './build-tools.ts'
import { discoverTools, isEnabled } from './discover-tools.ts'
import { mapBounded } from './map-bounded.ts'
import type { McpTool } from './mcp-tool.ts'
import { processWarnings } from './tool-log.ts'
import type { McpToolSource } from './tool-source.ts'

/** How many servers are asked for their tools at the same time. */
const MAX_PARALLEL_LISTS = 8

/** A server as an agent names it; its directory knows where it is. */
export type McpServerReference =
  | { readonly slug: string; readonly folderPath?: string | undefined }
  | { readonly name: string; readonly folderPath?: string | undefined }

/** A client that the tools use and the caller disposes of. */
export interface McpToolClient extends McpToolSource {
  dispose(): Promise<void>
}

/** What the clients are made with. */
export interface McpToolClientOptions {
  /** Decides where sessions are kept. @default in memory */
  readonly sessionInfoFactory?: SessionInfoFactory | undefined
  readonly scope?: SessionScope | (() => SessionScope) | undefined
  /** Whether `dispose()` ends the session on the server. @default true, unless the session is kept durably */
  readonly terminateOnClose?: boolean | undefined
  /** Limit of one operation in milliseconds. @default 600_000 */
  readonly timeoutMs?: number | undefined
  /** Attempts after a lost session. @default 1 */
  readonly maxRetries?: number | undefined
}

/** Makes the client of one server. Opens nothing: clients connect when they are first used. */
export type CreateMcpClient<Client extends McpToolClient = McpToolClient> = (
  server: McpServerReference,
  options: McpToolClientOptions,
) => Client

export interface CreateMcpToolsFromAgentOptions<Client extends McpToolClient = McpToolClient>
  extends BuildToolsOptions, McpToolClientOptions {
  /** Makes the clients. */
  readonly createClient: CreateMcpClient<Client>
}

export interface McpToolset<Client extends McpToolClient = McpToolClient> {
  /** In the order of the resources, and in each of its tools. */
  readonly tools: McpTool[]
  /** One per enabled MCP resource, in that order. The caller disposes of them. */
  readonly clients: Client[]
}

/**
 * LangChain tools for every MCP server that an agent names, and the clients behind them. With cached
 * discovery nothing is requested; servers that are to be asked are asked in parallel.
 *
 * The agent is not changed. If anything fails, every client made so far is disposed of first.
 *
 * @throws {AgentDefinitionError} if the definition is not valid
 * @throws {McpToolError} `NAME_COLLISION`, with `onNameCollision: 'throw'`
 */
export async function createMcpToolsFromAgent<Client extends McpToolClient>(
  agent: AgentDefinition,
  options: CreateMcpToolsFromAgentOptions<Client>,
): Promise<McpToolset<Client>> {
  const { log = processWarnings, createClient } = options
  const resources = (agentDefinitionFrom(agent).resources ?? [])
    .filter(isMcpResource)
    .filter((resource) => isEnabled(resource, log))
  const clients: Client[] = []
  try {
    const servers = resources.map((resource) => {
      const client = createClient(referenceTo(resource), clientOptionsFrom(options))
      clients.push(client)
      return { resource, client }
    })
    const discovered = await mapBounded(
      servers,
      MAX_PARALLEL_LISTS,
      async ({ resource, client }) => ({
        server: serverLabelFrom(resource),
        source: client,
        definitions: await discoverTools(resource, client, log),
      }),
    )
    return { tools: buildTools(discovered, options), clients }
  } catch (error) {
    await Promise.allSettled(clients.map((client) => client.dispose())) // nobody else holds them yet
    throw error
  }
}

/** The slug where there is one: display names change. */
function referenceTo({ slug, name, folderPath }: McpResourceDefinition): McpServerReference {
  return slug === undefined ? { name, folderPath } : { slug, folderPath }
}

function clientOptionsFrom({
  sessionInfoFactory,
  scope,
  terminateOnClose,
  timeoutMs,
  maxRetries,
}: McpToolClientOptions): McpToolClientOptions {
  return { sessionInfoFactory, scope, terminateOnClose, timeoutMs, maxRetries }
}

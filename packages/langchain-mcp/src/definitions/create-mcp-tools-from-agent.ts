import type { Checks } from '@x/internal'
import {
  clientOptionChecks,
  McpClient,
  type LeftOutTool,
  type McpClientOptions,
} from '@x/mcp-client'
import type { NamedResource } from './argument-property.ts'
import { processWarnings, type ToolLog } from '../log.ts'
import { mapBounded } from '../map-bounded.ts'
import { assertOptions, wordOrFunction } from '../options.ts'
import {
  serverTitle,
  type McpServerLabel,
  type McpToolSource,
  type ToolDefinition,
} from '../tool-source.ts'
import { answeringFrom } from '../graph/elicitation-to-interrupt.ts'
import {
  assertOneOrigin,
  clientOptionsFrom,
  MAX_REMOTE_LISTS,
  skipServer,
  type OnServerError,
} from './server-clients.ts'
import {
  buildOptionChecks,
  buildTools,
  serverLabelFrom,
  type BuildToolsOptions,
  type DiscoveredServer,
} from '../tools/build-tools.ts'
import type { InputResolver, McpTool } from '../tools/mcp-tool.ts'
import { ArgumentProperties } from './argument-properties.ts'
import {
  agentDefinitionFrom,
  discoveryModeOf,
  isMcpResource,
  mcpResourceFrom,
  type AgentDefinition,
  type AgentToolDefinition,
  type McpResourceDefinition,
  type OtherResourceDefinition,
} from './agent-definition.ts'

/** A server as an agent definition names it. A directory finds its URL. */
export type McpServerReference =
  | { readonly slug: string; readonly folderPath?: string | undefined }
  | { readonly name: string; readonly folderPath?: string | undefined }

/** Options of the tools and of every client. */
export interface CreateMcpToolsFromAgentOptions extends BuildToolsOptions, McpClientOptions {
  /** Handling of a server with dynamic discovery that gives no list of its tools. @default 'skip' */
  readonly onServerError?: OnServerError | undefined
}

const optionChecks: Checks<CreateMcpToolsFromAgentOptions> = {
  ...clientOptionChecks,
  ...buildOptionChecks,
  onServerError: wordOrFunction('skip', 'throw'),
}

/** A client that tools use. */
export interface McpToolClient extends McpToolSource {
  dispose(): Promise<void>
}

export interface McpToolset<Client = McpClient> {
  /** In the order of the resources, and of the tools of each. */
  readonly tools: McpTool[]
  /** One per enabled MCP resource, in that order. The caller disposes of them. */
  readonly clients: Client[]
  /** Servers that gave no list of their tools, with the errors. Their tools are missing. */
  readonly failures: readonly McpServerFailure[]
}

/** A server whose tools are missing, with the error. */
interface McpServerFailure {
  readonly server: McpServerLabel
  readonly error: unknown
}

/**
 * Creates LangChain tools for every MCP server that an agent names, and the clients that they use. Cached
 * discovery sends no request; servers with dynamic discovery are asked in parallel.
 *
 * A server that gives no list does not affect the others, unless `onServerError` says so. The agent is not
 * changed. On any other failure, every client created so far is disposed of first.
 *
 * @throws {AgentDefinitionError} if the definition is not valid
 * @throws {McpClientError} `CONFIG` for an option that is unknown or has a wrong value
 * @example
 * ```ts
 * import { agentDefinitionFrom, createMcpToolsFromAgent } from '@x/langchain-mcp'
 * import { StaticServerDirectory } from '@x/mcp-client'
 *
 * const resource = { $resourceType: 'mcp', name: 'Shop', slug: 'shop' }
 * const agent = agentDefinitionFrom({ resources: [resource] })
 * const directory = new StaticServerDirectory({ shop: 'https://shop.example/mcp' })
 * const { tools, clients } = await createMcpToolsFromAgent(agent, { directory })
 * await Promise.all(clients.map((client) => client.dispose())) // at the end
 * ```
 */
export async function createMcpToolsFromAgent(
  agent: AgentDefinition,
  options: CreateMcpToolsFromAgentOptions = {},
): Promise<McpToolset> {
  assertOptions('createMcpToolsFromAgent()', options, optionChecks)
  return toolsetFrom(
    agent,
    options,
    (server, clientOptions) => new McpClient(server, clientOptions),
  )
}

/** `createClient` opens nothing: clients connect when they are first used. */
export async function toolsetFrom<Client extends McpToolClient>(
  agent: AgentDefinition,
  options: CreateMcpToolsFromAgentOptions,
  createClient: (server: McpServerReference, options: McpClientOptions) => Client,
): Promise<McpToolset<Client>> {
  const { log = processWarnings, onServerError, input } = options
  const { elicitation, handlers } = answeringFrom(options.elicitation, options.handlers, log)
  const toolOptions = { ...options, log, elicitation }
  const clientOptions = { ...clientOptionsFrom(options), handlers }
  const all = agentDefinitionFrom(agent).resources ?? []
  const names = all.flatMap(toNamedResource)
  const enabled = all.filter(isMcpResource).filter((resource) => isEnabled(resource, log))
  assertOneOrigin(options.authProvider, enabled.map(referenceTo))
  const clients: Client[] = []
  const failures: McpServerFailure[] = []
  const discover = async (resource: McpResourceDefinition, source: McpToolSource) => {
    try {
      return [await discoverTools(resource, { source, log, input, resources: names })]
    } catch (error) {
      const server = serverLabelFrom(resource)
      const next = 'It is asked again when the tools are next made.'
      await skipServer(error, server, { onServerError, log, next })
      failures.push({ server, error })
      return []
    }
  }
  try {
    const sources = enabled.map((resource) => {
      const client = createClient(referenceTo(resource), clientOptions)
      clients.push(client)
      return { resource, client }
    })
    // A directory names few local servers, so the limit for remote ones is used.
    const found = await mapBounded(sources, MAX_REMOTE_LISTS, ({ resource, client }) =>
      discover(resource, client),
    )
    return { tools: buildTools(found.flat(), toolOptions).tools, clients, failures }
  } catch (error) {
    // The caller never gets these clients, so they are disposed of here.
    await Promise.allSettled(clients.map((client) => client.dispose()))
    throw error
  }
}

/**
 * Creates LangChain tools for one MCP resource of an agent, with a client that exists. The caller disposes of
 * the client. Cached discovery sends no request; a disabled resource has no tools.
 *
 * @throws {AgentDefinitionError} if the resource is not valid
 * @throws {McpClientError} `CONFIG` for an option that is unknown or has a wrong value
 * @example
 * ```ts
 * import {
 *   agentDefinitionFrom,
 *   createMcpToolsFromMetadataForMcpServer,
 *   isMcpResource,
 * } from '@x/langchain-mcp'
 * import { McpClient } from '@x/mcp-client'
 *
 * const resource = { $resourceType: 'mcp', name: 'Shop', slug: 'shop' }
 * const agent = agentDefinitionFrom({ resources: [resource] })
 * const shop = agent.resources?.find(isMcpResource)
 * await using client = new McpClient('https://shop.example/mcp')
 * const tools = shop && (await createMcpToolsFromMetadataForMcpServer(shop, client))
 * ```
 */
export async function createMcpToolsFromMetadataForMcpServer(
  config: McpResourceDefinition,
  client: McpToolSource,
  options: BuildToolsOptions = {},
): Promise<McpTool[]> {
  assertOptions('createMcpToolsFromMetadataForMcpServer()', options, buildOptionChecks)
  const { log = processWarnings, input } = options
  const resource = mcpResourceFrom(config)
  if (!isEnabled(resource, log)) return []
  const server = await discoverTools(resource, { source: client, log, input, resources: [] })
  return buildTools([server], options).tools
}

function toNamedResource({
  $resourceType: type,
  ...rest
}: McpResourceDefinition | OtherResourceDefinition): NamedResource[] {
  const { name } = rest
  return typeof type === 'string' && typeof name === 'string' ? [{ type, name }] : []
}

/** Prefers the slug, because display names change. */
function referenceTo({ slug, name, folderPath }: McpResourceDefinition): McpServerReference {
  return slug === undefined ? { name, folderPath } : { slug, folderPath }
}

interface DiscoveryContext {
  readonly source: McpToolSource
  readonly log: ToolLog
  readonly input: InputResolver | undefined
  readonly resources: readonly NamedResource[]
}

/**
 * Finds the tools of one resource. `cached`: the stored definitions, without a request. `dynamic`: the
 * server's list in its order, and unless all tools are allowed, only the stored names, with one warning for
 * each that the server does not have. Stored argument properties apply in both modes.
 */
async function discoverTools(
  resource: McpResourceDefinition,
  { source, log, input, resources }: DiscoveryContext,
): Promise<DiscoveredServer> {
  const title = serverTitle(resource)
  if (resource.dynamicTools !== undefined && resource.dynamicTools !== 'none') {
    log({
      level: 'warning',
      code: 'DEPRECATED',
      message: `MCP server "${title}": "dynamicTools" is deprecated, use "toolsConfiguration.discoveryMode"`,
      server: title,
    })
  }
  const mode = discoveryModeOf(resource)
  const stored = resource.availableTools ?? []
  const server = serverLabelFrom(resource)
  const names = new Set(stored.map(({ name }) => name))
  const fixed = new Map(
    stored.flatMap(({ name: toolName, argumentProperties = {} }) => {
      if (Object.keys(argumentProperties).length === 0) return []
      const about = { origin: { server, toolName }, log, input, resources }
      return [[toolName, new ArgumentProperties(argumentProperties, about)] as const]
    }),
  )
  const refreshBeforeCall = mode.type === 'cached' && (mode.refreshSchemaBeforeCall ?? true)
  const found = {
    server,
    source,
    stored: { fixed, refreshBeforeCall },
  }
  if (mode.type === 'cached') {
    return { ...found, definitions: stored.map(withoutArgumentProperties) }
  }
  const unusable: LeftOutTool[] = []
  const live = await source.listTools({ onLeftOut: (tool) => unusable.push(tool) })
  if (mode.allowAll === true) return { ...found, definitions: live, leftOut: unusable }
  const leftOut = unusable.filter(({ name }) => names.has(name))
  const liveNames = new Set([...live, ...leftOut].map(({ name }) => name))
  for (const { name } of stored) {
    if (liveNames.has(name)) continue
    log({
      level: 'warning',
      code: 'TOOL_MISSING',
      message: `MCP server "${title}" has no tool "${name}", which the agent names: the agent goes without it`,
      server: title,
      tool: name,
    })
  }
  const definitions = live.filter(({ name }) => names.has(name))
  return { ...found, definitions, leftOut }
}

/** Argument properties may hold secrets, so the public definition of a tool does not contain them. */
function withoutArgumentProperties(tool: AgentToolDefinition): ToolDefinition {
  const { argumentProperties: _, ...definition } = tool
  return definition
}

/** Logs each disabled resource. */
function isEnabled(resource: McpResourceDefinition, log: ToolLog): boolean {
  if (resource.isEnabled !== false) return true
  const server = serverTitle(resource)
  log({
    level: 'info',
    code: 'SERVER_DISABLED',
    message: `MCP server "${server}" is disabled: no tools, no client`,
    server,
  })
  return false
}

import { McpClient, type McpClientOptions } from '@x/mcp-client'
import { agentDefinitionFrom } from './agent-definition-schema.ts'
import {
  isMcpResource,
  type AgentDefinition,
  type McpResourceDefinition,
  type OtherResourceDefinition,
} from './agent-definition.ts'
import type { NamedResource } from '../argument-properties/resolve-property.ts'
import { buildTools, serverLabelFrom, type BuildToolsOptions } from '../catalogue/build-tools.ts'
import { discoverTools, isEnabled } from './discover-tools.ts'
import { mapBounded } from '../map-bounded.ts'
import { elicitationOf, handlersOf } from '../interrupts/handlers-of.ts'
import type { McpTool } from '../calls/mcp-tool.ts'
import {
  agentOptionChecks,
  assertOneOrigin,
  assertOptions,
  assertRules,
  clientOptionsFrom,
} from '../option-check.ts'
import { skipServer, type OnServerError } from '../on-server-error.ts'
import { parallelLists } from '../catalogue/parallel-lists.ts'
import { processWarnings } from '../tool-log.ts'
import type { McpServerLabel } from '../tool-origin.ts'
import type { McpToolSource } from '../catalogue/tool-source.ts'

type AgentResource = McpResourceDefinition | OtherResourceDefinition

/** A server as an agent names it; its directory knows where it is. */
export type McpServerReference =
  | { readonly slug: string; readonly folderPath?: string | undefined }
  | { readonly name: string; readonly folderPath?: string | undefined }

/** A client that the tools use and the caller disposes of. */
export interface McpToolClient extends McpToolSource {
  dispose(): Promise<void>
}

/** Makes the client of one server. Opens nothing: clients connect when they are first used. */
export type CreateMcpClient<Client extends McpToolClient = McpToolClient> = (
  server: McpServerReference,
  options: McpClientOptions,
) => Client

/** How tools and clients are made; the client's options go to every client. */
export interface CreateMcpToolsFromAgentOptions extends BuildToolsOptions, McpClientOptions {
  /** What becomes of a server that has to be asked for its tools, and gives no list. @default 'skip' */
  readonly onServerError?: OnServerError | undefined
}

/** With clients of another kind. */
export interface CreateMcpToolsWithOptions<
  Client extends McpToolClient,
> extends CreateMcpToolsFromAgentOptions {
  /** Makes the clients. @default new McpClient(server, options) */
  readonly createClient: CreateMcpClient<Client>
}

export interface McpToolset<Client extends McpToolClient = McpClient> {
  /** In the order of the resources, and in each of its tools. */
  readonly tools: McpTool[]
  /** One per enabled MCP resource, in that order. The caller disposes of them. */
  readonly clients: Client[]
  /** Servers that gave no list of their tools, and why: the agent goes without them. Empty, if all is well. */
  readonly failures: readonly McpServerFailure[]
}

/** A server whose tools are missing. */
export interface McpServerFailure {
  readonly server: McpServerLabel
  readonly error: unknown
}

/**
 * LangChain tools for every MCP server that an agent names, and the clients behind them. With cached
 * discovery nothing is requested; servers that are to be asked are asked in parallel.
 *
 * A server that gives no list fails none of the others, unless `onServerError` says so. The agent is not
 * changed. If anything else fails, every client made so far is disposed of first.
 *
 * @throws {AgentDefinitionError} if the definition is not valid
 * @throws {McpClientError} `CONFIG` for an option that says nothing we know
 * @throws {McpToolError} `NAME_COLLISION`, with `onNameCollision: 'throw'`
 */
export async function createMcpToolsFromAgent<Client extends McpToolClient>(
  agent: AgentDefinition,
  options: CreateMcpToolsWithOptions<Client>,
): Promise<McpToolset<Client>>
export async function createMcpToolsFromAgent(
  agent: AgentDefinition,
  options?: CreateMcpToolsFromAgentOptions,
): Promise<McpToolset>
export async function createMcpToolsFromAgent(
  agent: AgentDefinition,
  options: CreateMcpToolsFromAgentOptions & {
    readonly createClient?: CreateMcpClient | undefined
  } = {},
): Promise<McpToolset<McpToolClient>> {
  assertOptions('createMcpToolsFromAgent()', options, agentOptionChecks)
  const { createClient = createMcpClient, log = processWarnings, onServerError } = options
  const elicitation = elicitationOf(options)
  // While people can be asked, the time is kept where it can stand still.
  const timeoutMs = elicitation === undefined ? undefined : options.timeoutMs
  const toolOptions = { ...options, log, timeoutMs, elicitation }
  const handlers = handlersOf(elicitation, options.handlers)
  const clientOptions = { ...clientOptionsFrom(options), handlers }
  const all = agentDefinitionFrom(agent).resources ?? []
  const names = all.flatMap(namedResourceFrom)
  const named = all.filter(isMcpResource)
  assertRules(options, named)
  const resources = named.filter((resource) => isEnabled(resource, log))
  assertOneOrigin(options.authProvider, resources.map(referenceTo))
  const clients: McpToolClient[] = []
  try {
    const servers = resources.map((resource) => {
      const client = createClient(referenceTo(resource), clientOptions)
      clients.push(client)
      return { resource, client }
    })
    const failures: McpServerFailure[] = []
    const discovered = await mapBounded(
      servers,
      parallelLists({ isLocal: false }), // what a directory names is on the network, or few
      async ({ resource, client }) => {
        const server = serverLabelFrom(resource)
        try {
          const found = await discoverTools(resource, client, log)
          return { ...found, server, source: client, resources: names }
        } catch (error) {
          const next = 'It is asked again when the tools are next made.'
          await skipServer(error, { server, onServerError, log, next })
          failures.push({ server, error })
          return undefined
        }
      },
    )
    const found = discovered.filter((server) => server !== undefined)
    return { tools: buildTools(found, toolOptions), clients, failures }
  } catch (error) {
    await Promise.allSettled(clients.map((client) => client.dispose())) // nobody else holds them yet
    throw error
  }
}

function namedResourceFrom({ $resourceType: type, ...rest }: AgentResource): NamedResource[] {
  const { name } = rest
  return typeof type === 'string' && typeof name === 'string' ? [{ type, name }] : []
}

/** The slug where there is one: display names change. */
function referenceTo({ slug, name, folderPath }: McpResourceDefinition): McpServerReference {
  return slug === undefined ? { name, folderPath } : { slug, folderPath }
}

function createMcpClient(server: McpServerReference, options: McpClientOptions): McpClient {
  return new McpClient(server, options)
}

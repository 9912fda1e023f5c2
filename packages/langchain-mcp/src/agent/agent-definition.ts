import type { JsonSchema, ToolDefinition } from '../catalogue/tool-source.ts'

/**
 * Where names, descriptions and schemas of tools come from. `'cached'`: the snapshot in the definition, and
 * no request while building. `'dynamic'`: the server's list.
 */
export type DiscoveryMode =
  | {
      readonly type: 'cached'
      /** Compares a definition with the server's before each call. @default true */
      readonly refreshSchemaBeforeCall?: boolean | undefined
    }
  | {
      readonly type: 'dynamic'
      /** All tools of the server, not only those that the snapshot names. @default false */
      readonly allowAll?: boolean | undefined
    }

/** A tool in the snapshot of an MCP resource. */
export interface AgentToolDefinition extends ToolDefinition {
  /** Values that are fixed when the agent is designed, by JSON path. @default {} */
  readonly argumentProperties?: Readonly<Record<string, unknown>> | undefined
  readonly [key: string]: unknown
}

/** An MCP server that an agent uses. `slug` or `name` says which; `slug` is the one for machines. */
export interface McpResourceDefinition {
  /** In any case: `mcp`, `Mcp`. */
  readonly $resourceType: string
  /** For people; what the directory is asked for where there is no slug. */
  readonly name: string
  /** What the directory is asked for. */
  readonly slug?: string | undefined
  /** The folder of the directory that the server is in. */
  readonly folderPath?: string | undefined
  readonly description?: string | undefined
  /** `false`: no tools, and no client. @default true */
  readonly isEnabled?: boolean | undefined
  /** The snapshot. Needed unless all tools of the server are allowed. */
  readonly availableTools?: readonly AgentToolDefinition[] | undefined
  readonly toolsConfiguration?:
    | { readonly discoveryMode?: DiscoveryMode | undefined; readonly [key: string]: unknown }
    | undefined
  /** @deprecated Use `toolsConfiguration.discoveryMode`, which wins over it. */
  readonly dynamicTools?: 'none' | 'schema' | 'all' | undefined
  readonly [key: string]: unknown
}

/** A resource of a kind that is not read here; kept as it is. */
export interface OtherResourceDefinition {
  readonly $resourceType?: unknown
  readonly [key: string]: unknown
}

/** Which model an agent talks to, and how. */
export interface AgentSettings {
  readonly engine?: string | undefined
  readonly model?: string | undefined
  readonly maxTokens?: number | undefined
  readonly temperature?: number | undefined
  /** Turns of the agent's loop. @default 25 */
  readonly maxIterations?: number | undefined
  readonly [key: string]: unknown
}

/** An agent as `agent.json` holds it. Fields that are not named here are kept. */
export interface AgentDefinition {
  readonly id?: string | undefined
  readonly name?: string | undefined
  /** @default '1.0.0' */
  readonly version?: string | undefined
  readonly inputSchema?: JsonSchema | undefined
  readonly outputSchema?: JsonSchema | undefined
  readonly messages?: readonly AgentMessage[] | undefined
  readonly resources?: readonly (McpResourceDefinition | OtherResourceDefinition)[] | undefined
  readonly features?: readonly unknown[] | undefined
  readonly settings?: AgentSettings | undefined
  readonly metadata?: AgentMetadata | undefined
  readonly guardrails?: unknown
  readonly [key: string]: unknown
}

/** A message that the conversation starts with. */
export interface AgentMessage {
  readonly role: string
  readonly content: string
  readonly [key: string]: unknown
}

export interface AgentMetadata {
  readonly isConversational?: boolean | undefined
  readonly storageVersion?: string | undefined
  readonly [key: string]: unknown
}

/** Whether a resource is an MCP server. */
export function isMcpResource(
  resource: McpResourceDefinition | OtherResourceDefinition,
): resource is McpResourceDefinition {
  const type = resource.$resourceType
  return typeof type === 'string' && type.toLowerCase() === 'mcp'
}

/** How the tools of a resource are found; reads the deprecated `dynamicTools` where there is nothing newer. */
export function discoveryModeOf(resource: McpResourceDefinition): DiscoveryMode {
  const mode = resource.toolsConfiguration?.discoveryMode
  if (mode !== undefined) return mode
  switch (resource.dynamicTools) {
    case 'schema':
      return { type: 'dynamic', allowAll: false }
    case 'all':
      return { type: 'dynamic', allowAll: true }
    case 'none':
    case undefined:
      return { type: 'cached' }
  }
}

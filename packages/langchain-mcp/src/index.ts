// Everything exported here is public API. Types of single options are not: `CreateMcpToolsOptions['onToolError']`.
import './runtime-check.ts' // stays the first import

export { createMcpTools, type CreateMcpToolsOptions, type McpTools } from './create-mcp-tools.ts'
export type { McpToolsServerConfig } from './definitions/server-clients.ts'
export type { McpServerHandle, ServerStatus, ToolsChanged } from './definitions/live-server.ts'
export type { GraphStore } from './graph/call-context.ts'
export { SessionInfoLangGraphStoreFactory } from './graph/session-info-langgraph-store.ts'
// Exported from here, because two copies of `@x/mcp-client` would not share their runs.
export {
  currentRun,
  runIdOf,
  runInSessionScope,
  FileSessionInfoFactory,
  SessionInfoFactory,
  type McpServerConfig,
  type SessionScope,
} from '@x/mcp-client'
export {
  createMcpToolsFromAgent,
  createMcpToolsFromMetadataForMcpServer,
  type CreateMcpToolsFromAgentOptions,
  type McpToolset,
} from './definitions/create-mcp-tools-from-agent.ts'
export { userTokens, type UserCredentials } from './definitions/user-tokens.ts'
export { loadMcpTools, type LoadMcpToolsOptions } from './load-mcp-tools.ts'
export { ToolSearch, type ToolSearchOptions } from './search/tool-search.ts'
export type { SchemaProjection } from './tools/schema-projection.ts'
export {
  elicitationToInterrupt,
  type ElicitationToInterrupt,
  type ElicitationToInterruptOptions,
} from './graph/elicitation-to-interrupt.ts'
export {
  authorizationResume,
  elicitationResume,
  isAuthorizationInterrupt,
  isElicitationInterrupt,
  isTaskInterrupt,
  type ElicitationAnswer,
  type InterruptResume,
  type McpAuthorizationInterrupt,
  type McpElicitationInterrupt,
  type McpTaskInterrupt,
} from './graph/interrupt-value.ts'
export {
  authorizationToInterrupt,
  type AccessPage,
  type AuthorizationToInterrupt,
} from './graph/authorization-to-interrupt.ts'
export type { McpLogEvent, McpProgressEvent } from './graph/run-notifications.ts'
export { McpTool } from './tools/mcp-tool.ts'
export {
  pinnedToolsFrom,
  type PinnedTools,
  type ToolCallRequest,
  type ToolInterceptor,
} from './tools/interceptors.ts'
export {
  mayDestroy,
  type McpToolSource,
  type ToolDefinition,
  type ToolResult,
} from './tool-source.ts'
export type { McpArtifactEntry } from './tools/tool-output.ts'
export type { ToolLogEntry } from './log.ts'
export { McpToolError, type McpToolErrorCode } from './errors.ts'
export {
  AgentDefinitionError,
  agentDefinitionFrom,
  isMcpResource,
  type AgentDefinition,
  type McpResourceDefinition,
} from './definitions/agent-definition.ts'

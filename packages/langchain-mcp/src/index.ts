// Everything exported here is public API. The mapping of names, arguments and answers is deliberately
// private.
import './runtime-check.ts' // stays the first import

export {
  createMcpTools,
  type CreateMcpToolsOptions,
  type ListMcpToolsOptions,
  type McpTools,
} from './create-mcp-tools.ts'
export type {
  McpToolsServerConfig,
  OnServerError,
  ToolHeaders,
  ToolRequest,
} from './definitions/server-clients.ts'
export type { ToolListChange } from './definitions/tool-lists.ts'
export type { McpServerHandle, ServerStatus, ToolsChanged } from './definitions/live-server.ts'
export type { GraphStore, SessionMode } from './graph/call-context.ts'
export {
  SessionInfoLangGraphStoreFactory,
  type SessionInfoLangGraphStoreFactoryOptions,
} from './graph/session-info-langgraph-store.ts'
// Exported from here, because two copies of `@x/mcp-client` would not share their runs.
export {
  currentRun,
  runIdOf,
  runInSessionScope,
  FileSessionInfoFactory,
  SessionInfoFactory,
  type CurrentRun,
  type InSessionScope,
  type McpServerConfig,
  type SessionRunOptions,
  type SessionScope,
} from '@x/mcp-client'
export {
  createMcpToolsFromAgent,
  createMcpToolsFromMetadataForMcpServer,
  type CreateMcpToolsFromAgentOptions,
  type McpServerFailure,
  type McpServerReference,
  type McpToolset,
} from './definitions/create-mcp-tools-from-agent.ts'
export { loadMcpTools, type LoadMcpToolsOptions } from './load-mcp-tools.ts'
export type { BuildToolsOptions, ListedTool } from './tools/build-tools.ts'
export type {
  ProjectedSchema,
  SchemaProjection,
  SchemaProjector,
} from './tools/schema-projection.ts'
export type { ArgumentProperty, TextToken } from './definitions/argument-property.ts'
export {
  elicitationToInterrupt,
  type ElicitationToInterrupt,
  type ElicitationToInterruptOptions,
} from './graph/elicitation-to-interrupt.ts'
export type { InterruptibleCall } from './graph/call-rounds.ts'
export {
  authorizationResume,
  elicitationResume,
  isAuthorizationInterrupt,
  isElicitationInterrupt,
  isTaskInterrupt,
  type AnswerVerdict,
  type ElicitationAnswer,
  type InterruptResume,
  type McpAuthorizationInterrupt,
  type McpElicitationInterrupt,
  type McpTaskInterrupt,
  type PendingInterrupt,
} from './graph/interrupt-value.ts'
export {
  authorizationToInterrupt,
  type AuthorizationToInterrupt,
} from './graph/authorization-to-interrupt.ts'
export type { McpLogEvent, McpProgressEvent } from './graph/run-notifications.ts'
export {
  McpTool,
  type InputResolver,
  type McpToolFields,
  type McpToolOptions,
  type ToolErrorHandler,
} from './tools/mcp-tool.ts'
export {
  pinnedToolsFrom,
  toolDefinitionHash,
  ToolPins,
  type DirectAnswer,
  type PinnedTools,
  type ToolCallAnswer,
  type ToolCallChange,
  type ToolCallRequest,
  type ToolHooks,
  type ToolInterceptor,
} from './tools/interceptors.ts'
export {
  mayDestroy,
  type JsonSchema,
  type McpServerLabel,
  type McpToolOrigin,
  type McpToolSource,
  type QuarantinedTool,
  type RequestOptions as ToolListOptions,
  type SessionReplaced,
  type ToolCallOptions,
  type ToolDefinition,
  type ToolResult,
} from './tool-source.ts'
export type { McpArtifactEntry, ToolOutputOptions } from './tools/tool-output.ts'
export type { ToolLog, ToolLogEntry } from './log.ts'
export {
  McpToolError,
  type McpToolErrorCategory,
  type McpToolErrorCode,
  type McpToolErrorOptions,
  type ToolOutcome,
} from './errors.ts'
export { toolSourceFrom, type SdkClient } from './sdk-client.ts'
export {
  AgentDefinitionError,
  agentDefinitionFrom,
  agentDefinitionSchema,
  isMcpResource,
  type AgentDefinition,
  type AgentMessage,
  type AgentMetadata,
  type AgentSettings,
  type AgentToolDefinition,
  type DiscoveryMode,
  type McpResourceDefinition,
  type OtherResourceDefinition,
} from './definitions/agent-definition.ts'

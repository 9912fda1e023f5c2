// Everything exported here is public API. The mapping of names, arguments and answers is deliberately
// private.
import './runtime-check.ts' // stays the first import
export { createMcpTools } from './create-mcp-tools.ts'
export type {
  CreateMcpToolsOptions,
  DeleteThreadOptions,
  ListMcpToolsOptions,
  McpTools,
  McpToolsEvents,
  McpToolsServerStatus,
  ToolsChanged,
} from './create-mcp-tools.ts'
export type { McpToolsServerConfig, ToolHeaders, ToolRequest } from './servers/server-clients.ts'
export type { OnServerError } from './servers/server-clients.ts'
export type { ToolListChange } from './base/tool-lists.ts'
export type { ServerStatus } from './servers/server-lists.ts'
export type { McpServerHandle } from './servers/live-server.ts'
export type { SessionMode } from './sessions/call-context.ts'
export { SessionInfoLangGraphStore } from './sessions/session-info-langgraph-store.ts'
export type {
  SessionInfoLangGraphStoreOptions,
  SessionPlace,
} from './sessions/session-info-langgraph-store.ts'
export { SessionInfoLangGraphStoreFactory } from './sessions/session-info-langgraph-store.ts'
export type { SessionInfoLangGraphStoreFactoryOptions } from './sessions/session-info-langgraph-store.ts'
export type { GraphStore } from './sessions/call-context.ts'
// Exported from here, because two copies of `@x/mcp-client` would not share their runs.
export { currentRun, runIdOf, runInSessionScope, SessionInfoFactory } from '@x/mcp-client'
export type {
  CurrentRun,
  InSessionScope,
  McpServerConfig,
  SessionRunOptions,
  SessionScope,
} from '@x/mcp-client'

export { createMcpToolsFromAgent } from './agent/create-mcp-tools-from-agent.ts'
export type {
  CreateMcpClient,
  CreateMcpToolsFromAgentOptions,
  CreateMcpToolsWithOptions,
  McpServerReference,
  McpServerFailure,
  McpToolClient,
  McpToolset,
} from './agent/create-mcp-tools-from-agent.ts'
export { createMcpToolsFromMetadataForMcpServer } from './agent/create-mcp-tools-from-agent.ts'
export { loadMcpTools } from './load-mcp-tools.ts'
export type { LoadMcpToolsOptions } from './load-mcp-tools.ts'
export type { BuildToolsOptions, QuarantinedTool } from './tools/build-tools.ts'
export type {
  ProjectedSchema,
  SchemaProjection,
  SchemaProjector,
} from './schema/schema-projection.ts'
export type { InputResolver } from './arguments/argument-properties.ts'
export type { ArgumentProperty, TextToken } from './arguments/argument-property.ts'

export {
  ElicitationToInterrupt,
  elicitationToInterrupt,
} from './interrupts/elicitation-to-interrupt.ts'
export type { ElicitationToInterruptOptions } from './interrupts/elicitation-to-interrupt.ts'
export type { InterruptibleCall } from './interrupts/call-rounds.ts'
export {
  approvalResume,
  authorizationResume,
  elicitationResume,
  isApprovalInterrupt,
  isAuthorizationInterrupt,
  isElicitationInterrupt,
} from './interrupts/interrupt-value.ts'
export type {
  ApprovalDecision,
  ApprovalRequest,
  ElicitationAnswer,
  InterruptResume,
  McpAuthorizationInterrupt,
  McpElicitationInterrupt,
  PendingInterrupt,
} from './interrupts/interrupt-value.ts'
export { authorizationToInterrupt } from './interrupts/authorization-to-interrupt.ts'
export type { AuthorizationToInterrupt } from './interrupts/authorization-to-interrupt.ts'
export { samplingWith } from './interrupts/sampling-with.ts'
export type { SamplingRequest, SamplingWithOptions } from './interrupts/sampling-with.ts'
export type { McpLogEvent, McpProgressEvent } from './interrupts/run-notifications.ts'

export { McpTool } from './tools/mcp-tool.ts'
export type { McpToolFields } from './tools/mcp-tool.ts'
export type { McpToolOptions, ToolErrorHandler } from './tools/mcp-tool.ts'
export type { ToolHooks } from './tools/interceptors.ts'
export type {
  DirectAnswer,
  ToolCallAnswer,
  ToolCallChange,
  ToolCallRequest,
  ToolInterceptor,
} from './tools/interceptors.ts'
export type { Approve } from './tools/tool-approval.ts'
export { mayDestroy } from './tools/tool-approval.ts'
export type { MockedCall, ToolMock } from './tools/interceptors.ts'
export { pinnedToolsFrom, toolDefinitionHash, ToolPins } from './tools/tool-pins.ts'
export type { PinnedTools } from './tools/tool-pins.ts'
export type { ToolRule, ToolRules } from './tools/build-tools.ts'
export type { McpServerLabel, McpToolOrigin } from './base/tool-source.ts'
export type { OnNameCollision, PrefixToolNames } from './tools/tool-names.ts'
export type { McpArtifactEntry, ToolOutputOptions } from './tools/tool-output.ts'
export type { ToolLog, ToolLogEntry } from './base/log.ts'
export { McpToolError } from './base/errors.ts'
export type {
  McpToolErrorCategory,
  McpToolErrorCode,
  McpToolErrorOptions,
  ToolOutcome,
} from './base/errors.ts'

export { toolSourceFrom } from './base/sdk-client.ts'
export type { SdkClient } from './base/sdk-client.ts'
export type {
  JsonSchema,
  McpToolSource,
  SessionReplaced,
  ToolAnnotations,
  ToolCallOptions,
  ToolDefinition,
  ToolListOptions,
  ToolResult,
} from './base/tool-source.ts'

export { agentDefinitionFrom, agentDefinitionSchema } from './agent/agent-definition.ts'
export type { AgentDefinitionFromOptions } from './agent/agent-definition.ts'
export type {
  AgentDefinition,
  AgentMessage,
  AgentMetadata,
  AgentSettings,
  AgentToolDefinition,
  DiscoveryMode,
  McpResourceDefinition,
  OtherResourceDefinition,
} from './agent/agent-definition.ts'
export { isMcpResource } from './agent/agent-definition.ts'
export { AgentDefinitionError } from './agent/agent-definition.ts'
export type {
  AgentDefinitionErrorCode,
  AgentDefinitionErrorOptions,
} from './agent/agent-definition.ts'

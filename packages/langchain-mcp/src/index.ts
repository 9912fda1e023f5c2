// Everything exported here is public API. How names, arguments and answers are mapped is deliberately private.
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
} from './mcp-tools.ts'
export type { McpToolsServerConfig, ToolHeaders, ToolRequest } from './calls/run-headers.ts'
export type { OnServerError } from './on-server-error.ts'
export type { ToolListChange } from './catalogue/tool-list-changes.ts'
export type { ServerStatus } from './catalogue/server-lists.ts'
export type { McpServerHandle } from './catalogue/live-server.ts'
export type { SessionMode } from './sessions/session-mode.ts'
export { SessionInfoLangGraphStore } from './sessions/session-info-langgraph-store.ts'
export type {
  SessionInfoLangGraphStoreOptions,
  SessionPlace,
} from './sessions/session-info-langgraph-store.ts'
export { SessionInfoLangGraphStoreFactory } from './sessions/session-info-langgraph-store-factory.ts'
export type { SessionInfoLangGraphStoreFactoryOptions } from './sessions/session-info-langgraph-store-factory.ts'
export type { GraphStore } from './sessions/graph-store.ts'
// The ones that the tools were made with: two copies of a package would not know each other's runs.
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
export { createMcpToolsFromMetadataForMcpServer } from './agent/create-mcp-tools-from-metadata.ts'
export { loadMcpTools } from './load-mcp-tools.ts'
export type { LoadMcpToolsOptions } from './load-mcp-tools.ts'
export type { BuildToolsOptions, QuarantinedTool } from './catalogue/build-tools.ts'
export type {
  ProjectedSchema,
  SchemaProjection,
  SchemaProjector,
} from './schema/schema-projection.ts'
export type { InputResolver } from './argument-properties/run-input.ts'
export type { ArgumentProperty, TextToken } from './argument-properties/argument-property.ts'

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
export type { McpLogEvent, McpProgressEvent } from './interrupts/run-news.ts'

export { McpTool } from './calls/mcp-tool.ts'
export type { McpToolFields } from './calls/mcp-tool.ts'
export type { McpToolOptions, ToolErrorHandler } from './calls/mcp-tool-options.ts'
export type { ToolHooks } from './calls/tool-hooks.ts'
export type {
  DirectAnswer,
  ToolCallAnswer,
  ToolCallChange,
  ToolCallRequest,
  ToolInterceptor,
} from './calls/tool-interceptor.ts'
export type { Approve } from './calls/tool-approval.ts'
export { mayDestroy } from './calls/tool-approval.ts'
export type { MockedCall, ToolMock } from './calls/tool-mock.ts'
export { pinnedToolsFrom, toolDefinitionHash, ToolPins } from './catalogue/tool-pins.ts'
export type { PinnedTools } from './catalogue/tool-pins.ts'
export type { ToolRule, ToolRules } from './catalogue/tool-rules.ts'
export type { McpServerLabel, McpToolOrigin } from './tool-origin.ts'
export type { OnNameCollision, PrefixToolNames } from './catalogue/tool-names.ts'
export type { McpArtifactEntry, ToolOutputOptions } from './calls/tool-output.ts'
export type { ToolLog, ToolLogEntry } from './tool-log.ts'
export { McpToolError } from './mcp-tool-error.ts'
export type {
  McpToolErrorCategory,
  McpToolErrorCode,
  McpToolErrorOptions,
  ToolOutcome,
} from './mcp-tool-error.ts'

export { toolSourceFrom } from './catalogue/sdk-client-source.ts'
export type { SdkClient } from './catalogue/sdk-client-source.ts'
export type {
  JsonSchema,
  McpToolSource,
  SessionReplaced,
  ToolAnnotations,
  ToolCallOptions,
  ToolDefinition,
  ToolListOptions,
  ToolResult,
} from './catalogue/tool-source.ts'

export { agentDefinitionFrom, agentDefinitionSchema } from './agent/agent-definition-schema.ts'
export type { AgentDefinitionFromOptions } from './agent/agent-definition-schema.ts'
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
export { AgentDefinitionError } from './agent/agent-definition-error.ts'
export type {
  AgentDefinitionErrorCode,
  AgentDefinitionErrorOptions,
} from './agent/agent-definition-error.ts'

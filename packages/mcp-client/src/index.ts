// Everything exported here is public API. The state machine and the replay table are deliberately private.
import './runtime-check.ts' // stays the first import
export type { Progress } from '@modelcontextprotocol/sdk/types.js'
export type {
  AuthProviderOf,
  CallOptions,
  CallToolOptions,
  McpClientOptions,
  PerServerOptions,
  TimeoutExtension,
} from './options.ts'
// For packages that pass these options on, and check them before there is a client.
export { clientOptionChecks } from './options.ts'
export type { ClientHandlers, HandlerContext, ServerLog } from './handlers.ts'
export { isInputRequired } from './input-required.ts'
export type { InputRequired, InputResume, TaskReference } from './input-required.ts'
export { McpClient } from './mcp-client.ts'
export type { KnownTools, LeftOutTool } from './tool-list.ts'
export type { McpTask } from './task.ts'
export { McpClientError } from './errors.ts'
export type { McpClientErrorCode } from './errors.ts'
export type { McpServer } from './directory/server-directory.ts'
export type { RetryTiming } from './retry.ts'
export type { McpServerConfig, ScopedRequest, UrlConfig } from './server-config.ts'
export { httpDirectory } from './directory/http-directory.ts'
export type { HttpDirectoryOptions } from './directory/http-directory.ts'
export { mcpJsonDirectory } from './directory/mcp-json-directory.ts'
export { withOverrides } from './directory/find-server.ts'
export { StaticServerDirectory } from './directory/server-directory.ts'
export type { McpServerDirectory, McpServerQuery } from './directory/server-directory.ts'
export { FileSessionInfoFactory, SessionInfoFactory } from './session-info-factory.ts'
export type { SessionInfoPurpose, SessionInfoSource } from './session-info-factory.ts'
export type { Caller } from './session-calls.ts'
export type { SessionScope } from './session-scope.ts'
export type { DeclinedQuestion, LastError, McpClientStatus } from './session-state.ts'
export type { McpClientEvents } from './events.ts'
export type { OpenTelemetry } from './telemetry.ts'
export { currentRun, runIdOf, runInSessionScope } from './run-scope.ts'
export type { CurrentRun, InSessionScope, SessionRunOptions } from './run-scope.ts'

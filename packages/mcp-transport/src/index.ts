// Everything exported here is public API. HTTP exchanges, streams and the detection of lost sessions are private.
import './runtime-check.ts' // must stay the first import
export type { Dispatcher } from 'undici'
export type {
  AuthorizationCallback,
  AuthProvider,
  OAuthClientProvider,
} from './auth/auth-provider.ts'
export { reserveAuthProvider } from './auth/authorizer.ts'
export { createDispatcher } from './http/dispatcher.ts'
export type { CreateDispatcherOptions } from './http/dispatcher.ts'
export type {
  Answer,
  InputAnswers,
  InputInstructions,
  InputRequest,
  InputRequired,
  JsonRpcError,
  JsonRpcMessage,
  JsonRpcNotification,
  JsonRpcRequest,
  JsonRpcResponse,
  JsonRpcResult,
  RequestId,
  TraceContext,
} from './json-rpc.ts'
export type { HeadersFunction, HeadersOption, RequestContext } from './headers.ts'
export { FileSessionInfo, SessionInfo } from './session-info.ts'
export {
  isNewerRecord,
  isRecordOfEndpoint,
  isSessionId,
  sessionRecordFrom,
  shortSessionId,
} from './session-record.ts'
export type { Era, InitializeResult, SessionRecord, StoredTools } from './session-record.ts'
export { ToolListRecord } from './tool-list-record.ts'
// Helpers for other transports, such as stdio.
export { LEFT_OUT_META_KEY } from './modern/tools.ts'
export { withTraceContext } from './json-rpc.ts'
export { TASKS_EXTENSION } from './modern/modern-post.ts'
export { Call } from './calls/call.ts'
export type {
  CallHandlers,
  CallOptions as ConnectionCallOptions,
  ServerRequest,
} from './calls/call.ts'
export { McpConnection } from './mcp-connection.ts'
export type { ConnectionOwner } from './mcp-connection.ts'
export { StreamableHttpTransport } from './streamable-http-transport.ts'
export type { SendOptions } from './transport-options.ts'
export { TransportError, worstOutcome } from './transport-error.ts'
export type {
  RequestOutcome,
  ServerError,
  TransportErrorCode,
  TransportErrorOptions,
} from './transport-error.ts'
// For packages that accept these options and check them before they create a transport.
export { transportOptionChecks } from './transport-options.ts'
export type {
  EraOption,
  ExchangeEvent,
  LimitOptions,
  ReconnectOptions,
  SessionReplaced,
  StreamableHttpTransportOptions,
  TimeoutOptions,
} from './transport-options.ts'

// Everything exported here is public API. HTTP exchanges, streams and the detection of lost sessions are private.
import './runtime-check.ts' // must stay the first import
export type { Dispatcher } from 'undici'
export type { AuthProvider, OAuthClientProvider, UserCode } from './auth/auth-provider.ts'
export { reserveAuthProvider } from './auth/authorizer.ts'
export { createDispatcher } from './http/dispatcher.ts'
export type { CreateDispatcherOptions } from './http/dispatcher.ts'
export type {
  Answer,
  InputAnswers,
  InputInstructions,
  InputRequest,
  InputRequired,
  JsonRpcMessage,
  JsonRpcNotification,
  JsonRpcRequest,
  JsonRpcResponse,
  RequestId,
} from './json-rpc.ts'
export type { HeadersOption, RequestContext } from './headers.ts'
export { FileSessionInfo, SessionInfo } from './session-info.ts'
export { sessionRecordFrom } from './session-record.ts'
export type { Era, SessionRecord, StoredTools } from './session-record.ts'
// For the packages beside this one: the stored lists of tools, calls and settings of another kind of connection.
export { ToolListRecord } from './tool-list-record.ts'
export { SessionSettings } from './session-settings.ts'
export { Call } from './calls/call.ts'
export type { CallHandlers, ServerRequest } from './calls/call.ts'
export { McpConnection } from './mcp-connection.ts'
export type { ConnectionOwner } from './mcp-connection.ts'
export { StreamableHttpTransport } from './streamable-http-transport.ts'
export { TransportError } from './transport-error.ts'
export type { RequestOutcome, TransportErrorCode } from './transport-error.ts'
// For packages that accept these options and check them before they create a transport.
export { transportOptionChecks } from './transport-options.ts'
export type {
  ExchangeEvent,
  SessionReplaced,
  StreamableHttpTransportOptions,
} from './transport-options.ts'

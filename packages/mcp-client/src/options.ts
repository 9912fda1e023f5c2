import { check } from '@x/internal'
import type { Checks } from '@x/internal'
import { transportOptionChecks } from '@x/mcp-transport'
import type { AuthProvider, StreamableHttpTransportOptions } from '@x/mcp-transport'
import type { ClientCapabilities, Progress } from '@modelcontextprotocol/sdk/types.js'
import type { ClientHandlers } from './handlers.ts'
import type { InputResume } from './input-required.ts'
import type { ReplayPolicy, RetryTiming } from './retry.ts'
import type { McpServer, McpServerDirectory } from './directory/server-directory.ts'
import type { Caller } from './session-calls.ts'
import type { SessionInfoSource } from './session-info-factory.ts'
import type { SessionScope } from './session-scope.ts'
import type { OpenTelemetry } from './telemetry.ts'
import type { IdleScopeOptions } from './scope-slots.ts'

/** Default of `timeoutMs`, in milliseconds. */
export const DEFAULT_TIMEOUT_MS = 600_000

/** Default of `handshakeMs`, in milliseconds. */
export const DEFAULT_HANDSHAKE_MS = 30_000

/**
 * Options of a client. Those of the transport are passed on to it: `limits.eventBytes` also limits a line on stdio, and
 * without `traceContext` the trace context of OpenTelemetry is used.
 */
export interface McpClientOptions extends Pick<
  StreamableHttpTransportOptions,
  'dispatcher' | 'era' | 'limits' | 'listen' | 'reconnect' | 'timeouts' | 'traceContext'
> {
  /** Name of the server in errors, logs and spans. @default its slug, its name, its URL without query, or its program */
  readonly label?: string | undefined
  /** Finds servers by slug or name. @default `httpDirectory()` */
  readonly directory?: McpServerDirectory | undefined
  /** Creates the store of a session. @default in memory */
  readonly sessionInfoFactory?: SessionInfoSource | undefined
  /**
   * Owner of the session. A function is called at each call; each scope has its own session, list of tools (see `toolsPer`) and
   * connections. If the function throws, the call rejects with that error. `run: 'current'` in a scope stands for the
   * run in which the call is made (`runInSessionScope()`), and `'run'` is short for `{ run: 'current' }`: each run has a
   * session, which ends with it. Outside a run, calls reject with `NO_RUN`, and a list gets a session for itself.
   */
  readonly scope?: SessionScope | 'run' | (() => SessionScope) | undefined
  /**
   * Who has a list of tools. With `'principal'`, all threads and runs of a principal share one, which, when the session
   * that has read it is closed or lost, stays current until 5 minutes after it was read. Choose it unless the server offers tools
   * in single sessions.
   * @default 'scope': each session has its own
   */
  readonly toolsPer?: 'scope' | 'principal' | undefined
  /** Which unused sessions are kept. Only with a scope function. */
  readonly idleScopes?: IdleScopeOptions | undefined
  /** Limit for one operation with lookup, handshake and retries, in milliseconds. @default 600_000 */
  readonly timeoutMs?: number | undefined
  /** Lets progress extend the limit of a tool call. @default progress does not extend it */
  readonly timeout?: TimeoutExtension | undefined
  /** Limit for one handshake, in milliseconds. @default 30_000 */
  readonly handshakeMs?: number | undefined
  /**
   * Maximum number of retries of one operation. @default 1; for a call with an idempotency key that the server honours: no
   * maximum within `timeoutMs` while the server is away, and 7 while it answers
   */
  readonly maxRetries?: number | undefined
  /** Which requests may be sent again. @default 'session-loss' */
  readonly replay?: ReplayPolicy | undefined
  /** Timers and random numbers of retries, for tests. @default timers and `Math.random` */
  readonly retryTiming?: RetryTiming | undefined
  /**
   * Lets `dispose()` end the session on the server. The default does not end a session that another client opened;
   * `true` does.
   * @default true, unless the session store outlives the process
   */
  readonly terminateOnClose?: boolean | undefined
  /**
   * Gets the tokens for the server; see `@x/mcp-transport/auth`. A provider holds the credentials for one origin:
   * using it for another origin is rejected with `CONFIG`. A function returns the provider for a server and a
   * scope, and is called once for each session. Return the same provider for the same server and principal, so
   * that their sessions share its token refreshes. @default none
   */
  readonly authProvider?: AuthProvider | AuthProviderOf | undefined
  /** Receives spans and metrics. `false` disables them. @default `@opentelemetry/api`, if it is installed */
  readonly openTelemetry?: OpenTelemetry | false | undefined
  /** Answer the requests of a server. @default none: the server must not send requests */
  readonly handlers?: ClientHandlers | undefined
  /** Added to the capabilities of `handlers`, and overrides them. @default the capabilities of `handlers` */
  readonly capabilities?: ClientCapabilities | undefined
  /** Name and version of this client for the server. @default `mcp-client` and its version */
  readonly clientInfo?: { readonly name: string; readonly version: string } | undefined
}

/** Lets a long tool call continue while the server reports progress. */
export interface TimeoutExtension {
  /** Each progress notification restarts `timeoutMs`. The client then asks the server for progress. */
  readonly resetOnProgress: boolean
  /** Limit for the whole call with all extensions, in milliseconds. */
  readonly maxMs: number
}

/** Returns the provider for a server and a scope; undefined for none. */
export type AuthProviderOf = (
  server: McpServer,
  scope: SessionScope | undefined,
) => AuthProvider | undefined

/** Options of one server, where several servers are configured together. */
export type PerServerOptions = Pick<
  McpClientOptions,
  | 'authProvider'
  | 'dispatcher'
  | 'era'
  | 'handshakeMs'
  | 'label'
  | 'limits'
  | 'listen'
  | 'timeoutMs'
>

const { authProvider, era, dispatcher, timeouts, limits, listen, reconnect, traceContext } =
  transportOptionChecks

const scopeChecks: Checks<SessionScope> = {
  principal: check.string,
  thread: check.string,
  run: check.string,
}

const idleScopeChecks: Checks<IdleScopeOptions> = { max: check.number(), ms: check.number() }

const extensionChecks: Checks<TimeoutExtension> = {
  resetOnProgress: check.required(check.flag),
  maxMs: check.required(check.number()),
}

const handlerChecks: Checks<ClientHandlers> = {
  elicitation: check.func,
  sampling: check.func,
  roots: check.func,
}

export const clientOptionChecks: Checks<McpClientOptions> = {
  directory: {
    ...check.methods('retrieve'),
    takes: 'a directory, such as mcpJsonDirectory(path)',
  },
  sessionInfoFactory: { ...check.methods('createSession'), takes: 'a SessionInfoFactory' },
  label: check.text,
  scope: check.or(check.oneOf('run'), check.section(scopeChecks), check.func),
  toolsPer: check.oneOf('scope', 'principal'),
  idleScopes: check.section(idleScopeChecks),
  timeoutMs: check.number(),
  timeout: {
    ...check.section(extensionChecks),
    takes: '{ resetOnProgress, maxMs } (a number belongs to "timeoutMs")',
  },
  handshakeMs: check.number(),
  maxRetries: check.number(),
  replay: check.oneOf('session-loss', 'idempotent', 'never'),
  retryTiming: check.methods('wait', 'random'),
  terminateOnClose: check.flag,
  era,
  authProvider: {
    takes: `${authProvider.takes}, or a function that gives one`,
    accepts: (value) => check.func.accepts(value) || authProvider.accepts(value),
  },
  traceContext,
  openTelemetry: {
    takes: 'the module @opentelemetry/api, or false',
    accepts: (value) => value === false || (typeof value === 'object' && value !== null),
  },
  handlers: check.section(handlerChecks),
  capabilities: check.record,
  clientInfo: check.record,
  dispatcher,
  timeouts,
  limits,
  listen,
  reconnect,
}

/** Options of one operation. `timeoutMs` overrides that of the client. */
export interface CallOptions extends Pick<McpClientOptions, 'timeoutMs'> {
  /** Aborts the operation, which rejects with the reason of the signal. */
  readonly signal?: AbortSignal | undefined
  /**
   * Owner of the session that serves the operation. The session is kept while it is used (see `idleScopes`).
   * @default the option `scope` of the client
   */
  readonly scope?: SessionScope | undefined
  /**
   * Headers of the HTTP requests of this operation: its POST, later rounds, its resumed stream, its cancellation, and
   * all requests of the task that it becomes. They replace headers of the server's config, and never reach a handshake
   * or another operation. The headers of the protocol and the token of an `authProvider` cannot be replaced. A child
   * process refuses them with `CONFIG`. @default none
   */
  readonly headers?: Readonly<Record<string, string>> | undefined
}

/**
 * Options of one tool call. `timeout` overrides that of the client. If the server makes the call a task, `timeoutMs` of
 * the call limits the whole task (default: as long as the server keeps it), and that of the client each request.
 */
export interface CallToolOptions extends CallOptions, Pick<McpClientOptions, 'timeout'> {
  /**
   * Action if the server needs input to continue: `answer` calls the handlers, `surface` returns the
   * questions as an `InputRequired`. Only servers of 2026-07-28 return questions. @default 'answer'
   */
  readonly inputRequired?: 'answer' | 'surface' | undefined
  /** Continues a call that returned an `InputRequired`, also in another client or process. */
  readonly resume?: InputResume | undefined
  /**
   * Called for each progress notification, and for each status message of a task. Without `timeout` it does not extend
   * the limit.
   */
  readonly onProgress?: ((progress: Progress) => void) | undefined
  /**
   * Identifies this call, also if it is sent again: 1 to 255 visible ASCII characters. A server that honours such keys
   * runs the call once, so that the client sends it again while the server is away, within `timeoutMs` (see `maxRetries`).
   * @default no key
   */
  readonly idempotencyKey?: string | undefined
  /**
   * Time when another process sent this call with the same key, and got no answer, in milliseconds since 1970. The call
   * waits for its server within `timeoutMs`, and is sent only if the server still honours the key; else its outcome stays
   * unknown. @default the call is new
   */
  readonly sentAt?: number | undefined
  /** Sent as `_meta` of the request. */
  readonly meta?: Readonly<Record<string, unknown>> | undefined
  /** The call may run twice. Then it is also sent again after a broken connection. @default false */
  readonly idempotent?: boolean | undefined
  /**
   * Identifies the caller if one client serves several people. Handlers get it as `origin.call.caller`.
   * @default one caller for all calls
   */
  readonly caller?: Caller | undefined
}

import { check } from '@x/internal'
import type { Checks } from '@x/internal'
import { transportOptionChecks } from '@x/mcp-transport'
import type {
  AuthProvider,
  Dispatcher,
  EraOption,
  ExchangeEvent,
  LimitOptions,
  ReconnectOptions,
  TimeoutOptions,
  TraceContext,
} from '@x/mcp-transport'
import type { ClientCapabilities } from '@modelcontextprotocol/sdk/types.js'
import type { ClientHandlers, ServerLog } from './handlers.ts'
import type { InputResume } from './input-required.ts'
import type { ReplayPolicy, RetryTiming } from './retry.ts'
import type { McpServer } from './directory/server-directory.ts'
import type { McpServerDirectory } from './directory/server-directory.ts'
import type { SecretSource } from './secret-source.ts'
import type { Caller } from './session-calls.ts'
import type { SessionInfoSource } from './session-info-factory.ts'
import type { SessionScope } from './session-scope.ts'
import type { StdioOptions } from './stdio/start-child.ts'
import type { Logger } from './telemetry/logger.ts'
import type { OpenTelemetry } from './telemetry/open-telemetry.ts'
import type { IdleScopeOptions } from './session-manager.ts'

export interface McpClientOptions {
  /** How errors, logs and spans name the server. @default its slug, its name, its URL without query, or its program */
  readonly label?: string | undefined
  /** Where servers that are named by slug or name are looked up. @default `httpDirectory()` */
  readonly directory?: McpServerDirectory | undefined
  /** Decides where the session is kept. @default in memory */
  readonly sessionInfoFactory?: SessionInfoSource | undefined
  /**
   * Whose session it is. A function is asked at every call: each scope has a session, a list of tools
   * and connections of its own. It may throw, where there must be no call; the call rejects with that.
   */
  readonly scope?: SessionScope | (() => SessionScope) | undefined
  /** With a scope function: which sessions that are not used are kept. */
  readonly idleScopes?: IdleScopeOptions | undefined
  /** Runs every operation, with the question for its scope. @default just runs it */
  readonly around?: AroundOperation | undefined
  /** Limit for one operation, in milliseconds, with all that it needs: lookup, handshake, replay. @default 600_000 */
  readonly timeoutMs?: number | undefined
  /** Whether progress extends the limit of a tool call. @default it does not */
  readonly timeout?: TimeoutExtension | undefined
  /** Limit for one handshake, in milliseconds. @default 30_000 */
  readonly handshakeMs?: number | undefined
  /** How often one operation is repeated at most. @default 1 */
  readonly maxRetries?: number | undefined
  /** What may be repeated. @default 'session-loss' */
  readonly replay?: ReplayPolicy | undefined
  /** How the time passes before something is tried again: for tests. @default timers and `Math.random` */
  readonly retryTiming?: RetryTiming | undefined
  /**
   * Whether `dispose()` ends the session on the server. By default it does not end a session that another
   * client opened; `true` ends that one, too.
   * @default true, unless the session is kept where it outlives the process
   */
  readonly terminateOnClose?: boolean | undefined
  /** Which revisions of MCP to speak, and which to try first. @default 'auto' */
  readonly era?: EraOption | undefined
  /**
   * Gets the tokens that the server wants; see `@x/mcp-transport/auth`. A provider holds the credentials for
   * one origin: using it for another one is refused with `CONFIG`. A function returns the provider for a
   * server and a scope, and is called once for each session. Return the same provider for the same server
   * and principal, so that their sessions share its refreshes. @default none
   */
  readonly authProvider?: AuthProvider | AuthProviderOf | undefined
  /** Gives the values of secrets that a config or a directory only names. @default none */
  readonly secrets?: SecretSource | undefined
  /** The caller's place in a trace, asked before every message. @default that of OpenTelemetry, if it is there */
  readonly traceContext?: (() => TraceContext | undefined) | undefined
  /**
   * Where spans and metrics go. `false` for nowhere.
   * @default `@opentelemetry/api`, if it is installed
   */
  readonly openTelemetry?: OpenTelemetry | false | undefined
  /** Told what the events `log`, `state`, `sessionReplaced` and `serverLog` tell. @default none */
  readonly logger?: Logger | undefined
  /** Answer what servers may ask of this client. @default none: nothing may be asked */
  readonly handlers?: ClientHandlers | undefined
  /**
   * Declared beside what the handlers stand for, and in place of it where both name the same.
   * @default what `handlers` stand for
   */
  readonly capabilities?: ClientCapabilities | undefined
  /** What the server is told about this client. @default `mcp-client` and its version */
  readonly clientInfo?: { readonly name: string; readonly version: string } | undefined
  /** Any undici dispatcher (version 8). It may be shared, and is not closed by this client. @default one of its own */
  readonly dispatcher?: Dispatcher | undefined
  /** How servers are started that are programs. @default see `StdioOptions` */
  readonly stdio?: StdioOptions | undefined
  /** Limits for parts of one HTTP exchange, in milliseconds. @default see `TimeoutOptions` */
  readonly timeouts?: TimeoutOptions | undefined
  /** How much a server may send, in bytes; `eventBytes` is also for a line on stdio. @default see `LimitOptions` */
  readonly limits?: LimitOptions | undefined
  /** How a broken stream is opened again. @default see `ReconnectOptions` */
  readonly reconnect?: ReconnectOptions | undefined
}

/** Lets a long tool call go on while the server reports progress. */
export interface TimeoutExtension {
  /** Each progress notification starts `timeoutMs` anew. The client asks the server for progress. */
  readonly resetOnProgress: boolean
  /** Limit for the whole call with all extensions, in milliseconds. */
  readonly maxMs: number
}

/** Returns the provider for a server and a scope; undefined for none. */
export type AuthProviderOf = (
  server: McpServer,
  scope: SessionScope | undefined,
) => AuthProvider | undefined

/** What one server has of its own, where several servers are configured together. */
export type PerServerOptions = Pick<
  McpClientOptions,
  'authProvider' | 'dispatcher' | 'era' | 'label' | 'limits' | 'timeoutMs'
>

const { authProvider, era, dispatcher, timeouts, limits, reconnect, traceContext } =
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

const stdioChecks: Checks<StdioOptions> = {
  pathFrom: check.oneOf('env', 'login-shell'),
  path: check.string,
  cacheFolder: check.text,
}

export const clientOptionChecks: Checks<McpClientOptions> = {
  directory: {
    ...check.methods('retrieve'),
    takes: 'a directory, such as mcpJsonDirectory(path)',
  },
  sessionInfoFactory: { ...check.methods('createSession'), takes: 'a SessionInfoFactory' },
  label: check.text,
  scope: check.or(check.section(scopeChecks), check.func),
  idleScopes: check.section(idleScopeChecks),
  around: check.func,
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
  secrets: check.func,
  traceContext,
  openTelemetry: {
    takes: 'the module @opentelemetry/api, or false',
    accepts: (value) => value === false || (typeof value === 'object' && value !== null),
  },
  logger: check.methods('debug', 'info', 'warn', 'error'),
  handlers: check.section(handlerChecks),
  capabilities: check.record,
  clientInfo: check.record,
  dispatcher,
  stdio: check.section(stdioChecks),
  timeouts,
  limits,
  reconnect,
}

/** May give the operation one more signal that gives it up; it then rejects with the reason of that. */
export type AroundOperation = <T>(
  operation: (also?: { readonly signal: AbortSignal }) => Promise<T>,
  about: { readonly method: string; readonly server: string },
) => Promise<T>

export interface CallOptions {
  /** Gives the operation up; it rejects with the signal's reason. */
  readonly signal?: AbortSignal | undefined
  /** Overrides the client's limit, in milliseconds. */
  readonly timeoutMs?: number | undefined
}

export interface CallToolOptions extends CallOptions {
  /**
   * Where the server needs answers before it can go on: `answer` asks the handlers, `surface` hands the
   * questions up as an `InputRequired`. Only servers of 2026-07-28 ask in this way. @default 'answer'
   */
  readonly inputRequired?: 'answer' | 'surface' | undefined
  /** Continues a call that was surfaced, by this client or any other one. */
  readonly resume?: InputResume | undefined
  /** Overrides the client's `timeout`. */
  readonly timeout?: TimeoutExtension | undefined
  /** Told of each progress notification, from a request that asks for them. Extends nothing without `timeout`. */
  readonly onProgress?: ((progress: Progress) => void) | undefined
  /** Sent as `_meta` of the request. */
  readonly meta?: Readonly<Record<string, unknown>> | undefined
  /** This call may run twice: then it is also repeated after a broken connection. @default false */
  readonly idempotent?: boolean | undefined
  /**
   * Who makes the call, where one client serves several people. Handlers get it back as `origin.call.caller`.
   * @default one caller for all calls
   */
  readonly caller?: Caller | undefined
  /**
   * Makes the call in a session of its own, which ends with the call: `always`, or `when-shared`, if the
   * questions of the server could be taken for those of another call in the session of the scope. What the
   * server keeps in that session is not there. @default never
   */
  readonly ownSession?: 'always' | 'when-shared' | undefined
}

/** How far a call is (2025-11-25, basic/utilities/progress). */
export interface Progress {
  /** How much is done, in a unit of the server's. Grows. */
  readonly progress: number
  /** How much there is to do, in the same unit, where that is known. */
  readonly total?: number | undefined
  /** For people. */
  readonly message?: string | undefined
}

/** What a client tells. Session ids are shortened. */
export interface McpClientEvents {
  state: { readonly from: string; readonly to: string; readonly reason: string }
  /** The server's state of the old session is gone, and nobody else will tell the graph. */
  sessionReplaced: {
    readonly oldEpoch: number
    readonly newEpoch: number
    readonly oldSessionId?: string | undefined
    readonly newSessionId?: string | undefined
    readonly reason: string
  }
  toolsChanged: {
    readonly added: readonly string[]
    readonly removed: readonly string[]
    readonly changed: readonly string[]
  }
  log: {
    readonly level: 'debug' | 'info' | 'warning'
    readonly message: string
    readonly cause?: unknown
  }
  exchange: ExchangeEvent
  /** The server said that its list of tools has changed; what did, `toolsChanged` tells once it is asked for. */
  toolListChanged: { readonly server: string }
  /** The list of prompts has changed; `server` as in `McpClientError`. */
  promptsChanged: { readonly server: string }
  /** The list of resources has changed. */
  resourcesChanged: { readonly server: string }
  /** A resource that was subscribed to has changed. */
  resourceUpdated: { readonly uri: string }
  /** A log message of the server. */
  serverLog: ServerLog
}

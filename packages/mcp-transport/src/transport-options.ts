import { check, LONGEST_MS } from '@x/internal'
import type { Check, Checks, TraceContext } from '@x/internal'
import type { Dispatcher } from 'undici'
import type { AuthProvider } from './auth/auth-provider.ts'
import type { HeadersOption } from './headers.ts'
import type { RequestId } from './json-rpc.ts'
import type { SessionInfo } from './session-info.ts'
import type { Era } from './session-record.ts'
import type { TransportErrorCode } from './transport-error.ts'

export interface StreamableHttpTransportOptions {
  /** Where the session is kept. @default a new `SessionInfo`, in memory */
  readonly sessionInfo?: SessionInfo | undefined
  /**
   * Name of the user or service that the credentials belong to: stable, never a token. A stored record of
   * another principal is not used. @default none
   */
  readonly principal?: string | undefined
  /**
   * Headers of every request; a function is called before each request. `mcp-*` and HTTP's own headers cannot
   * be changed. @default none
   */
  readonly headers?: HeadersOption | undefined
  /**
   * Provides tokens: `bearer()`, `clientCredentials()`, `loopbackOAuth()`, `deviceOAuth()` or `createAuthProvider()` of
   * `@x/mcp-transport/auth`, or a provider written for SDK v1 or v2. Called before every request; its token
   * replaces an `authorization` header. Transports that share a provider share its refreshes. @default none
   */
  readonly authProvider?: AuthProvider | undefined
  /**
   * Which revisions to try. `auto` sends `server/discover` first and falls back to `initialize`; `legacy-first`
   * does the opposite; `legacy` (2025-03-26 to 2025-11-25) and `modern` (2026-07-28) never fall back. The
   * session record stores the result. @default 'auto'
   */
  readonly era?: EraOption | undefined
  /**
   * Reaction to a refusal of the session by the server. `report`: the request fails with `SESSION_LOST`, and the
   * caller opens another session. `reinitialize`: the transport repeats the client's handshake once for all
   * affected requests, and sends once more what the server certainly did not execute. Choose it for an SDK
   * `Client` without `McpClient`. @default 'report'
   */
  readonly onSessionLost?: 'report' | 'reinitialize' | undefined
  /**
   * With `reinitialize`: called when a new session replaced a lost one, and the old server state is gone.
   * @default none
   */
  readonly onSessionReplaced?: ((event: SessionReplaced) => void) | undefined
  /**
   * Any undici dispatcher; not closed with the transport. @default createDispatcher(), closed with the
   * transport
   */
  readonly dispatcher?: Dispatcher | undefined
  /** Time limits for parts of an exchange. */
  readonly timeouts?: TimeoutOptions | undefined
  /** Size limits for data from the server. */
  readonly limits?: LimitOptions | undefined
  /** Delays before a broken stream is reopened. */
  readonly reconnect?: ReconnectOptions | undefined
  /**
   * Keeps a stream open for messages that the server sends without a request. `true`: for every session. `false`: never.
   * @default if such messages are possible. The server announces changes or log messages, or the client declares
   * elicitation, sampling or roots. Otherwise a session gets a stream with its first request for progress, a log level
   * or a subscription. A resumed session gets it after its first answer, unless the server may ask the client before
   */
  readonly listen?: boolean | undefined
  /** Called before every message. The returned trace is added to `_meta`. @default none */
  readonly traceContext?: (() => TraceContext | undefined) | undefined
  /**
   * Called at the end of each HTTP exchange. Read before each exchange: a getter that returns undefined avoids
   * the cost of events without a listener. @default none
   */
  readonly onExchange?: ((event: ExchangeEvent) => void) | undefined
}

/** A lost session was replaced. The state that the server kept in it is gone. */
export interface SessionReplaced {
  readonly oldEpoch: number
  readonly newEpoch: number
  /** Shortened. */
  readonly oldSessionId: string | undefined
  /** Shortened. */
  readonly newSessionId: string | undefined
}

/** One HTTP exchange that has ended. Contains no header values, no query and no complete session id. */
export interface ExchangeEvent {
  readonly httpMethod: 'POST' | 'GET' | 'DELETE'
  /** Endpoint without query. */
  readonly url: string
  /** JSON-RPC method of the request body, if there is one. */
  readonly rpcMethod: string | undefined
  readonly era: Era
  /** Shortened: first 4 characters and length. */
  readonly sessionId: string | undefined
  /** HTTP status, if there was a response. */
  readonly status: number | undefined
  /** Length of the request body; 0 without a body. */
  readonly requestBytes: number
  /** Number of bytes read from the response body. */
  readonly responseBytes: number
  /** Milliseconds from the dispatch to the last byte. */
  readonly ms: number
  /** 0 for the first attempt. Counts reopened streams and repeated requests. */
  readonly attempt: number
  /** Code of the failure, if there was no complete HTTP response. */
  readonly error: TransportErrorCode | undefined
}

/** See `StreamableHttpTransportOptions.era`. */
export type EraOption = 'auto' | 'legacy-first' | 'legacy' | 'modern'

/** All values in milliseconds. */
export interface TimeoutOptions {
  /** Opening a connection, including TLS. Only for the default dispatcher. @default 10_000 */
  readonly connectMs?: number | undefined
  /** From the request to the response head; 0 for no limit, because clients have their own. @default 0 */
  readonly headersMs?: number | undefined
  /** Time without data on a listening stream until it is reopened. @default 300_000 */
  readonly idleMs?: number | undefined
  /**
   * One request that detects the era, and each request of the handshake that replaces a lost session
   * (`onSessionLost: 'reinitialize'`). @default 10_000
   */
  readonly probeMs?: number | undefined
  /**
   * Time without data for a request, until the server is checked on another connection: by `ping`, or by
   * `server/discover` for servers of 2026-07-28. Two checks without a response end the request, each after this
   * time or 10 s. Its outcome is unknown if it was sent. 0 for no checks. @default 30_000
   */
  readonly silentMs?: number | undefined
}

/** All values in bytes. Larger data fails with `LIMIT`. */
export interface LimitOptions {
  /** One JSON response body. @default 16 MiB */
  readonly responseBytes?: number | undefined
  /** One event of a stream. The whole stream has no limit. @default 16 MiB */
  readonly eventBytes?: number | undefined
  /** Body text kept in an error; the rest is cut off. @default 2048 */
  readonly errorTextBytes?: number | undefined
}

/** For listening streams, and for response streams that can be resumed. */
export interface ReconnectOptions {
  /**
   * First delay before a broken stream is reopened, in milliseconds. Grows by half each time. At least 100, and
   * at least the server's `retry`. @default 1000
   */
  readonly firstMs?: number | undefined
  /**
   * Longest delay between two attempts, in milliseconds. @default 30_000
   */
  readonly maxMs?: number | undefined
  /**
   * Number of attempts without progress after which the stream of a call fails, and a broken listening stream is
   * reported. Attempts at a listening stream continue. 0 for no attempts. @default 2
   */
  readonly maxAttempts?: number | undefined
}

const timeoutChecks: Checks<TimeoutOptions> = {
  connectMs: check.number(),
  headersMs: check.number(),
  idleMs: check.number(),
  probeMs: check.number(),
  silentMs: check.number(),
}

const limitChecks: Checks<LimitOptions> = {
  responseBytes: check.number(1),
  eventBytes: check.number(1),
  errorTextBytes: check.number(),
}

const reconnectChecks: Checks<ReconnectOptions> = {
  firstMs: check.number(),
  maxMs: check.number(),
  maxAttempts: check.number(),
}

/** Accepts providers of any copy of this package, and of SDK v1 and v2. */
const authProviderCheck: Check = {
  ...check.or(check.methods('token'), check.methods('tokens', 'clientInformation')),
  takes: 'a provider, such as bearer(token)',
}

export const transportOptionChecks: Checks<StreamableHttpTransportOptions> = {
  sessionInfo: {
    ...check.methods('getSessionId', 'setSessionId', 'getRecord', 'setRecord'),
    takes: 'a SessionInfo',
  },
  principal: check.string,
  headers: check.or(check.record, check.func),
  authProvider: authProviderCheck,
  era: check.oneOf('auto', 'legacy-first', 'legacy', 'modern'),
  onSessionLost: check.oneOf('report', 'reinitialize'),
  onSessionReplaced: check.func,
  dispatcher: check.dispatcher,
  timeouts: check.section(timeoutChecks),
  limits: check.section(limitChecks),
  reconnect: check.section(reconnectChecks),
  listen: check.flag,
  traceContext: check.func,
  onExchange: check.func,
}

/** Advice for the options of the SDK's `StreamableHTTPClientTransport` and `SSEClientTransport`. */
export const sdkOptions: Readonly<Record<string, Check>> = {
  requestInit: check.foreign('Write the headers of "requestInit" as "headers"'),
  fetch: check.foreign(
    'Use "headers" for headers, "onExchange" to observe, and "dispatcher" for the connections',
  ),
  reconnectionOptions: check.foreign('Write it as reconnect: { firstMs, maxMs, maxAttempts }'),
  reconnectionScheduler: check.foreign('Use reconnect: { firstMs, maxMs, maxAttempts }'),
  sessionId: check.foreign('Write it as sessionInfo: new SessionInfo(sessionId)'),
  protocolVersion: check.foreign('It is stored with the session: use "sessionInfo"'),
  eventSourceInit: check.foreign(
    'Write headers as "headers". HTTP+SSE of 2024-11-05 is not supported',
  ),
}

export type Timeouts = Resolved<TimeoutOptions>
export type Limits = Resolved<LimitOptions>
export type Reconnect = Resolved<ReconnectOptions>

type Resolved<Options> = { readonly [Key in keyof Options]-?: Exclude<Options[Key], undefined> }

const MIB = 1024 * 1024

const TIMEOUTS: Timeouts = {
  connectMs: 10_000,
  headersMs: 0,
  idleMs: 300_000,
  probeMs: 10_000,
  silentMs: 30_000,
}
const LIMITS: Limits = { responseBytes: 16 * MIB, eventBytes: 16 * MIB, errorTextBytes: 2048 }
const RECONNECT: Reconnect = { firstMs: 1000, maxMs: 30_000, maxAttempts: 2 }

export function resolveTimeouts(given?: TimeoutOptions): Timeouts {
  const times =
    given && Object.entries(given).map(([name, ms]) => [name, ms && Math.min(ms, LONGEST_MS)])
  return withDefaults<TimeoutOptions>(TIMEOUTS, times && Object.fromEntries(times))
}
export const resolveLimits = (given?: LimitOptions): Limits => withDefaults(LIMITS, given)
export const resolveReconnect = (given?: ReconnectOptions): Reconnect =>
  withDefaults(RECONNECT, given)

/** An option with the value `undefined` has its default, like one that is absent. */
function withDefaults<Options extends object>(
  defaults: Resolved<Options>,
  given: Options | undefined,
): Resolved<Options> {
  if (given === undefined) return defaults // shared by all transports
  const set = Object.entries(given).filter(([, value]) => value !== undefined)
  return { ...defaults, ...Object.fromEntries(set) }
}

/** Options of a request whose response stream can be resumed, on servers with sessions. */
export interface ResumptionOptions {
  /** Resumes the stream of an earlier request at this event id, instead of sending the request. */
  readonly resumptionToken?: string | undefined
  /** Called with every event id of the response stream. */
  readonly onresumptiontoken?: ((token: string) => void) | undefined
}

/** Options of `send()`. All apply to requests only; `relatedRequestId` is ignored. */
export interface SendOptions extends ResumptionOptions {
  readonly relatedRequestId?: RequestId | undefined
  /** Aborting it closes the stream of this request, which cancels it (2026-07-28). Used by SDK v2. */
  readonly requestSignal?: AbortSignal | undefined
  /** Called when the stream of this request ends for another reason. Used by SDK v2. */
  readonly onRequestStreamEnd?: (() => void) | undefined
  /** Additional `Mcp-Param-*` headers of this request; others are ignored. Used by SDK v2. */
  readonly headers?: Readonly<Record<string, string>> | undefined
}

import { check } from '@x/internal'
import type { Check, Checks } from '@x/internal'
import type { Dispatcher } from 'undici'
import type { AuthProvider } from './auth/auth-provider.ts'
import type { ExchangeEvent, SessionReplaced } from './diagnostics.ts'
import type { HeadersOption } from './headers.ts'
import type { TraceContext, RequestId } from './json-rpc.ts'
import type { SessionInfo } from './session-info.ts'

export interface StreamableHttpTransportOptions {
  /** Where the session is kept. @default a new `SessionInfo`, in memory */
  readonly sessionInfo?: SessionInfo | undefined
  /**
   * Whoever the credentials speak for: a stable name, never a token. A stored record of another
   * principal is not used. @default none
   */
  readonly principal?: string | undefined
  /**
   * Added to every request; a function is asked before each one. `mcp-*` and what HTTP needs stay ours.
   * @default none
   */
  readonly headers?: HeadersOption | undefined
  /**
   * Where tokens come from: `bearer()`, `clientCredentials()`, `loopbackOAuth()` or `createAuthProvider()`
   * of `@x/mcp-transport/auth`, or a provider written for SDK v1 or v2. Asked before every request; its
   * token takes the place of an `authorization` header. Transports that share one share its refreshes.
   * @default none
   */
  readonly authProvider?: AuthProvider | undefined
  /**
   * Which revisions to speak, and which to try first: `auto` asks the server with `server/discover`, and
   * falls back to `initialize`; `legacy-first` the other way round; `legacy` (2025-03-26 … 2025-11-25)
   * and `modern` (2026-07-28) never fall back. The verdict is kept in the session record. @default 'auto'
   */
  readonly era?: EraOption | undefined
  /**
   * What happens when the server refuses the session. `report`: the request fails with `SESSION_LOST`,
   * and whoever is above opens another one. `reinitialize`: the client's own handshake is repeated here,
   * once for all requests that met the loss, and what the server certainly refused is sent again once.
   * Choose it where there is nothing above, such as the SDK's `Client` by itself. @default 'report'
   */
  readonly onSessionLost?: 'report' | 'reinitialize' | undefined
  /** With `reinitialize`: told that the server's state of the old session is gone. @default none */
  readonly onSessionReplaced?: ((event: SessionReplaced) => void) | undefined
  /** Any undici dispatcher; it is not closed with the transport. @default createDispatcher(), closed with it */
  readonly dispatcher?: Dispatcher | undefined
  /** Limits for parts of one exchange. */
  readonly timeouts?: TimeoutOptions | undefined
  /** How much a server may send. */
  readonly limits?: LimitOptions | undefined
  /** How a broken stream is opened again. */
  readonly reconnect?: ReconnectOptions | undefined
  /** Whether to keep a listening stream (GET) open for what the server sends on its own. @default true */
  readonly listen?: boolean | undefined
  /**
   * Asked before every message: the caller's place in a trace, which goes into `_meta`.
   * @default none
   */
  readonly traceContext?: (() => TraceContext | undefined) | undefined
  /**
   * Told once per HTTP exchange, when it has ended. Looked up for each one: a getter that gives none while
   * nobody listens spares the events. @default none
   */
  readonly onExchange?: ((event: ExchangeEvent) => void) | undefined
}

/** See `StreamableHttpTransportOptions.era`. */
export type EraOption = 'auto' | 'legacy-first' | 'legacy' | 'modern'

/** In milliseconds. */
export interface TimeoutOptions {
  /** Opening a connection, TLS included. For the default dispatcher only. @default 10_000 */
  readonly connectMs?: number | undefined
  /** From the request to the response head; 0 for none, because the client above has its own. @default 0 */
  readonly headersMs?: number | undefined
  /** Silence on a listening stream, after which it is opened again. @default 300_000 */
  readonly idleMs?: number | undefined
  /**
   * One request that finds out the era of a server, and each request of the handshake that replaces a lost session
   * (`onSessionLost: 'reinitialize'`). @default 10_000
   */
  readonly probeMs?: number | undefined
  /**
   * Silence of a request, after which the server is checked by a cheap request on another connection: `ping`, or
   * `server/discover` for servers of 2026-07-28. Two checks without any response end the request; its outcome is
   * unknown. 0 for no checks. @default 30_000
   */
  readonly silentMs?: number | undefined
  /** One such check. @default 10_000 */
  readonly checkMs?: number | undefined
}

/** In bytes. What is larger fails with `LIMIT`. */
export interface LimitOptions {
  /** One JSON body. @default 16 MiB */
  readonly responseBytes?: number | undefined
  /** One event of a stream; the stream itself has no limit. @default 16 MiB */
  readonly eventBytes?: number | undefined
  /** Body text that is kept in an error; the rest is cut off. @default 2048 */
  readonly errorTextBytes?: number | undefined
}

/** Of a listening stream, and of an answer's stream that can be resumed. */
export interface ReconnectOptions {
  /**
   * First delay before a broken stream is opened again, in milliseconds; grows by half each time. Never less
   * than 100, and the server's own `retry` comes first. @default 1000
   */
  readonly firstMs?: number | undefined
  /**
   * Longest delay of a quick attempt, in milliseconds. Slow attempts at a listening stream begin with it, and
   * their delays grow to 5 minutes. @default 30_000
   */
  readonly maxMs?: number | undefined
  /**
   * Quick attempts in a row that brought nothing. After them, the stream of a call is given up, and a listening
   * stream is opened slowly. 0 for no attempts at all. @default 2
   */
  readonly maxAttempts?: number | undefined
}

const timeoutChecks: Checks<TimeoutOptions> = {
  connectMs: check.number(),
  headersMs: check.number(),
  idleMs: check.number(),
  probeMs: check.number(),
  silentMs: check.number(),
  checkMs: check.number(1),
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

/** Providers written for any copy of this package, or for SDK v1 and v2. */
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

export type Timeouts = Resolved<TimeoutOptions>
export type Limits = Resolved<LimitOptions>
export type Reconnect = Resolved<ReconnectOptions>

type Resolved<Options> = { readonly [Key in keyof Options]-?: Exclude<Options[Key], undefined> }

const MIB = 1024 * 1024

// One for all transports that are told nothing else.
const TIMEOUTS = resolveTimeouts({})
const LIMITS = resolveLimits({})
const RECONNECT = resolveReconnect({})

export function resolveTimeouts(options?: TimeoutOptions): Timeouts {
  if (options === undefined) return TIMEOUTS
  const { connectMs = 10_000, headersMs = 0, idleMs = 300_000, probeMs = 10_000 } = options
  const { silentMs = 30_000, checkMs = 10_000 } = options
  return { connectMs, headersMs, idleMs, probeMs, silentMs, checkMs }
}

export function resolveLimits(options?: LimitOptions): Limits {
  if (options === undefined) return LIMITS
  const { responseBytes = 16 * MIB, eventBytes = 16 * MIB, errorTextBytes = 2048 } = options
  return { responseBytes, eventBytes, errorTextBytes }
}

export function resolveReconnect(options?: ReconnectOptions): Reconnect {
  if (options === undefined) return RECONNECT
  const { firstMs = 1000, maxMs = 30_000, maxAttempts = 2 } = options
  return { firstMs, maxMs, maxAttempts }
}

/** What a client may say of one request, whatever the server is. */
export interface CallOptions {
  /** Resumes the stream of an earlier request at this event id, instead of sending the request. */
  readonly resumptionToken?: string | undefined
  /** Told every event id of the stream that answers the request. */
  readonly onresumptiontoken?: ((token: string) => void) | undefined
}

/** What a client says that speaks the stateless revision by itself, as that of SDK v2 can. */
export interface PassthroughOptions extends CallOptions {
  /** Aborting it closes the stream of this request, which is how 2026-07-28 cancels. Used by SDK v2. */
  readonly requestSignal?: AbortSignal | undefined
  /** Called when the stream of this request ends otherwise. Used by SDK v2. */
  readonly onRequestStreamEnd?: (() => void) | undefined
  /** Further `Mcp-Param-*` headers of this request; others are left out. Used by SDK v2. */
  readonly headers?: Readonly<Record<string, string>> | undefined
}

/** Said with one message. All but `relatedRequestId`, which is not needed here, is about requests. */
export interface SendOptions extends PassthroughOptions {
  readonly relatedRequestId?: RequestId | undefined
}

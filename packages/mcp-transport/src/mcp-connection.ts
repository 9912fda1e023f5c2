import { AsyncResource } from 'node:async_hooks'
import {
  abortReason,
  FailureStreak,
  shortSessionId,
  untilAborted,
  within,
  withTraceContext,
} from '@x/internal'
import type { Attempt, Call, CallOptions, MessageHandlers } from './calls/call.ts'
import { OpenCalls } from './calls/open-calls.ts'
import type { CallRecovery } from './calls/open-calls.ts'
import type { AuthorizationCallback } from './auth/auth-provider.ts'
import type { ConnectionParts } from './calls/connection-parts.ts'
import { negotiate } from './era/negotiation.ts'
import type { Negotiated, Opening } from './era/negotiation.ts'
import { HttpClient } from './http/http-client.ts'
import type { Answer, InputRequest, JsonRpcNotification, JsonRpcRequest } from './json-rpc.ts'
import { LegacyAttempt } from './legacy/legacy-attempt.ts'
import { LegacyServer } from './legacy/legacy-server.ts'
import type { OpenOptions } from './legacy/session-opener.ts'
import { ModernAttempt } from './modern/modern-attempt.ts'
import { toIdentity } from './modern/modern-post.ts'
import { ModernServer } from './modern/modern-server.ts'
import { parseServerUrl } from './server-url.ts'
import type { ServerUrl } from './server-url.ts'
import type { SessionInfo } from './session-info.ts'
import { SessionKeeper } from './session-keeper.ts'
import { toInitializeResult } from './session-record.ts'
import type { Era } from './session-record.ts'
import { SessionSettings } from './session-settings.ts'
import { refusedSessionError, TransportError } from './transport-error.ts'
import { resolveLimits, resolveReconnect, resolveTimeouts } from './transport-options.ts'
import type { StreamableHttpTransportOptions } from './transport-options.ts'

const SENT = Promise.resolve()
/** A session that is lost while its settings are restored is replaced. After so many, the next one gets no settings. */
const MAX_SETTINGS_LOSSES = 2

/** What a connection needs of the code that uses it. The handlers take what belongs to no call. */
export interface ConnectionOwner extends MessageHandlers {
  /** Where the session is kept. */
  readonly sessionInfo: SessionInfo
  /** Called with each failure that belongs to no message. */
  readonly onError: (error: Error) => void
}

/**
 * A connection to the MCP server at one URL, of any revision, and its session. It stays the same while sessions are lost
 * and replaced, and while the server changes its revision. A request that the server may have executed is never sent
 * again.
 *
 * Used once: from `open()` to `close()`.
 *
 * @example
 * ```ts
 * import { McpConnection, SessionInfo } from '@x/mcp-transport'
 *
 * await using connection = new McpConnection('https://shop.example/mcp', {}, {
 *   sessionInfo: new SessionInfo(),
 *   onNotification: ({ method }) => console.log(method),
 *   onServerRequest: ({ respond }) => void respond({ error: { code: -32601, message: 'No' } }),
 *   onError: console.error,
 * })
 * const clientInfo = { name: 'app', version: '1.0.0' }
 * await connection.open({ protocolVersion: '2025-11-25', capabilities: {}, clientInfo })
 * await connection.notify({ jsonrpc: '2.0', method: 'notifications/initialized' })
 * const request = { method: 'tools/list' }
 * await connection.send(connection.createCall(request, {}, (outcome) => console.log(outcome)))
 * ```
 */
export class McpConnection implements AsyncDisposable {
  readonly #url: ServerUrl
  readonly #options: StreamableHttpTransportOptions
  readonly #parts: ConnectionParts
  readonly #legacy: LegacyServer
  readonly #streak = new FailureStreak()
  /** Set while the server is a modern one. */
  #modern: ModernServer | undefined
  /** The client's last `initialize`. After it, the connection chooses the revision. */
  #request: JsonRpcRequest | undefined
  #opening: AbortController | undefined
  #replacing: Promise<void> | undefined
  /** Ends the replacement in progress. */
  #replacement: AbortController | undefined
  #settings = new SessionSettings()
  /** False if the end of a replacement may have left a session open without the settings of the client. */
  #isRestored = true
  #testing: Promise<void> | undefined
  /** Revision of a client that speaks the stateless one itself; undefined before its first request. */
  #forwardedVersion: string | undefined
  readonly #closing = new AbortController()
  #closed: Promise<void> | undefined

  /** @throws TypeError for an invalid URL, option or header */
  constructor(
    url: string | URL,
    options: StreamableHttpTransportOptions,
    { sessionInfo: info, onNotification, onServerRequest, onError }: ConnectionOwner,
  ) {
    this.#url = parseServerUrl(url)
    this.#options = options
    const { principal, listen, onSessionLost = 'report' } = options
    const timeouts = resolveTimeouts(options.timeouts)
    const serverUrl = this.#url.identity
    const http = this.#createHttp()
    const report = (error: Error): void => {
      if (this.#closed === undefined) onError(error)
    }
    const recovery = onSessionLost === 'reinitialize' ? this.#recovery() : undefined
    this.#parts = {
      http,
      keeper: new SessionKeeper({ info, serverUrl, principal, report }),
      calls: new OpenCalls({ http, timeouts, recovery }),
      timeouts,
      reconnect: resolveReconnect(options.reconnect),
      listen,
      onNotification,
      onServerRequest,
      report,
      guard: (callback) => {
        try {
          callback()
        } catch (error) {
          report(error instanceof Error ? error : new Error(String(error)))
        }
      },
    }
    http.owner = new AsyncResource('McpConnection')
    this.#legacy = new LegacyServer(this.#parts)
  }

  /** Identity of the endpoint, as in `SessionRecord.serverUrl`. */
  get endpoint(): string {
    return this.#url.identity
  }

  /** Id of the live session. Undefined before one is open, after it is lost, and without sessions. */
  get sessionId(): string | undefined {
    const { session } = this.#legacy
    return session?.isLive === true ? session.id : undefined
  }

  /** Era of the server, once it is known. */
  get era(): Era | undefined {
    if (this.#modernVersion !== undefined) return 'modern'
    return this.#legacy.session === undefined ? undefined : 'legacy'
  }

  /** Negotiated revision of the protocol. */
  get protocolVersion(): string | undefined {
    return this.#modernVersion ?? this.#legacy.session?.protocolVersion
  }

  /** Reason why a request may have no answer yet: the user has not signed in. */
  get evidence(): TransportError | undefined {
    return this.#parts.http.authorizer?.evidence
  }

  /** Number of the live session (`SessionRecord.epoch`). */
  get epoch(): number | undefined {
    return this.#modernVersion === undefined
      ? this.#legacy.session?.epoch
      : this.#parts.keeper.record?.epoch
  }

  /** True if the session, or the stateless server, is known from the store, without a request. */
  get isResumed(): boolean {
    return this.#modern?.known.isResumed ?? this.#legacy.session?.isResumed ?? false
  }

  /** Capabilities of the server, from its last answer to `initialize` or `server/discover`. */
  get serverCapabilities(): Readonly<Record<string, unknown>> | undefined {
    const { discoverResult, initializeResult } = this.#parts.keeper.record ?? {}
    return (this.#modern === undefined ? initializeResult : discoverResult)?.capabilities
  }

  /** The stateless revision in use, by the connection or by its client. Undefined for other servers. */
  get #modernVersion(): string | undefined {
    if (this.#modern !== undefined) return this.#modern.identity.protocolVersion
    return this.#request === undefined ? this.#forwardedVersion : undefined
  }

  // Opening.

  /**
   * Reads the stored session. Sends nothing. Requests that belong to no call, such as the DELETE that terminates the
   * session, are sent in the async context of this call; without it, in that of the constructor.
   */
  load(): Promise<void> {
    this.#parts.http.owner = new AsyncResource('McpConnection')
    return this.#legacy.load()
  }

  /**
   * Opens a session, or takes the stored one, and detects the era of the server for that. Resolves with the answer to
   * `initialize`: an error of the server, or its description. Undefined if `signal` aborted, or if the client called
   * `open()` again.
   *
   * @param params Those of `initialize`
   * @throws TransportError if the server sends no answer
   */
  async open(
    params: InputRequest['params'],
    { signal }: { readonly signal?: AbortSignal | undefined } = {},
  ): Promise<Answer | undefined> {
    const initialize: JsonRpcRequest = { jsonrpc: '2.0', id: 0, method: 'initialize', params }
    const request = withTraceContext(initialize, this.#options.traceContext)
    this.#request = request
    this.#settings = new SessionSettings()
    this.#opening?.abort()
    const opening = (this.#opening = new AbortController())
    const either = signal === undefined ? opening.signal : AbortSignal.any([signal, opening.signal])
    // The client starts again: its earlier calls to a stateless server end.
    const before = this.#modern
    this.#modern = undefined
    this.#parts.calls.failAll(
      'The client sent initialize again',
      ({ attempt }) => attempt instanceof ModernAttempt && attempt.server !== undefined,
    )
    before?.close()
    await this.#legacy.load()
    const isTakenForLegacy = this.#forwardedVersion !== undefined
    const asked = {
      request,
      signal: either,
      repetition: undefined,
      isTakenForLegacy,
    } as const
    const opened = await this.#negotiate(asked)
    if (either.aborted) return undefined
    this.#opening = undefined
    if (opened?.kind !== 'failed') return opened && { result: opened.result }
    if (TransportError.is(opened.error)) throw opened.error
    return { error: opened.error }
  }

  /** Negotiates, and uses the server from then on. */
  async #negotiate(
    asked: Omit<Opening, 'era'>,
  ): Promise<Extract<Negotiated, { kind: 'opened' | 'failed' }> | undefined> {
    const { era = 'auto' } = this.#options
    const negotiated = await negotiate(this.#parts, this.#legacy, { ...asked, era })
    if (negotiated.kind === 'cancelled') return undefined
    if (negotiated.kind !== 'modern') return negotiated
    const { request } = asked
    const { version, ...known } = negotiated
    this.#modern = new ModernServer(this.#parts, known, toIdentity(request, version))
    const given = request.params?.['protocolVersion']
    const result = toInitializeResult(known.discovered, {
      protocolVersion: typeof given === 'string' ? given : '2025-11-25',
      host: new URL(this.#url.display).host,
    })
    return { kind: 'opened', result }
  }

  // Calls.

  /** Creates a call, which is not sent yet. */
  createCall(request: InputRequest, options: CallOptions, onSettled: Call['onSettled']): Call {
    const watched = this.#settings.watch(request, onSettled)
    const traced = withTraceContext(request, this.#options.traceContext)
    return this.#parts.calls.open({ request: traced, options, onSettled: watched })
  }

  /** Sends a call to the server as it is now. Resolves when it is on its way; the call gets its outcome later. */
  send(call: Call): Promise<void> {
    if (this.#closed !== undefined) {
      const error = this.closedError('The connection is closed', 'not-executed')
      this.#parts.calls.fail(call, error)
      return SENT
    }
    if (this.#modern === undefined) return this.#legacy.start(call) ?? SENT
    this.#modern.start(call)
    return SENT
  }

  /**
   * Sends the request of a client that speaks the stateless revision itself.
   *
   * @param headers Additional `Mcp-Param-*` headers
   */
  forward(
    call: Call,
    request: JsonRpcRequest,
    sent: {
      readonly version: string
      readonly headers: Readonly<Record<string, string>> | undefined
    },
  ): void {
    this.#forwardedVersion = sent.version
    const attempt = new ModernAttempt(this.#parts, call)
    call.attempt = attempt
    attempt.settle(attempt.forward(request, sent.headers ?? {}))
  }

  /** Removes a call that was not sent, and is then never sent. Returns false if the server may have received it. */
  withdraw(call: Call): boolean {
    if (call.isSent || !this.#parts.calls.has(call)) return false
    this.#parts.calls.drop(call)
    return true
  }

  /**
   * Ends a call without an outcome, and tells the server if it may have received it. Returns when the server has taken
   * that.
   *
   * @param params Parameters of the notification, such as the `reason`
   * @throws TransportError if it did not
   */
  async cancel(call: Call, params: Readonly<Record<string, unknown>> = {}): Promise<void> {
    const { calls } = this.#parts
    if (this.withdraw(call) || !calls.has(call)) return
    const { attempt } = call
    if (!(attempt instanceof LegacyAttempt)) return calls.drop(call)
    calls.remove(call)
    await this.#legacy.cancel(call, attempt, params)
  }

  /**
   * Sends a notification. A stateless server gets none: `notifications/initialized` then starts the subscription.
   *
   * @throws TransportError if it was not accepted
   */
  async notify(notification: JsonRpcNotification): Promise<void> {
    if (this.#modernVersion === undefined) {
      return this.#legacy.notify(withTraceContext(notification, this.#options.traceContext))
    }
    if (notification.method === 'notifications/initialized') this.#modern?.initialized()
  }

  /** Has the client answer requests that a server embedded in a task. @throws TransportError */
  async answersTo(
    requests: Readonly<Record<string, InputRequest>>,
    {
      signal,
      onServerRequest = this.#parts.onServerRequest,
    }: {
      readonly signal: AbortSignal
      readonly onServerRequest?: MessageHandlers['onServerRequest'] | undefined
    },
  ): Promise<Readonly<Record<string, unknown>>> {
    if (this.#modern === undefined) throw this.#parts.http.closed('The server has no tasks now')
    return this.#modern.answersTo(requests, signal, onServerRequest)
  }

  /** Converts the result of a tool inside a task as the result of a call. */
  toToolResult(
    tool: string,
    result: Readonly<Record<string, unknown>>,
  ): Readonly<Record<string, unknown>> {
    const request = { method: 'tools/call', params: { name: tool } }
    return this.#modern?.tools.bridge(request, result) ?? result
  }

  // Replacing a session, or the era.

  /**
   * Replaces the session with this number (`epoch`), with the `initialize` of the client. Sends no request of the client
   * again. Does nothing if the session has been replaced. A session that is not lost stays open until its last call has
   * ended. Requests that belong to no call are sent in the async context of this call from now on.
   *
   * The other session gets the log level and the subscriptions of the client. A failure of that is reported.
   *
   * @param isFresh The session fails in a way that does not show whether it is lost. Starts from nothing, era included,
   * and keeps the session until another one is open.
   * @throws TransportError if no session could be opened, also because `signal` aborted
   */
  async replaceSession(
    epoch: number | undefined,
    signal: AbortSignal,
    isFresh = false,
  ): Promise<void> {
    const { session } = this.#legacy
    const isLive = this.#modernVersion !== undefined || session?.isLive !== false
    if (this.epoch !== epoch && isLive && this.#isRestored) return
    this.#parts.http.owner = new AsyncResource('McpConnection')
    await this.#replace(this.#modern ?? session, signal, isFresh)
  }

  #recovery(): CallRecovery {
    return {
      replace: (attempt) =>
        this.#replace(attempt instanceof ModernAttempt ? attempt.server : attempt.session),
      sendAgain: (call) => this.send(call),
      streak: this.#streak,
      test: () => this.#test(),
    }
  }

  #test(): Promise<void> {
    return (this.#testing ??= this.#parts.http
      .asOwner(() => this.#testServer())
      .finally(() => {
        this.#testing = undefined
      }))
  }

  async #testServer(): Promise<void> {
    const { signal } = this.#closing
    try {
      const isProven = await (this.#modern ?? this.#legacy).isProven(signal)
      if (!isProven) await this.#replace(this.#modern ?? this.#legacy.session, signal, true)
      this.#streak.end()
    } catch {
      // The next failure leads here again.
    }
  }

  /**
   * Replaces a lost session, or a server that has lost its era: repeats the handshake of the client, once for all calls
   * that were refused. With `isFresh`, starts from nothing, and keeps what is known of the server until that succeeds.
   *
   * @param signal Set if the caller limits the handshake
   * @throws TransportError if no session could be opened
   */
  #replace(
    lost: Attempt['session'] | ModernServer,
    signal?: AbortSignal,
    isFresh = false,
  ): Promise<void> {
    const isOver = this.#replacing === undefined && (this.#modern ?? this.#legacy.session) !== lost
    if (isOver) return Promise.resolve() // already replaced
    return (this.#replacing ??= this.#parts.http
      .asOwner(() => this.#negotiateAgain(signal, isFresh))
      .finally(() => {
        this.#replacing = undefined
      }))
  }

  async #negotiateAgain(outer: AbortSignal | undefined, isFresh: boolean): Promise<void> {
    const { keeper, http, timeouts, guard, report } = this.#parts
    const oldEpoch = this.epoch ?? 0
    const oldId = this.#modern === undefined ? this.#legacy.session?.id : undefined
    const request = this.#request
    if (request === undefined) {
      const message = 'The session cannot be replaced: the client sent no initialize'
      throw http.error('SESSION_LOST', message, { certain: true, epoch: oldEpoch })
    }
    const { signal: own } = (this.#replacement = new AbortController())
    const signal = outer === undefined ? own : AbortSignal.any([own, outer])
    const limitMs = outer === undefined || isFresh ? timeouts.probeMs : undefined
    await this.#openNext(request, { signal, limitMs, isFresh })
    this.#isRestored = false
    for (let losses = 1; ; losses++) {
      const failure = await this.#settings.restore((one) => this.#repeat(one, signal, limitMs))
      if (own.aborted) throw abortReason(own)
      const isLoss = failure?.code === 'SESSION_LOST'
      if (isLoss) await this.#openNext(request, { signal, limitMs, isFresh: false })
      if (isLoss && losses < MAX_SETTINGS_LOSSES) continue
      if (failure !== undefined) report(failure)
      this.#isRestored = failure === undefined || !signal.aborted
      break
    }
    const { onSessionLost, onSessionReplaced } = this.#options
    if (onSessionLost !== 'reinitialize') return
    const now = this.#modern === undefined ? this.#legacy.session : undefined
    const event = {
      oldEpoch,
      newEpoch: now?.epoch ?? keeper.record?.epoch ?? 0,
      oldSessionId: oldId && shortSessionId(oldId),
      newSessionId: now?.id && shortSessionId(now.id),
    }
    guard(() => onSessionReplaced?.(event))
  }

  /** Opens the next session, or takes the server as a modern one. @throws TransportError */
  async #openNext(
    request: JsonRpcRequest,
    { signal, limitMs, isFresh }: Omit<OpenOptions, 'isReplacement'>,
  ): Promise<void> {
    const { http } = this.#parts
    const before = this.#modern
    const session = before === undefined ? this.#legacy.session : undefined
    if (session?.state.kind === 'ended') await session.state.removed // before the store is read
    await this.#legacy.load(true)
    const isReplacement = !isFresh && session?.isLive === false
    const repetition = { limitMs, isReplacement, isFresh }
    const opened = await this.#negotiate({ request, signal, repetition, isTakenForLegacy: false })
    if (opened === undefined) {
      this.#isRestored = false // the server may have opened the session
      const { reason: cause } = signal
      if (TransportError.is(cause)) throw cause
      throw http.error('CLOSED', 'The session was not replaced in time', { cause })
    }
    if (opened.kind === 'failed') throw refusedSessionError(opened.error, http.url.display)
    if (this.#modern === before) this.#modern = undefined
    const now = this.#modern === undefined ? this.#legacy.session : undefined
    if (session !== undefined && session !== now) this.#legacy.retire(session, isFresh)
    before?.stopListening()
    this.#modern?.initialized()
  }

  /** Sends a request of the client in the next session. Its outcome is a failure if `signal` aborts. */
  async #repeat(
    request: InputRequest,
    signal: AbortSignal,
    limitMs: number = Infinity,
  ): Promise<Answer | TransportError> {
    const { http } = this.#parts
    const { promise, resolve } = Promise.withResolvers<Answer | TransportError>()
    const call = this.#parts.calls.open({
      request: withTraceContext(request, this.#options.traceContext),
      options: { endsWithSession: true },
      onSettled: resolve,
    })
    void this.send(call)
    const onLate = (): TransportError => http.error('TIMEOUT', 'The server did not answer in time')
    try {
      return await within(untilAborted(promise, signal), limitMs, onLate)
    } catch {
      return http.closed('The session was not replaced in time')
    } finally {
      void this.cancel(call).catch(() => {}) // does nothing if the call has its answer
    }
  }

  // The end.

  /**
   * Terminates the session on the server (DELETE) and forgets it. Calls in flight fail with `CLOSED`. Does nothing
   * without a session. Takes at most 1 s.
   *
   * @throws TransportError if the session may still exist on the server
   */
  async terminate(): Promise<void> {
    this.#replacement?.abort(this.closedError('The session was terminated'))
    await this.#replacing?.catch(() => {}) // it may have opened a session
    // A stored session is not used while the server is a modern one.
    const hasSession = this.#modern === undefined || this.#legacy.session !== undefined
    if (hasSession) await this.#legacy.terminate()
    else this.#parts.calls.failAll('The session was terminated')
  }

  /**
   * Completes an authorization after the user was redirected: saves the tokens. The connection may be closed.
   *
   * @throws AuthError if no tokens were obtained
   * @throws TypeError without an `authProvider`, or for a callback without a code and without an error
   */
  async finishAuth(callback: AuthorizationCallback): Promise<void> {
    const http = this.#createHttp() // a separate client, because the connection may be closed
    try {
      if (http.authorizer === undefined) {
        throw new TypeError('finishAuth() needs the option authProvider')
      }
      await http.authorizer.finish(callback)
    } finally {
      await http.close()
    }
  }

  /** Ends all calls in flight before it returns, and keeps the session. Idempotent. */
  close(): Promise<void> {
    return (this.#closed ??= this.#close())
  }

  async #close(): Promise<void> {
    this.#opening?.abort()
    this.#replacement?.abort(this.closedError('The transport was closed'))
    this.#closing.abort()
    this.#parts.calls.close('The transport was closed')
    this.#modern?.close()
    await this.#legacy.close()
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close()
  }

  /** Error of a request that this side ended. */
  closedError(why: string, outcome: TransportError['outcome'] = 'unknown'): TransportError {
    return this.#parts.http.closed(why, outcome)
  }

  #createHttp(): HttpClient {
    const { headers = {}, authProvider, dispatcher, timeouts, limits } = this.#options
    return new HttpClient({
      url: this.#url,
      dispatcher,
      connectMs: resolveTimeouts(timeouts).connectMs,
      headers,
      authProvider,
      limits: resolveLimits(limits),
      observer: this.#options,
    })
  }
}

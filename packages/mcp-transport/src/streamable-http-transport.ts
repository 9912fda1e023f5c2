import { AsyncResource } from 'node:async_hooks'
import { assertOptions } from '@x/internal'
import type { AuthorizationCallback } from './auth/auth-provider.ts'
import { EraRouter } from './era/era-router.ts'
import { HttpClient } from './http/http-client.ts'
import { withTraceContext } from './json-rpc.ts'
import type { InputRequest, JsonRpcMessage, RequestId } from './json-rpc.ts'
import { parseServerUrl } from './server-url.ts'
import type { ServerUrl } from './server-url.ts'
import { SessionInfo } from './session-info.ts'
import { SessionKeeper } from './session-keeper.ts'
import type { Era } from './session-record.ts'
import type { TransportError } from './transport-error.ts'
import {
  resolveLimits,
  resolveReconnect,
  resolveTimeouts,
  transportOptionChecks,
} from './transport-options.ts'
import type {
  SendOptions,
  SessionReplaced,
  StreamableHttpTransportOptions,
} from './transport-options.ts'

/**
 * Client side of MCP's Streamable HTTP transport. Replaces the stock transport under the `Client` of the
 * TypeScript SDK.
 *
 * Stores the session in `sessionInfo`, and resumes a stored one: then `initialize` is answered from the record
 * without a request. A failed request is answered with a JSON-RPC error whose `data` is a `TransportError`. A
 * request that the server may have executed is never sent again.
 */
export class StreamableHttpTransport implements AsyncDisposable {
  onclose?: (() => void) | undefined
  onerror?: ((error: Error) => void) | undefined
  onmessage?: ((message: JsonRpcMessage) => void) | undefined
  /** Tells SDK v2 that each request has its own response stream, which the client may close. */
  readonly hasPerRequestStream: boolean = true

  readonly #url: ServerUrl
  readonly #options: StreamableHttpTransportOptions
  readonly #sessionInfo: SessionInfo
  #phase: 'new' | 'started' | 'closed' = 'new'
  /** Replaced by each `start()` after a `close()`. Events of an earlier one are dropped. */
  #router: EraRouter
  #closing: Promise<void> | undefined
  #terminating: Promise<void> | undefined

  /** @throws TypeError for an invalid URL, option or header. */
  constructor(url: string | URL, options: StreamableHttpTransportOptions = {}) {
    assertOptions('StreamableHttpTransport', options, transportOptionChecks)
    this.#url = parseServerUrl(url)
    this.#options = options
    this.#sessionInfo = options.sessionInfo ?? new SessionInfo()
    this.#router = this.#makeRouter()
  }

  /**
   * Id of the live session. Undefined before `initialize` is answered, even if a session is stored: an SDK
   * client that finds an id here skips its handshake and does not learn the capabilities. Undefined after the
   * session is lost or terminated.
   */
  get sessionId(): string | undefined {
    const { session } = this.#router.legacy
    return session?.lost === undefined ? session?.id : undefined
  }

  /** Era of the server, once it is known. */
  get era(): Era | undefined {
    if (this.#router.modernVersion !== undefined) return 'modern'
    return this.#router.legacy.session === undefined ? undefined : 'legacy'
  }

  /** Negotiated revision of the protocol. */
  get protocolVersion(): string | undefined {
    const { legacy, modernVersion } = this.#router
    return modernVersion ?? legacy.session?.protocolVersion
  }

  /** Generation of the live session (`SessionRecord.epoch`). */
  get epoch(): number | undefined {
    const { keeper, legacy, modernVersion } = this.#router
    return modernVersion === undefined ? legacy.session?.epoch : keeper.record?.epoch
  }

  /** True if another transport, in this or another process, opened the live session. */
  get isResumed(): boolean {
    return this.#router.isResumed
  }

  /**
   * Reads the stored session. Opens no connection. May be called again after `close()`. Requests that belong to
   * no call, such as the DELETE that terminates the session, are sent in the async context of this call.
   *
   * @throws TransportError `CLOSED` if the transport is closed meanwhile.
   */
  async start(): Promise<void> {
    if (this.#phase === 'started') {
      throw new TypeError(
        'The transport is already started. Do not call start(): connect() of the client does',
      )
    }
    await this.#start()
    if (this.#isClosed) throw this.#closedError()
  }

  /**
   * Sends one message. For a request, resolves when it is sent; the answer or the failure arrives through
   * `onmessage`.
   *
   * @throws TransportError for a notification or a response that was not accepted.
   * @throws TypeError for an array: batches exist in revision 2025-03-26 only.
   */
  async send(
    message: JsonRpcMessage | readonly JsonRpcMessage[],
    options: SendOptions = {},
  ): Promise<void> {
    if (!('jsonrpc' in message)) throw new TypeError('send() takes one message, not an array')
    if (this.#isClosed) throw this.#closedError()
    if (this.#phase === 'new') void this.#start()
    const traced = withTraceContext(message, this.#options.traceContext?.())
    await this.#router.send(traced, this.#guarded(options))
    // This message ends `connect()` of a client, which must not succeed on a closed transport.
    if (this.#isClosed && 'method' in message && message.method === 'notifications/initialized')
      throw this.#closedError()
  }

  /** Does nothing: the version is known from the answer to `initialize`. */
  setProtocolVersion(_version: string): void {}

  /**
   * Replaces the session with this generation (`epoch`), with the `initialize` of the client.
   * Sends no request of the client again: `McpClient` decides about that. Does nothing if the session has been
   * replaced. A session that is not lost stays open until its last call has ended. Requests that belong to no call are
   * sent in the async context of this call from now on.
   *
   * @param isFresh The session fails in a way that does not show whether it is lost. Starts from nothing, era included,
   * and keeps the session until another one is open.
   * @internal
   * @throws TransportError if no session could be opened, also because `signal` aborted
   */
  async replaceSession(
    generation: number | undefined,
    signal: AbortSignal,
    isFresh = false,
  ): Promise<void> {
    const { http, legacy, modernVersion } = this.#router
    const isLive = modernVersion !== undefined || legacy.session?.lost === undefined
    if (this.epoch !== generation && isLive) return
    http.owner = new AsyncResource('McpTransport')
    await this.#router.replaceSession(signal, isFresh)
  }

  /**
   * Removes a request that was not sent, and is then never sent. Returns false if the server may have received the
   * request. Always returns false for a server of 2026-07-28: a call may consist of several requests.
   *
   * @internal
   */
  withdraw(id: RequestId): boolean {
    const { legacy, modernVersion } = this.#router
    return modernVersion === undefined && legacy.withdraw(id)
  }

  /**
   * Identity of the endpoint, as in `SessionRecord.serverUrl`.
   *
   * @internal
   */
  get endpoint(): string {
    return this.#url.identity
  }

  /**
   * Capabilities of the server, from its last answer to `initialize` or `server/discover`.
   *
   * @internal
   */
  get serverCapabilities(): Readonly<Record<string, unknown>> | undefined {
    const { keeper, modern } = this.#router
    const { discoverResult, initializeResult } = keeper.record ?? {}
    return (modern === undefined ? initializeResult : discoverResult)?.capabilities
  }

  /**
   * Has the handlers of the client answer requests that a server embedded in a task, by their keys.
   *
   * @internal
   * @throws Error if a handler fails, the client has none for a request, or `signal` aborts
   */
  async answerInputs(
    requests: Readonly<Record<string, InputRequest>>,
    signal: AbortSignal,
  ): Promise<Readonly<Record<string, unknown>>> {
    const { modern } = this.#router
    if (modern === undefined) throw this.#closedError()
    return modern.inputs.gather(requests, modern.identity.capabilities, signal)
  }

  /**
   * Converts the result of a tool inside a task as the result of a call, for a client of SDK v1.
   *
   * @internal
   */
  toToolResult(
    tool: string,
    result: Readonly<Record<string, unknown>>,
  ): Readonly<Record<string, unknown>> {
    const request = { method: 'tools/call', params: { name: tool } }
    return this.#router.modern?.tools.bridge(request, result) ?? result
  }

  /**
   * Terminates the session on the server (DELETE) and forgets it. Calls in flight are answered with `CLOSED`.
   * Does nothing without a session. Takes at most 1 s.
   *
   * @throws TransportError if the session may still exist on the server.
   */
  async terminateSession(): Promise<void> {
    this.#terminating ??= this.#terminate().finally(() => {
      this.#terminating = undefined
    })
    await this.#terminating
  }

  /**
   * Completes an authorization after a request failed with `UNAUTHORIZED` because the user was redirected
   * (`cause` is an `AuthError` with `AUTHORIZATION_REQUIRED`): saves the tokens. Then repeat the request; after
   * a failed `connect`, use a new `Client`. Takes the URL or query that the user came back with, or only the
   * code. If the server promises `iss`, the code alone is refused (RFC 9207).
   *
   * @throws AuthError if no tokens were obtained.
   * @throws TypeError without an `authProvider`, or for a callback without a code and without an error.
   */
  async finishAuth(callback: AuthorizationCallback): Promise<void> {
    const http = this.#makeHttp() // a separate client, because the transport may be closed
    try {
      if (http.authorizer === undefined) {
        throw new TypeError('finishAuth() needs the option authProvider')
      }
      await http.authorizer.finish(callback)
    } finally {
      await http.close()
    }
  }

  /**
   * Closes the transport and keeps the session on the server. Calls in flight are answered with `CLOSED`, then
   * `onclose` is called, then the callbacks are removed. Idempotent.
   */
  async close(): Promise<void> {
    await (this.#closing ??= this.#close())
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close()
  }

  get #isClosed(): boolean {
    return this.#phase === 'closed'
  }

  #closedError(): TransportError {
    return this.#router.http.closed('The transport is closed', 'not-executed')
  }

  #start(): Promise<void> {
    if (this.#phase === 'closed') this.#router = this.#makeRouter()
    this.#phase = 'started'
    this.#closing = undefined
    this.#router.http.owner = new AsyncResource('McpTransport')
    return this.#router.legacy.load()
  }

  async #terminate(): Promise<void> {
    if (this.#phase === 'started') return this.#router.terminate()
    const router = this.#makeRouter() // a separate one, because the transport is not started
    try {
      await router.legacy.load()
      await router.terminate()
    } finally {
      await router.close()
    }
  }

  async #close(): Promise<void> {
    this.#phase = 'closed'
    const closing = this.#router.close()
    const { onclose } = this
    this.onclose = undefined
    this.onerror = undefined
    this.onmessage = undefined
    try {
      onclose?.()
    } finally {
      await closing
    }
  }

  #makeRouter(): EraRouter {
    const { principal, listen, era = 'auto' } = this.#options
    const timeouts = resolveTimeouts(this.#options.timeouts)
    const reconnect = resolveReconnect(this.#options.reconnect)
    const isCurrent = (): boolean => this.#router === router
    const report = (error: TransportError): void => {
      if (isCurrent()) this.#report(error)
    }
    // Catches errors of the callback: the HTTP layer would treat them as a broken stream.
    const deliver = (message: JsonRpcMessage): void => {
      if (isCurrent()) this.#guard(() => this.onmessage?.(message))
    }
    const keeper = new SessionKeeper({
      info: this.#sessionInfo,
      serverUrl: this.#url.identity,
      principal,
      report,
    })
    const http = this.#makeHttp()
    const { onSessionLost = 'report' } = this.#options
    const onReplaced =
      onSessionLost === 'report'
        ? undefined
        : (event: SessionReplaced): void =>
            this.#guard(() => this.#options.onSessionReplaced?.(event))
    const router: EraRouter = new EraRouter({
      http,
      keeper,
      era,
      timeouts,
      reconnect,
      listen,
      onReplaced,
      deliver,
      report,
    })
    return router
  }

  #makeHttp(): HttpClient {
    const { headers = {}, authProvider, dispatcher } = this.#options
    return new HttpClient({
      url: this.#url,
      dispatcher,
      connectMs: resolveTimeouts(this.#options.timeouts).connectMs,
      headers,
      authProvider,
      limits: resolveLimits(this.#options.limits),
      observer: this.#options,
    })
  }

  #guard(call: () => void): void {
    try {
      call()
    } catch (error) {
      this.#report(error instanceof Error ? error : new Error(String(error)))
    }
  }

  #guarded(options: SendOptions): SendOptions {
    const { onresumptiontoken, onRequestStreamEnd } = options
    if (onresumptiontoken === undefined && onRequestStreamEnd === undefined) return options
    return {
      ...options,
      onresumptiontoken:
        onresumptiontoken && ((token) => this.#guard(() => onresumptiontoken(token))),
      onRequestStreamEnd: onRequestStreamEnd && (() => this.#guard(onRequestStreamEnd)),
    }
  }

  #report(error: Error): void {
    try {
      this.onerror?.(error)
    } catch {
      // No other place to report to.
    }
  }
}

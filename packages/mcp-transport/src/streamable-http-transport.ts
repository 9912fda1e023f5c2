import { AsyncResource } from 'node:async_hooks'
import { assertOptions } from '@x/internal'
import type { AuthorizationCallback } from './auth/auth-provider.ts'
import { authorizerFor } from './auth/authorizer.ts'
import { EraRouter } from './era/era-router.ts'
import { HttpClient } from './http/http-client.ts'
import { withTraceContext } from './json-rpc.ts'
import type { JsonRpcMessage } from './json-rpc.ts'
import { LegacyProtocol } from './legacy/legacy-protocol.ts'
import type { SessionReplaced } from './diagnostics.ts'
import { ModernProtocol } from './modern/modern-protocol.ts'
import { parseServerUrl } from './server-url.ts'
import type { ServerUrl } from './server-url.ts'
import { SessionInfo } from './session-info.ts'
import { SessionKeeper } from './session-keeper.ts'
import type { Era } from './session-record.ts'
import { closedError } from './transport-error.ts'
import type { TransportError } from './transport-error.ts'
import {
  resolveLimits,
  resolveReconnect,
  resolveTimeouts,
  transportOptionChecks,
} from './transport-options.ts'
import type { SendOptions, StreamableHttpTransportOptions } from './transport-options.ts'

/** Everything between one start and its close. */
interface Stack {
  readonly http: HttpClient
  readonly keeper: SessionKeeper
  readonly legacy: LegacyProtocol
  readonly router: EraRouter
}

/**
 * The client side of MCP's Streamable HTTP transport, for the `Client` of the TypeScript SDK, which it
 * replaces the stock transport under.
 *
 * Keeps the session where `sessionInfo` says, and goes on with the one that it finds there: the client's
 * `initialize` is then answered from the record, and nothing is sent. A request that fails is answered
 * with a JSON-RPC error whose `data` is a `TransportError`. Nothing is sent again that the server may have
 * executed.
 */
export class StreamableHttpTransport implements AsyncDisposable {
  onclose?: (() => void) | undefined
  onerror?: ((error: Error) => void) | undefined
  onmessage?: ((message: JsonRpcMessage) => void) | undefined
  /** Tells SDK v2 that each request has a response of its own, which it may close. */
  readonly hasPerRequestStream: boolean = true

  readonly #url: ServerUrl
  readonly #options: StreamableHttpTransportOptions
  readonly #sessionInfo: SessionInfo
  #phase: 'new' | 'started' | 'closed' = 'new'
  /** From one start to its close; what an old one still does reaches nobody. */
  #wire: Stack
  #closing: Promise<void> | undefined
  #terminating: Promise<void> | undefined

  /** @throws TypeError for a URL, an option or a header that cannot be used. */
  constructor(url: string | URL, options: StreamableHttpTransportOptions = {}) {
    assertOptions('StreamableHttpTransport', options, transportOptionChecks)
    this.#url = parseServerUrl(url)
    this.#options = options
    this.#sessionInfo = options.sessionInfo ?? new SessionInfo()
    this.#wire = this.#makeStack()
  }

  /**
   * The live session's id. Undefined until `initialize` was answered, also where one is stored: a client
   * that finds an id here skips its handshake, and then knows no capabilities. Undefined again once the
   * session is lost or ended.
   */
  get sessionId(): string | undefined {
    const { session } = this.#wire.legacy
    return session?.lost === undefined ? session?.id : undefined
  }

  /** Which kind of server it is, once that is known. */
  get era(): Era | undefined {
    if (this.#wire.router.modernVersion !== undefined) return 'modern'
    return this.#wire.legacy.session === undefined ? undefined : 'legacy'
  }

  /** The revision that goes over the wire, as negotiated. */
  get protocolVersion(): string | undefined {
    const { router, legacy } = this.#wire
    return router.modernVersion ?? legacy.session?.protocolVersion
  }

  /** The number of the live session (`SessionRecord.epoch`). */
  get epoch(): number | undefined {
    const { keeper, router, legacy } = this.#wire
    return router.modernVersion === undefined ? legacy.session?.epoch : keeper.record?.epoch
  }

  /** Whether the live session was opened by another transport, here or in another process. */
  get isResumed(): boolean {
    const { router, legacy } = this.#wire
    return router.modernVersion === undefined
      ? (legacy.session?.isResumed ?? false)
      : router.isResumed
  }

  /**
   * Reads the stored session. Opens no connection. May be called again after `close()`. All requests that belong
   * to no call (such as the DELETE that ends the session) are made in the async context of this call.
   *
   * @throws TransportError `CLOSED` if the transport is closed meanwhile.
   */
  async start(): Promise<void> {
    if (this.#phase === 'started') {
      throw new TypeError('The transport was started before: a client starts it by itself')
    }
    await this.#start()
    if (this.#isClosed) throw this.#closedError()
  }

  /**
   * Sends one message. A request resolves when it is on its way; its answer, or the reason why there is
   * none, comes through `onmessage`.
   *
   * @throws TransportError for a notification or a reply that was not accepted.
   * @throws TypeError for an array: batches existed in revision 2025-03-26 only.
   */
  async send(
    message: JsonRpcMessage | readonly JsonRpcMessage[],
    options: SendOptions = {},
  ): Promise<void> {
    if (isBatch(message)) throw new TypeError('send() takes one message, not an array of them')
    if (this.#isClosed) throw this.#closedError()
    if (this.#phase === 'new') void this.#start()
    const traced = withTraceContext(message, this.#options.traceContext?.())
    await this.#wire.router.send(traced, this.#guarded(options))
    // With this message `connect()` of a client ends. It must not succeed on a closed transport.
    if (this.#isClosed && 'method' in message && message.method === 'notifications/initialized')
      throw this.#closedError()
  }

  /** What the client says after `initialize`; we know it from the answer. */
  setProtocolVersion(_version: string): void {}

  /**
   * Ends the session on the server (DELETE) and forgets it. Calls in flight are answered with `CLOSED`.
   * Does nothing where there is no session. Takes at most 1 s.
   *
   * @throws TransportError if the session may still be there.
   */
  async terminateSession(): Promise<void> {
    this.#terminating ??= this.#terminate().finally(() => {
      this.#terminating = undefined
    })
    await this.#terminating
  }

  /**
   * Goes on where a request failed with `UNAUTHORIZED` because the user was sent to an authorization
   * server (its `cause` is an `AuthError` with `AUTHORIZATION_REQUIRED`): has the tokens saved. Then try
   * again; after a failed `connect`, with a new `Client`. Takes the whole query or URL that came back, or
   * only the code; where the server promises `iss`, the code alone is refused (RFC 9207).
   *
   * @throws AuthError if there are no tokens.
   * @throws TypeError without an `authProvider`, or for a callback with neither a code nor an error.
   */
  async finishAuth(callback: AuthorizationCallback): Promise<void> {
    const http = this.#makeHttp() // for this only: the transport may be closed by now
    try {
      await http.finishAuth(callback)
    } finally {
      await http.close()
    }
  }

  /**
   * Leaves the session as it is, and ends everything that is open: calls in flight are answered with
   * `CLOSED`, then `onclose` is called, then the callbacks are dropped. Idempotent.
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
    return closedError('The transport is closed', this.#url.display, 'not-executed')
  }

  #start(): Promise<void> {
    if (this.#phase === 'closed') this.#wire = this.#makeStack()
    this.#phase = 'started'
    this.#closing = undefined
    this.#wire.http.owner = new AsyncResource('McpTransport')
    return this.#wire.router.load()
  }

  async #terminate(): Promise<void> {
    if (this.#phase === 'started') return this.#wire.router.terminate()
    const wire = this.#makeStack() // for this only: the transport is not started, and stays so
    try {
      await wire.router.load()
      await wire.router.terminate()
    } finally {
      await wire.router.close()
    }
  }

  async #close(): Promise<void> {
    this.#phase = 'closed'
    const closing = this.#wire.router.close()
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

  #makeStack(): Stack {
    const { principal, listen = true, era = 'auto' } = this.#options
    const timeouts = resolveTimeouts(this.#options.timeouts)
    const reconnect = resolveReconnect(this.#options.reconnect)
    const isCurrent = (): boolean => this.#wire === wires
    const report = (error: TransportError): void => {
      if (isCurrent()) this.#report(error)
    }
    const deliver = (message: JsonRpcMessage): void => {
      if (isCurrent()) this.#deliver(message)
    }
    const keeper = new SessionKeeper({
      info: this.#sessionInfo,
      serverUrl: this.#url.identity,
      principal,
      report,
    })
    const http = this.#makeHttp()
    const shared = { http, timeouts, reconnect, listen, deliver, report }
    const { onSessionLost = 'report' } = this.#options
    const onSessionReplaced =
      onSessionLost === 'report'
        ? undefined
        : (event: SessionReplaced): void => this.#replaced(event)
    const legacy = new LegacyProtocol({
      ...shared,
      keeper,
      replacement: onSessionReplaced && {
        onReplaced: onSessionReplaced,
        changeEra: () => router.changeEra(undefined),
        sendAgain: (request, options) => router.sendAgain(request, options),
      },
    })
    const router: EraRouter = new EraRouter({
      onSessionReplaced,
      era,
      http,
      keeper,
      legacy,
      probeMs: timeouts.probeMs,
      deliver,
      createModern: (options) =>
        new ModernProtocol({
          ...shared,
          ...options,
          onToolHeaders: (toolHeaders) => void keeper.learned(toolHeaders),
        }),
    })
    const wires: Stack = { http, keeper, legacy, router }
    return wires
  }

  #makeHttp(): HttpClient {
    const { headers = {}, authProvider, dispatcher } = this.#options
    const url = this.#url
    return new HttpClient({
      url,
      dispatcher,
      connectMs: resolveTimeouts(this.#options.timeouts).connectMs,
      headers,
      authorizer:
        authProvider === undefined
          ? undefined
          : authorizerFor(authProvider, new URL(url.origin + url.path)),
      limits: resolveLimits(this.#options.limits),
      observer: this.#options,
    })
  }

  /** A callback that throws must not reach the HTTP layer, where it would look like a broken stream. */
  #deliver(message: JsonRpcMessage): void {
    this.#guard(() => this.onmessage?.(message))
  }

  #replaced(event: SessionReplaced): void {
    this.#guard(() => this.#options.onSessionReplaced?.(event))
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
      // There is nobody left to tell.
    }
  }
}

function isBatch(
  message: JsonRpcMessage | readonly JsonRpcMessage[],
): message is readonly JsonRpcMessage[] {
  return Array.isArray(message)
}

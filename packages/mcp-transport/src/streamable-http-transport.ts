import { assertOptions } from '@x/internal'
import type { AuthorizationCallback } from './auth/auth-provider.ts'
import { isRequest, isResponse } from './json-rpc.ts'
import type { JsonRpcMessage } from './json-rpc.ts'
import { McpConnection } from './mcp-connection.ts'
import { SdkMessages } from './sdk-messages.ts'
import { SessionInfo } from './session-info.ts'
import type { Era } from './session-record.ts'
import type { TransportError } from './transport-error.ts'
import { sdkOptions, transportOptionChecks } from './transport-options.ts'
import type { SendOptions, StreamableHttpTransportOptions } from './transport-options.ts'

/**
 * Client side of MCP's Streamable HTTP transport. Replaces the stock transport under the `Client` of the
 * TypeScript SDK.
 *
 * Stores the session in `sessionInfo`, and resumes a stored one: then `initialize` is answered from the record
 * without a request. A failed request is answered with a JSON-RPC error whose `data` is a `TransportError`. A
 * request that the server may have executed is never sent again.
 *
 * @example
 * ```ts
 * import { Client } from '@modelcontextprotocol/sdk/client/index.js'
 * import { StreamableHttpTransport } from '@x/mcp-transport'
 *
 * const transport = new StreamableHttpTransport('https://shop.example/mcp', {
 *   onSessionLost: 'reinitialize',
 * })
 * const client = new Client({ name: 'app', version: '1.0.0' })
 * await client.connect(transport)
 * await client.callTool({ name: 'counter_add' })
 * await client.close()
 * ```
 */
export class StreamableHttpTransport implements AsyncDisposable {
  onclose?: (() => void) | undefined
  onerror?: ((error: Error) => void) | undefined
  onmessage?: ((message: JsonRpcMessage) => void) | undefined
  /** Tells SDK v2 that each request has its own response stream, which the client may close. */
  readonly hasPerRequestStream: boolean = true

  readonly #url: string | URL
  readonly #options: StreamableHttpTransportOptions
  readonly #sessionInfo: SessionInfo
  #phase: 'new' | 'started' | 'closed' = 'new'
  /** Replaced by each `start()` after a `close()`. */
  #messages: SdkMessages
  #closing: Promise<void> | undefined

  /** @throws TypeError for an invalid URL, option or header. */
  constructor(url: string | URL, options: StreamableHttpTransportOptions = {}) {
    assertOptions('StreamableHttpTransport', options, { ...sdkOptions, ...transportOptionChecks })
    this.#url = url
    this.#options = options
    this.#sessionInfo = options.sessionInfo ?? new SessionInfo()
    this.#messages = this.#connect()
  }

  /**
   * Id of the live session. Undefined before `initialize` is answered, even if a session is stored: an SDK
   * client that finds an id here skips its handshake and does not learn the capabilities. Undefined after the
   * session is lost or terminated.
   */
  get sessionId(): string | undefined {
    return this.#connection.sessionId
  }

  /** Era of the server, once it is known. */
  get era(): Era | undefined {
    return this.#connection.era
  }

  /** Negotiated revision of the protocol. */
  get protocolVersion(): string | undefined {
    return this.#connection.protocolVersion
  }

  /** Generation of the live session (`SessionRecord.epoch`). */
  get epoch(): number | undefined {
    return this.#connection.epoch
  }

  /** True if another transport, in this or another process, opened the live session. */
  get isResumed(): boolean {
    return this.#connection.isResumed
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
    if (isRequest(message)) return this.#messages.request(message, options)
    if (isResponse(message)) return this.#messages.answer(message)
    if (message.method === 'notifications/cancelled') {
      return this.#messages.cancel(message)
    }
    await this.#connection.notify(message)
    // This message ends `connect()` of a client, which must not succeed on a closed transport.
    if (this.#isClosed && message.method === 'notifications/initialized') throw this.#closedError()
  }

  /** Does nothing: the version is known from the answer to `initialize`. */
  setProtocolVersion(_version: string): void {}

  /**
   * Terminates the session on the server (DELETE) and forgets it. Calls in flight are answered with `CLOSED`.
   * Does nothing without a session. Takes at most 1 s.
   *
   * @throws TransportError if the session may still exist on the server.
   */
  async terminateSession(): Promise<void> {
    if (this.#phase === 'started') return this.#connection.terminate()
    await using connection = this.#connect().connection // a separate one, because the transport is not started
    await connection.load()
    await connection.terminate()
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
  finishAuth(callback: AuthorizationCallback): Promise<void> {
    return this.#connection.finishAuth(callback)
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
    return this.#connection.closedError('The transport is closed', 'not-executed')
  }

  #start(): Promise<void> {
    if (this.#phase === 'closed') this.#messages = this.#connect()
    this.#phase = 'started'
    this.#closing = undefined
    return this.#connection.load()
  }

  async #close(): Promise<void> {
    this.#phase = 'closed'
    const closing = this.#messages.close()
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

  get #connection(): McpConnection {
    return this.#messages.connection
  }

  #connect(): SdkMessages {
    const sessionInfo = this.#sessionInfo
    return new SdkMessages(
      this,
      (handlers) => new McpConnection(this.#url, this.#options, { sessionInfo, ...handlers }),
    )
  }
}

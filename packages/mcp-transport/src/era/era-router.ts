import { untilAborted } from '@x/internal'
import { sessionChannel } from '../diagnostics.ts'
import type { SessionEvent, SessionReplaced } from '../diagnostics.ts'
import { isRequest, isResponse, INVALID_PARAMS, localError } from '../json-rpc.ts'
import type { JsonRpcMessage, JsonRpcRequest, JsonRpcResponse, RequestId } from '../json-rpc.ts'
import type { LegacyProtocol } from '../legacy/legacy-protocol.ts'
import { takeInputInstructions } from '../modern/inputs.ts'
import { toIdentity, isModernRequest } from '../modern/modern-post.ts'
import type { ModernProtocol, ModernProtocolOptions } from '../modern/modern-protocol.ts'
import { Passthrough } from '../modern/passthrough.ts'
import { shortSessionId, toInitializeResult } from '../session-record.ts'
import { closedError, errorAnswer, TransportError, toTransportError } from '../transport-error.ts'
import type { ServerError } from '../transport-error.ts'
import type { PassthroughOptions } from '../transport-options.ts'
import { Negotiation } from './negotiation.ts'
import type { ModernServer, NegotiationOptions } from './negotiation.ts'

export interface EraRouterOptions extends NegotiationOptions {
  /** Creates the protocol object for a modern server. */
  readonly createModern: (
    options: Pick<
      ModernProtocolOptions,
      'identity' | 'serverCapabilities' | 'toolHeaders' | 'onLegacyServer' | 'onLost'
    >,
  ) => ModernProtocol
  readonly deliver: (message: JsonRpcMessage) => void
  /** Set if the transport replaces lost sessions; called for each replacement. */
  readonly onSessionReplaced?: ((event: SessionReplaced) => void) | undefined
}

/** What is known of a change of the era. */
interface KnownChange {
  readonly signal?: AbortSignal | undefined
  /** The error with which the server has just answered `initialize`. */
  readonly refused?: JsonRpcResponse | undefined
}

/**
 * Requests that were sent again in the other era. They are not sent a third time. Shared by all transports,
 * because most need none.
 */
const sentAgain = new WeakSet<JsonRpcRequest>()

/**
 * Negotiates the era with the client's `initialize`, and passes every later message to the protocol object for
 * the server.
 */
export class EraRouter {
  readonly #options: EraRouterOptions
  readonly #legacy: LegacyProtocol
  #modern: ModernProtocol | undefined
  /** Protocol objects from before a change of the era. Their calls in flight wait for their answers. */
  #retired: ModernProtocol[] | undefined
  /** The client's last `initialize`. */
  #request: JsonRpcRequest | undefined
  #changing: Promise<void> | undefined
  #changeSignal: AbortController | undefined
  /** Set by the first request of a client that speaks the stateless revision. */
  #passthrough: Passthrough | undefined
  #isResumed = false
  /** The client has sent `initialize`, so the transport chooses the era. */
  #isBridging = false
  #negotiating: { readonly id: RequestId; readonly controller: AbortController } | undefined

  constructor(options: EraRouterOptions) {
    this.#options = options
    this.#legacy = options.legacy
  }

  /** True if the modern server is known from the record, without a request. */
  get isResumed(): boolean {
    return this.#isResumed
  }

  /** The stateless revision in use, by the transport or by the client. Undefined for other servers. */
  get modernVersion(): string | undefined {
    if (this.#modern !== undefined) return this.#modern.identity.protocolVersion
    return this.#isBridging ? undefined : this.#passthrough?.version
  }

  /** Reads the store. Sends no request. */
  load(): Promise<void> {
    return this.#legacy.load()
  }

  send(message: JsonRpcMessage, options: PassthroughOptions): Promise<void> {
    if (isRequest(message)) {
      // This client speaks the stateless revision.
      if (isModernRequest(message)) {
        this.#passthrough ??= new Passthrough(this.#options)
        this.#passthrough.send(message, options)
        return Promise.resolve()
      }
      if (message.method === 'initialize') return this.#initialize(message)
    } else if (this.modernVersion !== undefined && this.#modern === undefined) {
      return Promise.resolve() // in the stateless revision, a client sends only requests
    } else if (!isResponse(message) && message.method === 'notifications/cancelled') {
      const id = message.params?.['requestId']
      if (this.#negotiating !== undefined && id === this.#negotiating.id) {
        this.#negotiating.controller.abort()
        this.#negotiating = undefined
      }
    }
    if (this.#modern !== undefined) return this.#modern.send(message, options)
    return this.#sendLegacy(message, options)
  }

  /** Removes instructions about inputs: they have no meaning for a server with sessions. */
  #sendLegacy(message: JsonRpcMessage, options: PassthroughOptions): Promise<void> {
    if (!isRequest(message)) return this.#legacy.send(message, options)
    const { request, instructions } = takeInputInstructions(message)
    if (instructions.answers === undefined) return this.#legacy.send(request, options)
    const text = `${message.method} cannot be continued: this server is not of 2026-07-28. Start the call again`
    this.#options.deliver(localError(message.id, INVALID_PARAMS, text))
    return Promise.resolve()
  }

  /** @throws TransportError if a session may still exist on the server. */
  terminate(): Promise<void> {
    return (this.#modern ?? this.#legacy).terminate()
  }

  /** Answers all requests in flight before it returns. */
  async close(): Promise<void> {
    const negotiating = this.#negotiating
    this.#negotiating = undefined
    negotiating?.controller.abort()
    this.#changeSignal?.abort()
    if (negotiating !== undefined) {
      const url = this.#options.http.url.display
      const error = closedError('The transport was closed', url)
      this.#options.deliver(errorAnswer(negotiating.id, error))
    }
    this.#passthrough?.close()
    const protocols = [...(this.#retired ?? []), ...(this.#modern ? [this.#modern] : [])]
    const closing = protocols.map((protocol) => protocol.close())
    await this.#legacy.close()
    await Promise.all(closing)
  }

  async #initialize(request: JsonRpcRequest): Promise<void> {
    this.#isBridging = true
    this.#request = request
    this.#negotiating?.controller.abort()
    const negotiating = { id: request.id, controller: new AbortController() }
    this.#negotiating = negotiating
    // The client starts again: its earlier calls end.
    const before = this.#modern
    this.#modern = undefined
    this.#isResumed = false
    await before?.close()
    await this.load()
    const answer = await this.#answerTo(request, negotiating.controller.signal).catch(
      (error: unknown) => errorAnswer(request.id, toTransportError(error)),
    )
    if (this.#negotiating !== negotiating || answer === undefined) return
    this.#negotiating = undefined
    this.#options.deliver(answer)
  }

  /**
   * Negotiates again, once for all calls that detected the change of the era.
   *
   * @throws TransportError if no session could be opened
   */
  changeEra(from: ModernProtocol | undefined, known: KnownChange = {}): Promise<void> {
    if (this.#modern !== from) return Promise.resolve() // already changed
    const change = (): Promise<void> => this.#changeEra(known)
    return (this.#changing ??= this.#options.http.asOwner(change).finally(() => {
      this.#changing = undefined
    }))
  }

  /** Opens another session in place of the current one, or changes the era if the server has changed it. */
  async replaceSession(signal: AbortSignal): Promise<void> {
    const { session } = this.#legacy
    if (this.#modern !== undefined || session === undefined) {
      return this.changeEra(this.#modern, { signal })
    }
    await this.#legacy.replacementOf(session, { signal })
  }

  /**
   * Sends a request again that the server certainly refused because of its era. Returns false if it was sent
   * again before.
   */
  async sendAgain(message: JsonRpcRequest, options: PassthroughOptions): Promise<boolean> {
    if (sentAgain.has(message)) return false
    sentAgain.add(message)
    await this.send(message, options)
    return true
  }

  async #changeEra({ signal: outer, refused }: KnownChange): Promise<void> {
    const { keeper, http, onSessionReplaced } = this.#options
    const { session } = this.#legacy
    const before = this.#modern
    const oldEpoch = before === undefined ? (session?.epoch ?? 0) : (keeper.record?.epoch ?? 0)
    const request = this.#request
    if (request === undefined)
      throw closedError('There is no initialize to repeat', http.url.display)
    await this.#legacy.reload()
    const { signal: own } = (this.#changeSignal = new AbortController())
    const signal = outer === undefined ? own : AbortSignal.any([own, outer])
    const subject = { request, signal, isTakenForLegacy: false, repeated: { refused } }
    const negotiating = new Negotiation(this.#options, subject).run()
    const negotiated = await untilAborted(negotiating, signal).catch((error: unknown) => {
      if (!signal.aborted) throw error
    })
    if (signal.aborted || negotiated === undefined || negotiated.kind === 'abandoned') {
      throw closedError('The transport was closed', http.url.display)
    }
    if (negotiated.kind === 'answered') {
      if ('error' in negotiated.answer)
        throw rejectedError(negotiated.answer.error, http.url.display)
      this.#modern = undefined
    } else {
      this.#useModern(request, negotiated)
    }
    if (before !== undefined) {
      before.retire()
      this.#retired ??= []
      this.#retired.push(before)
    }
    if (this.#modern !== undefined) {
      await this.#modern.send({ jsonrpc: '2.0', method: 'notifications/initialized' }, {})
    }
    const now = this.#modern === undefined ? this.#legacy.session : undefined
    onSessionReplaced?.({
      oldEpoch,
      newEpoch: now?.epoch ?? keeper.record?.epoch ?? 0,
      oldSessionId: before === undefined && session?.id ? shortSessionId(session.id) : undefined,
      newSessionId: now?.id === undefined ? undefined : shortSessionId(now.id),
    })
  }

  async #answerTo(
    request: JsonRpcRequest,
    signal: AbortSignal,
  ): Promise<JsonRpcResponse | undefined> {
    // A client that speaks both eras sends `initialize` only after it has detected a legacy server.
    const isTakenForLegacy = this.#passthrough?.version !== undefined
    const subject = { request, signal, isTakenForLegacy }
    const negotiated = await new Negotiation(this.#options, subject).run()
    if (negotiated.kind === 'abandoned' || signal.aborted) return undefined
    return negotiated.kind === 'answered' ? negotiated.answer : this.#useModern(request, negotiated)
  }

  #useModern(request: JsonRpcRequest, server: ModernServer): JsonRpcResponse {
    const { version, discovered, isResumed, toolHeaders } = server
    const { http, keeper } = this.#options
    this.#isResumed = isResumed
    const protocol: ModernProtocol = this.#options.createModern({
      identity: toIdentity(request, version),
      serverCapabilities: discovered.capabilities,
      toolHeaders,
      onLegacyServer: () => keeper.lost(undefined),
      onLost:
        this.#options.onSessionReplaced === undefined
          ? undefined
          : {
              replaced: () => this.changeEra(protocol),
              sendAgain: (message, options) => this.sendAgain(message, options),
            },
    })
    this.#modern = protocol
    const event: SessionEvent = {
      type: isResumed ? 'resumed' : 'opened',
      url: http.url.display,
      era: 'modern',
      epoch: keeper.record?.epoch ?? 0,
    }
    sessionChannel.publish(event)
    const asked = request.params?.['protocolVersion']
    const { host } = new URL(http.url.display)
    const result = toInitializeResult(discovered, {
      protocolVersion: typeof asked === 'string' ? asked : '2025-11-25',
      host,
    })
    return { jsonrpc: '2.0', id: request.id, result }
  }
}

function rejectedError(error: ServerError, url: string): TransportError {
  if (TransportError.is(error.data)) return error.data
  const message = `${url} refused a new session: ${error.message}`
  return new TransportError('REJECTED', message, { url, serverError: error })
}

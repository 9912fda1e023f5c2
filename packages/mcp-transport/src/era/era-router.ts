import { sessionChannel } from '../diagnostics.ts'
import type { SessionEvent, SessionReplaced } from '../diagnostics.ts'
import { isRequest, isResponse, INVALID_PARAMS, localError } from '../json-rpc.ts'
import type { JsonRpcMessage, JsonRpcRequest, JsonRpcResponse, RequestId } from '../json-rpc.ts'
import type { LegacyProtocol } from '../legacy/legacy-protocol.ts'
import { takeInputInstructions } from '../modern/inputs.ts'
import type { ModernProtocol, ModernProtocolOptions } from '../modern/modern-protocol.ts'
import { toIdentity, isModernRequest } from '../modern/modern-request.ts'
import { Passthrough } from '../modern/passthrough.ts'
import { shortSessionId, toInitializeResult } from '../session-record.ts'
import { closedError, errorAnswer, TransportError, toTransportError } from '../transport-error.ts'
import type { ServerError } from '../transport-error.ts'
import type { PassthroughOptions } from '../transport-options.ts'
import { Negotiation } from './negotiation.ts'
import type { ModernServer, NegotiationOptions } from './negotiation.ts'

export interface EraRouterOptions extends NegotiationOptions {
  /** Makes the wire of a server that turned out to be modern. */
  readonly createModern: (
    options: Pick<
      ModernProtocolOptions,
      'identity' | 'serverCapabilities' | 'toolHeaders' | 'onLegacyServer' | 'onLost'
    >,
  ) => ModernProtocol
  readonly deliver: (message: JsonRpcMessage) => void
  /** Given where lost sessions are to be replaced here; told of each replacement. */
  readonly onSessionReplaced?: ((event: SessionReplaced) => void) | undefined
}

/** Requests that were sent again in the other era: there is no third time. One set for all, most clients need none. */
const sentAgain = new WeakSet<JsonRpcRequest>()

/**
 * Has the client's `initialize` negotiated, and hands every later message to the wire that speaks to the
 * server that was found: one with sessions, or a stateless one.
 */
export class EraRouter {
  readonly #options: EraRouterOptions
  readonly #legacy: LegacyProtocol
  #modern: ModernProtocol | undefined
  /** Stack of a server that has changed its era: their calls in flight wait for their own answers. */
  #retired: ModernProtocol[] | undefined
  /** The client's last `initialize`, where lost sessions are to be replaced here. */
  #request: JsonRpcRequest | undefined
  #changing: Promise<void> | undefined
  #changeSignal: AbortController | undefined
  /** For a client that speaks the modern wire by itself, from its first request on. */
  #passthrough: Passthrough | undefined
  #isResumed = false
  /** The client has sent `initialize`: it leaves the choice of the wire to us. */
  #isBridging = false
  #negotiating: { readonly id: RequestId; readonly controller: AbortController } | undefined

  constructor(options: EraRouterOptions) {
    this.#options = options
    this.#legacy = options.legacy
  }

  /** Whether the modern server was known from the record, and not asked. */
  get isResumed(): boolean {
    return this.#isResumed
  }

  /** The stateless revision on the wire, if that is what is spoken: by us, or by the client itself. */
  get modernVersion(): string | undefined {
    if (this.#modern !== undefined) return this.#modern.identity.protocolVersion
    return this.#isBridging ? undefined : this.#passthrough?.version
  }

  /** Reads the store. No request is made. */
  load(): Promise<void> {
    return this.#legacy.load()
  }

  send(message: JsonRpcMessage, options: PassthroughOptions): Promise<void> {
    if (isRequest(message)) {
      // A client that speaks the modern wire by itself needs no bridge.
      if (isModernRequest(message)) {
        this.#passthrough ??= new Passthrough(this.#options)
        this.#passthrough.send(message, options)
        return Promise.resolve()
      }
      if (message.method === 'initialize') return this.#initialize(message)
    } else if (this.modernVersion !== undefined && this.#modern === undefined) {
      return Promise.resolve() // nothing but requests goes over the wire that this client speaks
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

  /** What a request says to this transport about inputs means nothing to a server with sessions. */
  #sendLegacy(message: JsonRpcMessage, options: PassthroughOptions): Promise<void> {
    if (!isRequest(message)) return this.#legacy.send(message, options)
    const { request, instructions } = takeInputInstructions(message)
    if (instructions.answers === undefined) return this.#legacy.send(request, options)
    const text = `${message.method} cannot be continued: that needs a server of 2026-07-28`
    this.#options.deliver(localError(message.id, INVALID_PARAMS, text))
    return Promise.resolve()
  }

  /** @throws TransportError if there is a session that may still be on the server. */
  terminate(): Promise<void> {
    return (this.#modern ?? this.#legacy).terminate()
  }

  /** All requests in flight are answered when it returns. */
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
    const wires = [...(this.#retired ?? []), ...(this.#modern ? [this.#modern] : [])]
    const closing = wires.map((wire) => wire.close())
    await this.#legacy.close()
    await Promise.all(closing)
  }

  async #initialize(request: JsonRpcRequest): Promise<void> {
    this.#isBridging = true
    if (this.#options.onSessionReplaced !== undefined) this.#request = request
    this.#negotiating?.controller.abort()
    const negotiating = { id: request.id, controller: new AbortController() }
    this.#negotiating = negotiating
    // The client begins anew: what it had on another wire is over.
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
   * Negotiates again, once for all calls that met a server of the other era.
   *
   * @throws TransportError if that leads to no session
   */
  changeEra(from: ModernProtocol | undefined): Promise<void> {
    if (this.#modern !== from) return Promise.resolve() // another call was earlier
    const change = (): Promise<void> => this.#changeEra()
    return (this.#changing ??= this.#options.http.asOwner(change).finally(() => {
      this.#changing = undefined
    }))
  }

  /** Sends a request again that the server of the other era has certainly refused. */
  async sendAgain(message: JsonRpcRequest, options: PassthroughOptions): Promise<boolean> {
    if (sentAgain.has(message)) return false
    sentAgain.add(message)
    await this.send(message, options)
    return true
  }

  async #changeEra(): Promise<void> {
    const { keeper, http, onSessionReplaced } = this.#options
    const { session } = this.#legacy
    const before = this.#modern
    const oldEpoch = before === undefined ? (session?.epoch ?? 0) : (keeper.record?.epoch ?? 0)
    const request = this.#request
    if (request === undefined)
      throw closedError('There is no initialize to repeat', http.url.display)
    await this.#legacy.reload()
    const negotiating = { id: request.id, controller: new AbortController() }
    const { signal } = negotiating.controller
    this.#changeSignal = negotiating.controller
    const subject = { request, signal, isTakenForLegacy: false, isRepeated: true }
    const negotiated = await new Negotiation(this.#options, subject).run()
    if (signal.aborted || negotiated.kind === 'abandoned') {
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
    if (this.#modern === undefined) await this.#legacy.repeatInitialized(this.#options.probeMs)
    else await this.#modern.send({ jsonrpc: '2.0', method: 'notifications/initialized' }, {})
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
    // A client that knows both kinds and sends `initialize` all the same has asked the server itself.
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
    const wire: ModernProtocol = this.#options.createModern({
      identity: toIdentity(request, version),
      serverCapabilities: discovered.capabilities,
      toolHeaders,
      onLegacyServer: () => keeper.lost(undefined),
      onLost:
        this.#options.onSessionReplaced === undefined
          ? undefined
          : {
              replaced: () => this.changeEra(wire),
              sendAgain: (message, options) => this.sendAgain(message, options),
            },
    })
    this.#modern = wire
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

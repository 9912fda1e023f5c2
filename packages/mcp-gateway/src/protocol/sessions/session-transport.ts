import {
  WebStandardStreamableHTTPServerTransport,
  type JSONRPCErrorResponse,
  type JSONRPCMessage,
  type JSONRPCRequest,
  type MessageExtraInfo,
  type RequestId,
} from '@modelcontextprotocol/server'

import type { ServerRequestIds } from '../replicas/server-request-ids.ts'
import { HeldRequest, type HeldOutcome } from './held-request.ts'

export type SessionTransportOptions = NonNullable<
  ConstructorParameters<typeof WebStandardStreamableHTTPServerTransport>[0]
> & {
  /** Puts the name of this process into what its server asks: another one may ask the same client. @default no name */
  readonly ids?: ServerRequestIds | undefined
}

/** The SDK's transport of one session, with what it leaves out. */
export class SessionTransport extends WebStandardStreamableHTTPServerTransport {
  /** Told of each request whose answer was sent. @default nobody */
  onAnswered: ((id: RequestId) => void) | undefined
  readonly #ids: ServerRequestIds | undefined
  readonly #hasEvents: boolean
  /** Requests that were taken by `answer`, until they are answered. */
  readonly #held = new Map<RequestId, HeldRequest>()
  #deliver: SessionTransport['onmessage']
  #isClosed = false

  constructor({ ids, ...options }: SessionTransportOptions) {
    super(options)
    this.#ids = ids
    this.#hasEvents = options.eventStore !== undefined
  }

  override async start(): Promise<void> {
    await super.start()
    this.#deliver = this.onmessage
    this.onmessage = (message, extra) => {
      // What gets a stream later runs by then.
      const isHeld = 'id' in message && message.id !== undefined && this.#isHeld(message.id, extra)
      if (!isHeld) this.#deliver?.(message, extra)
    }
  }

  /** Whether a request with this id can be answered now: a client that uses one twice is for the SDK to tell. */
  canAnswer({ id }: JSONRPCRequest): boolean {
    return !this.#isClosed && this.sessionId !== undefined && !this.#held.has(id)
  }

  /** A request that is right, as `canAnswer` says. It gets a stream if its answer takes longer than a turn, or is not the first thing to be said. */
  answer(request: Request, message: JSONRPCRequest): Promise<HeldOutcome> {
    const { id } = message
    const open = (): Promise<Response> => this.handleRequest(request, { parsedBody: message })
    const held = new HeldRequest({ request, open })
    this.#held.set(id, held)
    this.#deliver?.(message, {
      request,
      ...(this.#hasEvents && {
        closeSSEStream: () => void held.opened().then(() => this.closeSSEStream(id)),
        closeStandaloneSSEStream: () => this.closeStandaloneSSEStream(),
      }),
    })
    return held.outcome
  }

  override send(
    message: JSONRPCMessage,
    options?: { readonly relatedRequestId?: RequestId },
  ): Promise<void> {
    const id = 'method' in message ? options?.relatedRequestId : message.id
    const held = id === undefined ? undefined : this.#held.get(id)
    const sent = held ? this.#sendHeld(held, message, options) : this.#send(message, options)
    return this.onAnswered && !('method' in message) ? this.#tell(sent, message.id) : sent
  }

  /** In the name of its client, which said it elsewhere. */
  async say(method: string, params: object): Promise<void> {
    const headers = {
      accept: 'application/json, text/event-stream',
      'content-type': 'application/json',
      'mcp-session-id': this.sessionId ?? '',
    }
    const request = new Request('http://localhost/', { method: 'POST', headers })
    const parsedBody = { jsonrpc: '2.0', id: 0, method, params }
    const response = await this.handleRequest(request, { parsedBody })
    await response.text()
  }

  /**
   * Ends the stream of a request that gets no answer, and keeps this in its place: the SDK would remember the
   * request for as long as the session lives.
   */
  async dismiss(answer: JSONRPCErrorResponse & { readonly id: RequestId }): Promise<void> {
    const held = this.#held.get(answer.id)
    this.#held.delete(answer.id)
    await held?.opened()
    this.closeSSEStream(answer.id)
    // Without an event store the SDK reports, before it returns, that nobody can be given the answer.
    const { onerror } = this
    this.onerror = () => undefined
    const sent = super.send(answer)
    if (onerror) this.onerror = onerror
    await sent
  }

  override async close(): Promise<void> {
    this.#isClosed = true
    for (const held of this.#held.values()) held.end()
    this.#held.clear()
    await super.close()
  }

  #isHeld(id: RequestId, extra: MessageExtraInfo | undefined): boolean {
    const held = this.#held.get(id)
    return held !== undefined && held.request === extra?.request
  }

  #send(
    message: JSONRPCMessage,
    options: { readonly relatedRequestId?: RequestId } | undefined,
  ): Promise<void> {
    return super.send(this.#ids?.outgoing(message) ?? message, options)
  }

  async #sendHeld(
    held: HeldRequest,
    message: JSONRPCMessage,
    options: { readonly relatedRequestId?: RequestId } | undefined,
  ): Promise<void> {
    if (!('method' in message)) {
      if (message.id !== undefined) this.#held.delete(message.id)
      if (held.answer(message)) return
    }
    await held.opened()
    await this.#send(message, options)
  }

  async #tell(sent: Promise<void>, id: RequestId | undefined): Promise<void> {
    await sent
    if (id !== undefined) this.onAnswered?.(id)
  }
}

import {
  WebStandardStreamableHTTPServerTransport,
  type JSONRPCErrorResponse,
  type JSONRPCMessage,
  type JSONRPCRequest,
  type MessageExtraInfo,
  type RequestId,
} from '@modelcontextprotocol/server'

import { RPC } from '../rpc-error.ts'
import { isEventStream } from '../../internal/watched-body.ts'
import type { ServerRequestIds } from '../replicas/server-request-ids.ts'
import { HeldRequest, type HeldOutcome } from './held-request.ts'
import { LastWords } from './last-words.ts'
import { noSession, silentEnd } from './session-refusals.ts'

type Sdk = WebStandardStreamableHTTPServerTransport
type SendOptions = Parameters<Sdk['send']>[1]

export type SessionTransportOptions = NonNullable<
  ConstructorParameters<typeof WebStandardStreamableHTTPServerTransport>[0]
> & {
  /** Puts the name of this process into what its server asks: another one may ask the same client. @default no name */
  readonly ids?: ServerRequestIds | undefined
}

/** From this revision on, a stream begins with an event that a client can come back to. */
const PRIMED_SINCE = '2025-11-25'

/** Of all sessions, requests that get a stream while they run: the SDK would have them run again. */
const BEGUN = new WeakSet<Request>()
/** Of all sessions, requests that were to be delivered after the end. */
const LATE = new WeakSet<Request>()

/** The SDK's transport of one session, with what it leaves out. */
export class SessionTransport extends WebStandardStreamableHTTPServerTransport {
  /** Told of each request whose answer was sent. @default nobody */
  onAnswered: ((id: RequestId) => void) | undefined
  /** Answers, and what is kept in place of some, that are on their way. */
  readonly lastWords: LastWords = new LastWords()
  readonly #ids: ServerRequestIds | undefined
  readonly #hasEvents: boolean
  /** Requests that were taken by `answer`, until they are answered. */
  readonly #held = new Map<RequestId, HeldRequest>()
  #deliver: SessionTransport['onmessage']
  #said = 0
  #isClosed = false

  constructor({ ids, ...options }: SessionTransportOptions) {
    super(options)
    this.#ids = ids
    this.#hasEvents = options.eventStore !== undefined
  }

  override async start(): Promise<void> {
    await super.start()
    const { onerror } = this
    this.onerror = (error) => {
      if (!this.#isClosed) onerror?.(error)
    }
    this.#deliver = this.onmessage
    this.onmessage = (message, extra) => this.#received(message, extra)
  }

  override async handleRequest(
    ...[request, options]: Parameters<Sdk['handleRequest']>
  ): Promise<Response> {
    const response = await super.handleRequest(request, options)
    // The SDK does not look whether the session has ended while a stream was made.
    const isRefused = LATE.has(request) || (this.#isClosed && response.status === 400)
    if (!isRefused) return response
    await response.body?.cancel()
    return noSession().response
  }

  /** Whether `answer` may be asked: the session has begun, and has not ended. */
  get canAnswer(): boolean {
    return !this.#isClosed && this.sessionId !== undefined
  }

  /**
   * A request that is right, with an id that no other one has. It gets a stream if its answer takes longer than a turn,
   * or is not the first thing to be said.
   */
  answer(request: Request, message: JSONRPCRequest): Promise<HeldOutcome> {
    const { id } = message
    const waits = message.method === 'resources/read'
    const held = new HeldRequest(() => this.#open(request, message), { waits })
    this.#held.set(id, held)
    this.#deliver?.(message, {
      request,
      ...(this.#hasEvents &&
        isPrimed(request) && {
          closeSSEStream: () => void held.opened().then(() => this.closeSSEStream(id)),
          closeStandaloneSSEStream: () => this.closeStandaloneSSEStream(),
        }),
    })
    return held.outcome
  }

  override send(message: JSONRPCMessage, options?: SendOptions): Promise<void> {
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
    // An id that its client has no request with.
    const message = {
      jsonrpc: '2.0' as const,
      id: `said elsewhere ${++this.#said}`,
      method,
      params: { ...params },
    }
    if (!this.canAnswer) {
      await (await this.handleRequest(request, { parsedBody: message })).text()
      return
    }
    const outcome = await this.answer(request, message)
    if (outcome.type === 'stream') await outcome.response.text()
  }

  /**
   * Ends the stream of a request that gets no answer, and keeps this in its place: the SDK would remember the
   * request for as long as the session lives. Never rejects.
   */
  dismiss(answer: JSONRPCErrorResponse & { readonly id: RequestId }): Promise<void> {
    return this.lastWords.say(answer.id, async () => {
      const held = this.#held.get(answer.id)
      if (!held?.end()) await held?.opened()
      this.#held.delete(answer.id)
      if (this.#isClosed) return
      this.closeSSEStream(answer.id)
      // Without an event store the SDK reports, before it returns, that nobody can be given the answer.
      const { onerror } = this
      this.onerror = () => undefined
      const sent = super.send(answer)
      if (onerror) this.onerror = onerror
      await sent.catch(() => undefined) // it had no stream
    })
  }

  override async close(): Promise<void> {
    this.#isClosed = true
    for (const held of this.#held.values()) held.end()
    this.#held.clear()
    await super.close()
  }

  #received(message: JSONRPCMessage, extra: MessageExtraInfo | undefined): void {
    const { request } = extra ?? {}
    if (request && BEGUN.has(request)) return
    if (!this.#isClosed) this.#deliver?.(message, extra)
    else if (request) LATE.add(request)
  }

  /** Makes a stream for a request that runs: whatever becomes of it, its client is not told that it does not. */
  async #open(request: Request, parsedBody: JSONRPCRequest): Promise<Response> {
    BEGUN.add(request)
    const response = await super.handleRequest(request, { parsedBody })
    if (isEventStream(response) && !this.#isClosed) return response
    await response.body?.cancel()
    return silentEnd()
  }

  #send(message: JSONRPCMessage, options: SendOptions): Promise<void> {
    if ('method' in message || message.id === undefined) return this.#sendNow(message, options)
    return this.lastWords.say(message.id, () => this.#sendNow(message, options))
  }

  async #sendNow(message: JSONRPCMessage, options: SendOptions): Promise<void> {
    if (this.#isClosed) return
    try {
      await super.send(this.#ids?.outgoing(message) ?? message, options)
    } catch (cause) {
      // Of a request that was dismissed, there is nobody to be told that its questions are withdrawn.
      if (isNotification(message) && !(cause instanceof TypeError)) return
      if ('method' in message || message.id === undefined) throw cause
      // What JSON has no text for: its client would wait for ever.
      const error = { code: RPC.internalError, message: 'Internal error' }
      await super.send({ jsonrpc: '2.0', id: message.id, error })
      throw cause
    }
  }

  async #sendHeld(held: HeldRequest, message: JSONRPCMessage, options: SendOptions): Promise<void> {
    if ('method' in message || message.id === undefined) {
      await held.opened()
      return this.#sendNow(message, options)
    }
    const { id } = message
    if (held.answer(message)) {
      this.#held.delete(id)
      return
    }
    await this.lastWords.say(id, async () => {
      await held.opened()
      this.#held.delete(id)
      await this.#sendNow(message, options)
    })
  }

  async #tell(sent: Promise<void>, id: RequestId | undefined): Promise<void> {
    try {
      await sent
    } finally {
      if (id !== undefined) this.onAnswered?.(id)
    }
  }
}

function isPrimed({ headers }: Request): boolean {
  return (headers.get('mcp-protocol-version') ?? '') >= PRIMED_SINCE
}

function isNotification(message: JSONRPCMessage): boolean {
  return 'method' in message && !('id' in message)
}

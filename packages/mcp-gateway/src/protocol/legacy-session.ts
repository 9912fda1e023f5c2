import type { AsyncLocalStorage } from 'node:async_hooks'

import type { Server, WebStandardStreamableHTTPServerTransport } from '@modelcontextprotocol/server'

import type { Clock } from '../clock.ts'
import type { HttpAnswer } from '../http/exchange.ts'
import { RPC, rpcErrorResponse } from '../http/rpc-error.ts'
import { isEventStream } from '../http/watched-body.ts'
import { PostExchange } from './post-exchange.ts'
import { requestIdsOf } from './rpc-method.ts'
import type { SessionEvents } from './session-events.ts'

/** Streams that were read to their end are kept, this many of a session: their last bytes may not have arrived. */
const KEPT_STREAMS = 4

export interface LegacySessionOptions {
  readonly principalId: string
  /** Where its files go, if its caller has no name. */
  readonly scope: string | undefined
  readonly transport: WebStandardStreamableHTTPServerTransport
  readonly server: Server
  /** @default a stream that is lost cannot be taken up again */
  readonly events: SessionEvents | undefined
  /** How long a lost stream waits for its client, before what runs for it is cancelled. */
  readonly disconnectGraceMs: number
  readonly clock: Clock
}

/** One session of a client of a revision with sessions: its server, and what is under way in it. */
export class LegacySession {
  readonly principalId: string
  readonly scope: string | undefined
  readonly createdAt: number
  readonly server: Server
  readonly #options: LegacySessionOptions
  readonly #posts = new Set<PostExchange>()
  readonly #current: AsyncLocalStorage<PostExchange>
  #kept: string[] = []
  #openStreams = 0
  #seenAt: number

  constructor(options: LegacySessionOptions, current: AsyncLocalStorage<PostExchange>) {
    this.principalId = options.principalId
    this.scope = options.scope
    this.server = options.server
    this.#options = options
    this.#current = current
    this.createdAt = options.clock.now()
    this.#seenAt = this.createdAt
  }

  /** When it was last used; now, as long as a call or a stream is open. */
  get seenAt(): number {
    const isUsed = this.hasCalls || this.#openStreams > 0
    return isUsed ? this.#options.clock.now() : this.#seenAt
  }

  /** A call is under way. */
  get hasCalls(): boolean {
    for (const post of this.#posts) if (post.unanswered.size > 0) return true
    return false
  }

  async serve(request: Request, body?: unknown): Promise<HttpAnswer> {
    this.#seenAt = this.#options.clock.now()
    if (request.method === 'POST') return this.#post(request, body)
    if (request.method === 'GET') return this.#get(request)
    return { response: await this.#options.transport.handleRequest(request) }
  }

  /** An event was kept: which exchange it belongs to is known from where it was written. */
  noteEvent(stream: string, answered: string | number | undefined): void {
    const post = this.#current.getStore()
    if (post === undefined || !this.#posts.has(post)) return
    post.stream ??= stream
    if (answered !== undefined) post.unanswered.delete(answered)
  }

  /** Cancels what is under way, and ends all streams. */
  async close(): Promise<void> {
    for (const post of this.#posts) post.attach()
    this.#posts.clear()
    await this.server.close()
    await this.#options.events?.close()
  }

  async #post(request: Request, body: unknown): Promise<HttpAnswer> {
    const { transport } = this.#options
    const post = new PostExchange(requestIdsOf(body))
    this.#posts.add(post)
    const connection = post.attach()
    try {
      const response = await this.#current.run(post, () =>
        transport.handleRequest(request, { parsedBody: body }),
      )
      if (isEventStream(response)) return this.#read(response, post, connection)
      this.#posts.delete(post)
      return { response }
    } catch (error) {
      this.#posts.delete(post)
      throw error
    }
  }

  async #get(request: Request): Promise<HttpAnswer> {
    const { transport, events } = this.#options
    const lastEventId = request.headers.get('last-event-id')
    if (lastEventId === null || !events) return this.#listen(await transport.handleRequest(request))
    const stream = await events.streamOf(lastEventId)
    if (stream === undefined) {
      const message = 'The event named by Last-Event-ID is not known (any more)'
      return { response: rpcErrorResponse(400, { code: RPC.refused, message }) }
    }
    const post = [...this.#posts].find((each) => each.stream === stream)
    if (!post) return this.#listen(await transport.handleRequest(request))
    const connection = post.attach()
    const response = await transport.handleRequest(request)
    if (isEventStream(response)) return this.#read(response, post, connection)
    this.#wait(post)
    return { response }
  }

  #listen(response: Response): HttpAnswer {
    if (!isEventStream(response)) return { response }
    this.#openStreams++
    return {
      response,
      onEnd: () => {
        this.#openStreams--
        this.#seenAt = this.#options.clock.now()
      },
    }
  }

  #read(response: Response, post: PostExchange, connection: number): HttpAnswer {
    return {
      response,
      onEnd: (end) => {
        this.#seenAt = this.#options.clock.now()
        if (!this.#posts.has(post) || !post.isCurrent(connection)) return
        const isAnswered = post.unanswered.size === 0
        if (end === 'complete' && (isAnswered || !this.#options.events)) this.#finish(post)
        else if (isAnswered) this.#posts.delete(post) // kept for whoever comes back, as long as the log is
        else this.#wait(post)
      },
    }
  }

  #finish(post: PostExchange): void {
    this.#posts.delete(post)
    if (post.stream === undefined) return
    this.#kept.push(post.stream)
    const oldest = this.#kept.length > KEPT_STREAMS ? this.#kept.shift() : undefined
    if (oldest !== undefined) void this.#options.events?.forget(oldest).catch(this.#report)
  }

  /** The stream is lost: its client may come back to it, but not for ever. */
  #wait(post: PostExchange): void {
    const { clock, disconnectGraceMs, events } = this.#options
    if (!events) return this.#cancel(post)
    post.detach(clock.after(disconnectGraceMs, () => this.#cancel(post)))
  }

  #cancel(post: PostExchange): void {
    if (!this.#posts.delete(post)) return
    const { transport } = this.#options
    for (const id of post.unanswered) {
      const params = { requestId: id, reason: 'The connection was lost' }
      transport.onmessage?.({ jsonrpc: '2.0', method: 'notifications/cancelled', params })
      // The SDK answers no cancelled request, and would remember it for as long as the session lives.
      const error = { code: RPC.refused, message: 'Cancelled: the connection was lost' }
      void transport.send({ jsonrpc: '2.0', id, error }).catch(this.#report)
    }
  }

  readonly #report = (error: unknown): void => {
    this.server.onerror?.(new Error('The events of a session could not be kept', { cause: error }))
  }
}

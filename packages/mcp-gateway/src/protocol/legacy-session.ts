import type { AsyncLocalStorage } from 'node:async_hooks'

import { parseJSONRPCMessage, type RequestId, type Server } from '@modelcontextprotocol/server'

import type { Clock } from '../clock.ts'
import type { HttpAnswer } from '../http/exchange.ts'
import { RPC } from '../http/rpc-error.ts'
import { isEventStream } from '../http/watched-body.ts'
import { PostExchange } from './post-exchange.ts'
import { cancelledIdsOf, requestIdsOf } from './rpc-method.ts'
import type { SessionEvents } from './session-events.ts'
import type { Handshake } from './session-record.ts'
import { streamOver, unknownEvent } from './session-refusals.ts'
import type { SessionTransport } from './session-transport.ts'
import { withdrawnAnswer } from './withdrawn-answer.ts'

/** Streams that were read to their end are kept, this many of a session: their last bytes may not have arrived. */
const KEPT_STREAMS = 4

export interface LegacySessionOptions {
  readonly principalId: string
  /** Where its files go, if its caller has no name. */
  readonly scope: string | undefined
  readonly transport: SessionTransport
  readonly server: Server
  /** @default a stream that is lost cannot be taken up again */
  readonly events: SessionEvents | undefined
  /** How long a lost stream waits for its client, before what runs for it is cancelled. */
  readonly disconnectGraceMs: number
  readonly clock: Clock
  /** When it began, elsewhere. @default now */
  readonly createdAt?: number | undefined
  /** Other processes may go on with it: what was kept of it stays when it is closed here. @default false */
  readonly isShared?: boolean | undefined
  /** A stream that was read elsewhere is read here again. */
  readonly onTaken?: ((stream: string) => void) | undefined
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
    this.#seenAt = options.clock.now()
    this.createdAt = options.createdAt ?? this.#seenAt
    // Where nothing is kept, nothing else says which requests were answered.
    if (!options.events) options.transport.onAnswered = this.#answered
  }

  /** When it was last used; now, as long as a call or a stream is open. */
  get seenAt(): number {
    return this.isInUse ? this.#options.clock.now() : this.#seenAt
  }

  /** A call or a stream is open. */
  get isInUse(): boolean {
    return this.#openStreams > 0 || this.hasCalls
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

  /** Goes on with a session that began elsewhere, as its client knows it. */
  async restore(handshake: Handshake, level: string | undefined): Promise<void> {
    const { events } = this.#options
    const work = async (): Promise<void> => {
      await this.#say('initialize', handshake)
      if (level !== undefined) await this.setLevel(level)
    }
    await (events ? events.pausedFor(work) : work())
  }

  /** In the name of its client, which said it elsewhere. */
  setLevel(level: string): Promise<void> {
    return this.#say('logging/setLevel', { level })
  }

  /** Whether this request is under way here. */
  runs(requestId: string | number): boolean {
    for (const post of this.#posts) if (post.unanswered.has(requestId)) return true
    return false
  }

  /** A message of the client that came in elsewhere: an answer, or a notification. */
  take(message: Readonly<Record<string, unknown>>): void {
    this.#options.transport.onmessage?.(parseJSONRPCMessage(message))
    this.#withdraw(cancelledIdsOf(message))
  }

  /**
   * A stream of here is read at another process, which says so again within `leaseMs`.
   *
   * @returns `ended`: all of it is kept; `lost`: not all of it could be kept, so that it cannot be read elsewhere
   */
  follow(stream: string, leaseMs: number): 'open' | 'ended' | 'lost' {
    const { clock, events, transport } = this.#options
    const post = this.#postOf(stream)
    if (events?.isBroken(stream)) {
      if (post) this.#cancel(post)
      return 'lost'
    }
    if (!post || post.unanswered.size === 0) return 'ended'
    const wasFollowed = post.isFollowed
    post.attach()
    post.isFollowed = true
    post.detach(clock.after(leaseMs, () => this.#cancel(post)))
    const [first] = post.unanswered
    if (!wasFollowed && first !== undefined) transport.closeSSEStream(first)
    return 'open'
  }

  /** Its client left that process, too. */
  unfollow(stream: string): void {
    const post = this.#postOf(stream)
    if (!post?.isFollowed) return
    post.attach()
    this.#wait(post)
  }

  /** Whether a stream is read elsewhere. */
  isFollowed(stream: string): boolean {
    return this.#postOf(stream)?.isFollowed ?? false
  }

  /** Whether all is answered that a stream is to answer. */
  isAnswered(stream: string): boolean {
    return this.#postOf(stream)?.unanswered.size === 0
  }

  /** All of a stream that is read elsewhere was told there. */
  complete(stream: string): void {
    const post = this.#postOf(stream)
    post?.attach()
    if (post) this.#posts.delete(post)
  }

  /** Its client listens elsewhere. */
  stopListening(): void {
    this.#options.transport.closeStandaloneSSEStream()
  }

  /** An answer that streams, and is not this session's own. */
  listening(response: Response, onEnd: (end: 'complete' | 'lost') => void): HttpAnswer {
    const answer = this.#listen(response)
    return {
      response,
      onEnd: (end) => {
        answer.onEnd?.(end)
        onEnd(end)
      },
    }
  }

  /** Cancels what is under way, and ends all streams. */
  async close(): Promise<void> {
    for (const post of this.#posts) post.attach()
    this.#posts.clear()
    await this.server.close()
    if (!this.#options.isShared) await this.forgetEvents()
  }

  /** Nobody comes back to any of its streams. */
  async forgetEvents(): Promise<void> {
    await this.#options.events?.close()
  }

  async #say(method: string, params: object): Promise<void> {
    const { transport } = this.#options
    const headers = {
      accept: 'application/json, text/event-stream',
      'content-type': 'application/json',
      'mcp-session-id': transport.sessionId ?? '',
    }
    const request = new Request('http://localhost/', { method: 'POST', headers })
    const parsedBody = { jsonrpc: '2.0', id: 0, method, params }
    const response = await transport.handleRequest(request, { parsedBody })
    await response.text()
  }

  #postOf(stream: string): PostExchange | undefined {
    for (const post of this.#posts) if (post.stream === stream) return post
    return undefined
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
      this.#withdraw(cancelledIdsOf(body))
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
    const place = await events.placeOf(lastEventId)
    if (place === undefined) return unknownEvent()
    const post = this.#postOf(place.stream)
    if (!post) {
      if (await events.isOverAfter(place, lastEventId)) return streamOver()
      return this.#listen(await transport.handleRequest(request))
    }
    if (post.isFollowed) this.#options.onTaken?.(place.stream)
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

  /** Their client wants no answer any more, and is sent none: a stream ends when all else on it is answered. */
  #withdraw(ids: readonly RequestId[]): void {
    for (const id of ids) {
      for (const post of this.#posts) {
        if (!post.withdraw(id)) continue
        if (post.unanswered.size === 0) void this.#dismiss(post)
        else this.#options.transport.onAnswered = this.#answered
      }
    }
  }

  readonly #answered = (id: RequestId): void => {
    for (const post of this.#posts) {
      post.unanswered.delete(id)
      if (post.unanswered.size === 0 && post.withdrawn.length > 0) void this.#dismiss(post)
    }
  }

  /** All that its client still wanted is answered. */
  async #dismiss(post: PostExchange): Promise<void> {
    const ids = post.withdrawn
    post.withdrawn = []
    try {
      await this.#current.run(post, () => this.#dismissAll(ids))
    } catch (error) {
      this.#report(error)
    }
    post.attach()
    if (this.#posts.has(post)) this.#finish(post)
  }

  async #dismissAll(ids: readonly RequestId[]): Promise<void> {
    const { transport } = this.#options
    await Promise.all(ids.map((id) => transport.dismiss(withdrawnAnswer(id))))
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
      const error = { code: RPC.refused, message: 'Cancelled: the connection was lost' }
      void transport.dismiss({ jsonrpc: '2.0', id, error }).catch(this.#report)
    }
    this.#dismissAll(post.withdrawn).catch(this.#report)
  }

  readonly #report = (error: unknown): void => {
    this.server.onerror?.(new Error('The events of a session could not be kept', { cause: error }))
  }
}

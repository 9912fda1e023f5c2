import type { AsyncLocalStorage } from 'node:async_hooks'

import type { RequestId } from '@modelcontextprotocol/server'

import type { Clock } from '../../internal/clock.ts'
import { RPC } from '../rpc-error.ts'
import { PostExchange } from './post-exchange.ts'
import type { SessionEvents } from './session-events.ts'
import type { SessionTransport } from './session-transport.ts'
import { withdrawnAnswer } from './withdrawn-answer.ts'

/**
 * Streams that were read to their end are kept, this many of a session: their last bytes may not have arrived. As many
 * as one caller has calls under way at once, if nothing else is configured.
 */
const KEPT_STREAMS = 8

export interface SessionCallsOptions {
  readonly transport: SessionTransport
  /** @default a stream that is lost cannot be taken up again */
  readonly events: SessionEvents | undefined
  /** How long a lost stream waits for its client, before what runs for it is cancelled. */
  readonly disconnectGraceMs: number
  readonly clock: Clock
  readonly onError: (error: Error) => void
}

/** What is under way in a session: its POSTs, from their requests until the answers are with the client. */
export class SessionCalls {
  readonly #options: SessionCallsOptions
  readonly #posts = new Set<PostExchange>()
  readonly #current: AsyncLocalStorage<PostExchange>
  #kept: string[] = []

  /** @param current the POST that the running code belongs to; one for all sessions, as each costs every other */
  constructor(options: SessionCallsOptions, current: AsyncLocalStorage<PostExchange>) {
    this.#options = options
    this.#current = current
    // Where nothing is kept, nothing else says which requests were answered.
    if (!options.events) options.transport.onAnswered = this.#answered
  }

  /** A request has no answer yet. */
  get areUnderWay(): boolean {
    for (const post of this.#posts) if (post.unanswered.size > 0) return true
    return false
  }

  /** Whether this request is under way here. */
  runs(requestId: RequestId): boolean {
    for (const post of this.#posts) if (post.unanswered.has(requestId)) return true
    return false
  }

  /** Whether one of these ids is another request's (specification 2025-11-25, "Requests": none is used twice). */
  hasOneOf(ids: readonly RequestId[]): boolean {
    return ids.some((id, at) => this.#has(id) || ids.indexOf(id) < at)
  }

  /** A POST with these requests. */
  begin(requestIds: readonly RequestId[]): PostExchange {
    const post = new PostExchange(requestIds)
    this.#posts.add(post)
    return post
  }

  /** What is kept while this goes on belongs to the POST. */
  during<Result>(post: PostExchange, work: () => Result): Result {
    return this.#current.run(post, work)
  }

  /** All of its requests run by now, also what was cancelled while they were about to. */
  begun(post: PostExchange): void {
    for (const id of post.cancelled) this.#stop(id, 'Cancelled by the client')
  }

  /** There is nothing more to be said of it. */
  drop(post: PostExchange): void {
    this.#posts.delete(post)
  }

  /** The POST that a stream answers. */
  ofStream(stream: string): PostExchange | undefined {
    for (const post of this.#posts) if (post.stream === stream) return post
    return undefined
  }

  /** An event was kept: which exchange it belongs to is known from where it was written. */
  noteEvent(stream: string, answered: RequestId | undefined): void {
    const post = this.#current.getStore()
    if (post === undefined || !this.#posts.has(post)) return
    post.stream ??= stream
    if (answered !== undefined) post.unanswered.delete(answered)
  }

  /** A connection reads its stream no more. */
  left(post: PostExchange, connection: number, end: 'complete' | 'lost'): void {
    if (!this.#posts.has(post) || !post.isCurrent(connection)) return
    const isAnswered = post.unanswered.size === 0
    if (isAnswered && post.withdrawn.length > 0) return // it is over when the SDK was told of those
    if (end === 'complete' && (isAnswered || !this.#options.events)) this.#finish(post)
    else if (isAnswered) this.#posts.delete(post) // kept for whoever comes back, as long as the log is
    else this.wait(post)
  }

  /** The stream is lost: its client may come back to it, but not for ever. */
  wait(post: PostExchange): void {
    const { clock, disconnectGraceMs, events } = this.#options
    if (!events) return this.cancel(post)
    post.detach(clock.after(disconnectGraceMs, () => this.cancel(post)))
  }

  /** Nobody waits for its answers any more. */
  cancel(post: PostExchange): void {
    if (!this.#posts.delete(post)) return
    const { transport } = this.#options
    for (const id of post.unanswered) {
      this.#stop(id, 'The connection was lost')
      const error = { code: RPC.refused, message: 'Cancelled: the connection was lost' }
      void transport.dismiss({ jsonrpc: '2.0', id, error })
    }
    void this.#dismissAll(post.withdrawn)
  }

  /** Their client wants no answer any more, and is sent none: a stream ends when all else on it is answered. */
  withdraw(ids: readonly RequestId[]): void {
    for (const id of ids) {
      for (const post of this.#posts) {
        if (!post.withdraw(id)) continue
        if (post.unanswered.size === 0) void this.#dismiss(post)
        else this.#options.transport.onAnswered = this.#answered
      }
    }
  }

  /** Nothing is under way any more. */
  clear(): void {
    for (const post of this.#posts) post.attach()
    this.#posts.clear()
  }

  readonly #answered = (id: RequestId): void => {
    for (const post of this.#posts) {
      post.unanswered.delete(id)
      if (post.unanswered.size === 0 && post.withdrawn.length > 0) void this.#dismiss(post)
    }
  }

  /** All that its client still wanted is answered: those answers go out before the stream ends. */
  async #dismiss(post: PostExchange): Promise<void> {
    await this.#options.transport.lastWords.arrived(post.ids)
    const ids = post.withdrawn
    post.withdrawn = []
    await this.#current.run(post, () => this.#dismissAll(ids))
    post.attach()
    if (this.#posts.has(post)) this.#finish(post)
  }

  async #dismissAll(ids: readonly RequestId[]): Promise<void> {
    const { transport } = this.#options
    await Promise.all(ids.map((id) => transport.dismiss(withdrawnAnswer(id))))
  }

  #has(id: RequestId): boolean {
    for (const { unanswered, withdrawn } of this.#posts) {
      if (unanswered.has(id) || withdrawn.includes(id)) return true
    }
    return this.#options.transport.lastWords.has(id)
  }

  /** Whoever answers this request is told that nobody waits for it. */
  #stop(requestId: RequestId, reason: string): void {
    const params = { requestId, reason }
    const { transport } = this.#options
    transport.onmessage?.({ jsonrpc: '2.0', method: 'notifications/cancelled', params })
  }

  #finish(post: PostExchange): void {
    this.#posts.delete(post)
    if (post.stream === undefined) return
    this.#kept.push(post.stream)
    const oldest = this.#kept.length > KEPT_STREAMS ? this.#kept.shift() : undefined
    if (oldest !== undefined) void this.#options.events?.forget(oldest).catch(this.#report)
  }

  readonly #report = (error: unknown): void => {
    this.#options.onError(new Error('The events of a session could not be kept', { cause: error }))
  }
}

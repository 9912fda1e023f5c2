import type { AsyncLocalStorage } from 'node:async_hooks'

import { parseJSONRPCMessage, type Server } from '@modelcontextprotocol/server'

import type { Clock } from '../../internal/clock.ts'
import type { HttpAnswer } from '../../internal/exchange.ts'
import { JsonAnswer } from '../../internal/json-answer.ts'
import { isEventStream } from '../../internal/watched-body.ts'
import type { PostExchange } from './post-exchange.ts'
import { cancelledIdsOf, requestIdsOf } from '../json-rpc.ts'
import type { HeldOutcome } from './held-request.ts'
import { loneRequestFrom } from './lone-request.ts'
import { SessionCalls } from './session-calls.ts'
import type { SessionEvents } from './session-events.ts'
import { LentStreams } from '../replicas/lent-streams.ts'
import type { Handshake } from '../replicas/session-record.ts'
import { idInUse, streamOver, unknownEvent } from './session-refusals.ts'
import type { SessionTransport } from './session-transport.ts'

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
  /** Of its streams, those that other processes read. */
  readonly lent: LentStreams
  readonly #options: LegacySessionOptions
  readonly #calls: SessionCalls
  #openStreams = 0
  #seenAt: number

  constructor(options: LegacySessionOptions, current: AsyncLocalStorage<PostExchange>) {
    this.principalId = options.principalId
    this.scope = options.scope
    this.server = options.server
    this.#options = options
    this.#seenAt = options.clock.now()
    this.createdAt = options.createdAt ?? this.#seenAt
    const onError = (error: Error): void => this.server.onerror?.(error)
    const { transport, events, disconnectGraceMs, clock } = options
    this.#calls = new SessionCalls(
      { transport, events, disconnectGraceMs, clock, onError },
      current,
    )
    this.lent = new LentStreams({ calls: this.#calls, transport, events, clock })
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
    return this.#calls.areUnderWay
  }

  async serve(request: Request, body?: unknown): Promise<HttpAnswer> {
    this.#seenAt = this.#options.clock.now()
    if (request.method === 'POST') return this.#post(request, body)
    if (request.method === 'GET') return this.#get(request)
    return { response: await this.#options.transport.handleRequest(request) }
  }

  /** An event was kept: which exchange it belongs to is known from where it was written. */
  noteEvent(stream: string, answered: string | number | undefined): void {
    this.#calls.noteEvent(stream, answered)
  }

  /** Goes on with a session that began elsewhere, as its client knows it. */
  async restore(handshake: Handshake, level: string | undefined): Promise<void> {
    const { events, transport } = this.#options
    const work = async (): Promise<void> => {
      await transport.say('initialize', handshake)
      if (level !== undefined) await this.setLevel(level)
    }
    await (events ? events.pausedFor(work) : work())
  }

  /** In the name of its client, which said it elsewhere. */
  setLevel(level: string): Promise<void> {
    return this.#options.transport.say('logging/setLevel', { level })
  }

  /** Whether this request is under way here. */
  runs(requestId: string | number): boolean {
    return this.#calls.runs(requestId)
  }

  /** A message of the client that came in elsewhere: an answer, or a notification. */
  take(message: Readonly<Record<string, unknown>>): void {
    this.#options.transport.onmessage?.(parseJSONRPCMessage(message))
    this.#calls.withdraw(cancelledIdsOf(message))
  }

  /** Whether all is answered that a stream is to answer. */
  isAnswered(stream: string): boolean {
    return this.#calls.ofStream(stream)?.unanswered.size === 0
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
    this.#calls.clear()
    await this.server.close()
    if (!this.#options.isShared) await this.forgetEvents()
  }

  /** Nobody comes back to any of its streams. */
  async forgetEvents(): Promise<void> {
    await this.#options.events?.close()
  }

  async #post(request: Request, body: unknown): Promise<HttpAnswer> {
    const ids = requestIdsOf(body)
    if (this.#calls.hasOneOf(ids)) return idInUse()
    const post = this.#calls.begin(ids)
    const connection = post.attach()
    try {
      const outcome = await this.#calls.during(post, () => this.#outcomeOf(request, body))
      if (outcome.type === 'answer') {
        this.#calls.drop(post)
        return new JsonAnswer(outcome.message)
      }
      const { response } = outcome
      this.#calls.begun(post)
      this.#calls.withdraw(cancelledIdsOf(body))
      if (isEventStream(response)) return this.#read(response, post, connection)
      this.#calls.drop(post)
      return { response }
    } catch (error) {
      this.#calls.drop(post)
      throw error
    }
  }

  async #outcomeOf(request: Request, body: unknown): Promise<HeldOutcome> {
    const { transport } = this.#options
    const lone = loneRequestFrom(request, body)
    if (lone && transport.canAnswer) return transport.answer(request, lone)
    return {
      type: 'stream',
      response: await transport.handleRequest(request, { parsedBody: body }),
    }
  }

  async #get(request: Request): Promise<HttpAnswer> {
    const { transport, events } = this.#options
    const lastEventId = request.headers.get('last-event-id')
    if (lastEventId === null || !events) return this.#listen(await transport.handleRequest(request))
    const place = await events.placeOf(lastEventId)
    if (place === undefined) return unknownEvent()
    const post = this.#calls.ofStream(place.stream)
    if (!post) {
      if (await events.isOverAfter(place, lastEventId)) return streamOver()
      return this.#listen(await transport.handleRequest(request))
    }
    if (post.isFollowed) this.#options.onTaken?.(place.stream)
    const connection = post.attach()
    const response = await transport.handleRequest(request)
    if (isEventStream(response)) return this.#read(response, post, connection)
    this.#calls.wait(post)
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
        this.#calls.left(post, connection, end)
      },
    }
  }
}

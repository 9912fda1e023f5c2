import type { Server } from '@modelcontextprotocol/server'

import { isRecord } from '@x/internal'
import type { Clock } from '../../internal/clock.ts'
import type { HttpAnswer } from '../../internal/exchange.ts'
import type { LegacySession } from '../sessions/legacy-session.ts'
import { ForwardedMessages } from './forwarded-messages.ts'
import { RemoteStreams } from './remote-streams.ts'
import { methodOf } from '../json-rpc.ts'
import type { ServerRequestIds } from './server-request-ids.ts'
import type { KeptEvent, SessionEvents } from '../sessions/session-events.ts'
import type { SessionPeers } from './session-peers.ts'
import type { SessionRecord } from './session-record.ts'
import { noSession, unknownEvent } from '../sessions/session-refusals.ts'
import type { SessionSignal } from './session-signal.ts'

export interface SharedSessionOptions {
  /** What stands for it outside of this process. */
  readonly name: string
  readonly session: LegacySession
  readonly events: SessionEvents | undefined
  /** Names this process. */
  readonly replica: string
  readonly ids: ServerRequestIds
  readonly peers: SessionPeers
  /** Changes its record. @returns as it is then; `undefined`: the session has ended */
  readonly update: (
    change: (record: SessionRecord) => SessionRecord,
  ) => Promise<SessionRecord | undefined>
  /** Removes its record. */
  readonly remove: () => Promise<unknown>
  /** Whether its client hears of changes by way of this process. */
  readonly setListening: (server: Server, isListening: boolean) => void
  /** Changes may have passed while its client listened nowhere. */
  readonly catchUp: (server: Server) => void
  /** What its client follows, as another process wrote it down. */
  readonly setFollowed: (server: Server, uris: readonly string[]) => void
  readonly graceMs: number
  readonly keepAliveMs: number
  readonly clock: Clock
  readonly onError: (error: Error) => void
}

/**
 * A session that may have a server in each of several processes, as this one has it. A call runs where it came
 * in; what is about a call of another process is handed on to it, and streams of it can be read here.
 */
export class SharedSession {
  readonly session: LegacySession
  readonly #options: SharedSessionOptions
  readonly #messages: ForwardedMessages
  readonly #remote: RemoteStreams

  constructor(options: SharedSessionOptions) {
    this.#options = options
    this.session = options.session
    this.#messages = new ForwardedMessages(options)
    this.#remote = new RemoteStreams({
      ...options,
      ask: (replica, signal) => options.peers.ask(options.name, replica, signal),
      tell: (signal) => this.#tell(signal),
    })
  }

  get name(): string {
    return this.#options.name
  }

  /** @throws GatewayError `UNAVAILABLE` */
  async serve(request: Request, body: unknown, id: string): Promise<HttpAnswer> {
    switch (request.method) {
      case 'POST':
        return this.#post(request, body)
      case 'GET':
        return this.#get(request, id)
      case 'DELETE':
        return this.#delete(request)
      default:
        return this.session.serve(request)
    }
  }

  /** @returns the answer, for a process that asked */
  signalled(signal: SessionSignal, from: string): string | undefined {
    const { session } = this
    switch (signal.type) {
      case 'ended':
        void this.#end()
        return undefined
      case 'listen':
        this.#options.setListening(session.server, false)
        session.stopListening()
        return undefined
      case 'state':
        void this.#takeState(signal)
        return undefined
      case 'message':
        return this.#messages.take(signal.message)
      case 'follow':
        if (from !== this.#options.replica) this.#remote.end(signal.stream)
        return session.lent.follow(signal.stream, this.#options.graceMs * 2)
      case 'unfollow':
        if (!signal.isComplete) session.lent.unfollow(signal.stream)
        return undefined
      case 'taken':
        this.#remote.end(signal.stream)
        return undefined
      case 'event':
        this.#remote.said(signal)
        return undefined
    }
  }

  /** An event of a stream of this process was kept: whoever reads it elsewhere is told. */
  kept(stream: string, { id, message, isLast }: KeptEvent): void {
    if (!this.session.lent.isFollowed(stream)) return
    this.#tell({ type: 'event', stream, id, message: { ...message }, isLast })
    if (isLast) this.session.lent.complete(stream)
  }

  /** A stream that was read elsewhere is read here again. */
  taken(stream: string): void {
    this.#tell({ type: 'taken', stream })
  }

  /** Its client follows this URI from now on, or does so no more. */
  async follows(uri: string, isFollowed: boolean): Promise<void> {
    const record = await this.#options.update(({ followed, ...rest }) => {
      const others = followed.filter((each) => each !== uri)
      return { ...rest, followed: isFollowed ? [...others, uri] : others }
    })
    if (record) this.#tell({ type: 'state', followed: record.followed })
  }

  /** Leaves it to other processes. */
  release(): void {
    this.#remote.endAll()
  }

  async #post(request: Request, body: unknown): Promise<HttpAnswer> {
    const forwarded = await this.#messages.forward(body)
    if ('response' in forwarded) return forwarded
    const { own } = forwarded
    for (const each of Array.isArray(own) ? own : [own]) {
      if (methodOf(each) === 'logging/setLevel' && isRecord(each)) {
        await this.#setLevel(each['params'])
      }
    }
    return this.session.serve(request, own)
  }

  async #setLevel(params: unknown): Promise<void> {
    const level = isRecord(params) ? params['level'] : undefined
    if (typeof level !== 'string' || level.length > 16) return // the SDK says what is wrong with it
    await this.#options.update((record) => ({ ...record, level }))
    this.#tell({ type: 'state', level })
  }

  async #get(request: Request, id: string): Promise<HttpAnswer> {
    const { events, replica } = this.#options
    const lastEventId = request.headers.get('last-event-id')
    const place = lastEventId === null ? undefined : await events?.placeOf(lastEventId)
    if (lastEventId !== null && events && !place) return unknownEvent()
    if (!events || !lastEventId || !place?.replica) return this.#listen(request)
    if (place.replica === replica) return this.session.serve(request)
    const { stream, requestIds } = place
    const { response, onEnd } = await this.#remote.read({
      events,
      place: { stream, replica: place.replica, requestIds },
      lastEventId,
      headers: { 'mcp-session-id': id },
    })
    return onEnd ? this.session.listening(response, onEnd) : { response }
  }

  /** Its client listens here from now on, and nowhere else. */
  async #listen(request: Request): Promise<HttpAnswer> {
    const { replica, setListening, catchUp, update } = this.#options
    let before: string | undefined
    const record = await update((each) => {
      before = each.listener
      return { ...each, listener: replica }
    })
    if (!record) return noSession()
    const hasMoved = before !== undefined && before !== replica
    if (before !== replica) await this.#options.peers.tell(this.name, { type: 'listen' })
    const answer = await this.session.serve(request)
    if (answer.response.status !== 200) return answer
    setListening(this.session.server, true)
    if (hasMoved) catchUp(this.session.server)
    return answer
  }

  async #delete(request: Request): Promise<HttpAnswer> {
    await this.#options.remove()
    this.#tell({ type: 'ended' })
    await this.session.forgetEvents()
    return this.session.serve(request)
  }

  async #end(): Promise<void> {
    try {
      await this.session.close()
      await this.session.forgetEvents()
    } catch (error) {
      this.#options.onError(new Error('A session did not end well', { cause: error }))
    }
  }

  async #takeState({ level, followed }: Extract<SessionSignal, { type: 'state' }>): Promise<void> {
    if (followed) this.#options.setFollowed(this.session.server, followed)
    if (level === undefined) return
    try {
      await this.session.setLevel(level)
    } catch (error) {
      this.#options.onError(
        new Error('A session could not be set as it is elsewhere', { cause: error }),
      )
    }
  }

  #tell(signal: SessionSignal): void {
    this.#options.peers.tell(this.name, signal).catch((error: unknown) => {
      const message = 'Other processes could not be told of a session'
      this.#options.onError(new Error(message, { cause: error }))
    })
  }
}

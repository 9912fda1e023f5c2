import { randomHex } from '../internal/random-hex.ts'
import { notifyOfAll, type ChangeFeed, type ChangeListener, type Interest } from './change-feed.ts'
import { toEvent, type EventStream } from './event-stream.ts'
import type { Params } from './json-rpc.ts'
import type { LiveSession, Sessions, SessionUse } from './sessions.ts'

export interface SessionListenerOptions {
  readonly session: LiveSession
  readonly stream: EventStream
  readonly sessions: Sessions
  readonly feed: ChangeFeed
  /** Without the resources that the session follows. */
  readonly interest: Omit<Interest, 'uris'>
}

/** The stream on which the client of a session listens, beside its calls. The latest one at all processes stays open. */
export class SessionListener implements SessionUse, ChangeListener {
  readonly isCall = false
  readonly stream: EventStream
  /** Id of its first event. A client that comes back with it replaces this stream. */
  readonly id: string = `listener-${randomHex(8)}`
  readonly #options: SessionListenerOptions
  /** The record of the session names this stream. */
  #isRecorded = false

  constructor(options: SessionListenerOptions) {
    const { session, stream, feed } = options
    this.stream = stream
    this.#options = options
    const leave = session.use(this)
    const stop = feed.listen(this)
    stream.onClose(() => {
      leave()
      stop()
    })
  }

  /**
   * Ends other listening streams of the session. The client is notified of all that may have changed since it listened
   * before, or since its session began.
   *
   * @returns whether the session still exists
   * @throws GatewayError `UNAVAILABLE`
   */
  async begin(): Promise<boolean> {
    const { session, sessions, feed } = this.#options
    let before: string | undefined
    const exists = await sessions.update(session, (record) => {
      before = record.listener
      return { ...record, listener: this.id }
    })
    if (!exists) return false
    this.#isRecorded = true
    const { createdAt } = session.record
    if (before !== undefined || feed.mayHaveChangedSince(createdAt)) notifyOfAll(this)
    return true
  }

  get interest(): Interest {
    const { interest, session } = this.#options
    return { ...interest, uris: session.record.followed }
  }

  notify(method: string, params: Params): void {
    this.stream.write(toEvent(JSON.stringify({ jsonrpc: '2.0', method, params })))
  }

  /** The record of the session has changed: another stream may have taken over. */
  recordChanged(): void {
    const { listener } = this.#options.session.record
    if (this.#isRecorded && listener !== this.id) this.stream.end()
  }

  end(): void {
    this.stream.end()
  }
}

/** Whether a `Last-Event-ID` comes from a stream on which a client has listened. */
export function isListenerId(eventId: string): boolean {
  return /^listener-[0-9a-f]{16}$/.test(eventId)
}

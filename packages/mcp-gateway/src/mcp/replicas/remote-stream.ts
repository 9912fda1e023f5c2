import { parseJSONRPCMessage, type RequestId } from '@modelcontextprotocol/server'

import { isRecord } from '@x/internal'
import type { Clock } from '../../internal/clock.ts'
import { RPC } from '../rpc-error.ts'
import { FollowedStream } from './followed-stream.ts'
import type { SessionEvents } from '../sessions/session-events.ts'
import type { SessionSignal } from './session-signal.ts'
import type { StreamPlace } from './stream-name.ts'

export interface RemoteStreamOptions {
  readonly place: StreamPlace
  readonly events: SessionEvents
  /** The last that its client has. */
  readonly lastEventId: string
  readonly headers: Readonly<Record<string, string>>
  /** Asks the process that writes it. @returns `undefined`: that has ended */
  readonly ask: (signal: SessionSignal) => Promise<string | undefined>
  readonly graceMs: number
  readonly keepAliveMs: number
  readonly clock: Clock
  readonly onError: (error: Error) => void
}

const DIED =
  'The process that ran this call has ended. It is not known how far the call came: it was not repeated.'

/**
 * Reads a stream that another process writes, for as long as that says that it goes on. If it dies, what it
 * did not answer is answered here: failed, and not run again.
 */
export class RemoteStream {
  readonly #options: RemoteStreamOptions
  readonly #stream: FollowedStream
  readonly #unanswered: Set<RequestId>
  #undoRenewal: (() => void) | undefined
  #isComplete = false

  constructor(options: RemoteStreamOptions) {
    this.#options = options
    this.#stream = new FollowedStream(options)
    this.#unanswered = new Set(options.place.requestIds)
  }

  /**
   * @returns `unknown`: what its client has is not known any more; `over`: its client has all of it
   * @throws GatewayError `UNAVAILABLE`
   */
  async open(): Promise<Response | 'unknown' | 'over'> {
    try {
      const state = await this.#ask()
      if (!(await this.#replay())) {
        this.end()
        return 'unknown'
      }
      await this.#goOn(state)
      const { lastId, response } = this.#stream
      return this.#isComplete && lastId === this.#options.lastEventId ? 'over' : response
    } catch (error) {
      this.end()
      throw error
    }
  }

  /** The writer said something. */
  said({ id, message, isLast }: Extract<SessionSignal, { type: 'event' }>): void {
    this.#note(message)
    if (isLast) this.#finish()
    this.#stream.push(id, message, isLast)
  }

  /** It is read elsewhere from now on. */
  end(): void {
    this.#undoRenewal?.()
    this.#stream.end()
  }

  /** Its client has gone. @returns whether it has all of it */
  close(): boolean {
    this.#undoRenewal?.()
    return this.#isComplete
  }

  /** Twice, before it is taken for dead. */
  async #ask(): Promise<string | undefined> {
    const { ask, place } = this.#options
    const signal: SessionSignal = { type: 'follow', stream: place.stream }
    return (await ask(signal)) ?? (await ask(signal))
  }

  /** Writes what was kept since, before what is said meanwhile. @returns `false`: that is not known any more */
  async #replay(): Promise<boolean> {
    const { events, place } = this.#options
    this.#stream.wait()
    try {
      const kept = await events.after(place, this.#stream.lastId)
      for (const { id, event } of kept ?? []) {
        this.#note(event)
        this.#stream.replay(id, event)
      }
      return kept !== undefined
    } finally {
      this.#stream.goOn()
    }
  }

  async #goOn(state: string | undefined): Promise<void> {
    if (state === 'open') return this.#renewLater()
    if (state !== 'lost') await this.#replay() // what was said between the question and now
    // Its client may have the answer, which is then not among what it is told now.
    if (state !== 'whole') await this.#answerAll()
    this.#finish()
    this.#stream.end()
  }

  /** In the name of a process that does so no more. */
  async #answerAll(): Promise<void> {
    const { events, place } = this.#options
    for (const id of this.#unanswered) {
      const error = { code: RPC.refused, message: DIED }
      const message = { jsonrpc: '2.0' as const, id, error }
      const eventId = await events.append(place, message)
      this.#stream.replay(eventId, message)
    }
  }

  #renewLater(): void {
    const { clock, graceMs, onError } = this.#options
    if (!this.#stream.isOpen || this.#isComplete) return
    this.#undoRenewal?.()
    this.#undoRenewal = clock.after(Math.max(100, graceMs), () => {
      this.#renew().catch((error: unknown) => {
        onError(new Error('A call at another process cannot be watched now', { cause: error }))
        this.#renewLater()
      })
    })
  }

  async #renew(): Promise<void> {
    if (!this.#stream.isOpen || this.#isComplete) return
    const state = await this.#ask()
    if (state === 'open') await this.#replay() // signals are not kept: one may have been lost
    if (this.#stream.isOpen && !this.#isComplete) await this.#goOn(state)
  }

  #note(event: unknown): void {
    if (!isRecord(event) || 'method' in event || !('id' in event)) return
    const message = parseJSONRPCMessage(event)
    if ('id' in message && message.id !== undefined) this.#unanswered.delete(message.id)
  }

  #finish(): void {
    this.#isComplete = true
    this.#undoRenewal?.()
  }
}

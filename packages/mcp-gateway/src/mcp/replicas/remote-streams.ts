import type { HttpAnswer } from '../../internal/exchange.ts'
import type { SessionEvents } from '../sessions/session-events.ts'
import { streamOver, unknownEvent } from '../sessions/session-refusals.ts'
import { RemoteStream, type RemoteStreamOptions } from './remote-stream.ts'
import type { SessionSignal } from './session-signal.ts'
import type { StreamPlace } from './stream-name.ts'

export interface RemoteStreamsOptions extends Pick<
  RemoteStreamOptions,
  'clock' | 'graceMs' | 'keepAliveMs' | 'onError'
> {
  /** Asks another process. @returns `undefined`: that has ended */
  readonly ask: (replica: string, signal: SessionSignal) => Promise<string | undefined>
  readonly tell: (signal: SessionSignal) => void
}

export interface RemoteRead {
  readonly events: SessionEvents
  readonly place: StreamPlace & { readonly replica: string }
  /** The last that its client has. */
  readonly lastEventId: string
  readonly headers: Readonly<Record<string, string>>
}

/** Streams of a session that other processes write, and its client reads here. */
export class RemoteStreams {
  readonly #options: RemoteStreamsOptions
  readonly #streams = new Map<string, RemoteStream>()

  constructor(options: RemoteStreamsOptions) {
    this.#options = options
  }

  /** In the place of whoever read it here before. @throws GatewayError `UNAVAILABLE` */
  async read({ place, ...read }: RemoteRead): Promise<HttpAnswer> {
    const { ask, tell } = this.#options
    const { replica, stream: name } = place
    this.end(name)
    const stream = new RemoteStream({
      ...this.#options,
      ...read,
      place,
      ask: (signal) => ask(replica, signal),
    })
    this.#streams.set(name, stream)
    const response = await stream.open().catch((error: unknown) => {
      this.#forget(name, stream)
      throw error
    })
    if (response === 'unknown' || response === 'over') {
      this.#forget(name, stream)
      return response === 'over' ? streamOver() : unknownEvent()
    }
    return {
      response,
      onEnd: () => {
        const isComplete = stream.close()
        // Whoever reads it instead is not to be unfollowed.
        if (this.#forget(name, stream)) tell({ type: 'unfollow', stream: name, isComplete })
      },
    }
  }

  /** The process that writes it said something. */
  said(event: Extract<SessionSignal, { type: 'event' }>): void {
    this.#streams.get(event.stream)?.said(event)
  }

  /** It is read elsewhere from now on. */
  end(name: string): void {
    const stream = this.#streams.get(name)
    this.#streams.delete(name)
    stream?.end()
  }

  endAll(): void {
    for (const name of this.#streams.keys()) this.end(name)
  }

  /** @returns whether it was the one that is read here */
  #forget(name: string, stream: RemoteStream): boolean {
    return this.#streams.get(name) === stream && this.#streams.delete(name)
  }
}

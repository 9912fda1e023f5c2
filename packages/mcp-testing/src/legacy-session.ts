import { EventStream } from './event-stream.ts'
import type { RpcId } from './rpc-message.ts'

/** Finished answer streams kept for resumption. */
const MAX_STREAMS = 50

/** All that a stateful server knows of one session. It dies with the session. */
export class LegacySession {
  /** Absent on a server that assigns none. */
  readonly id: string | undefined
  readonly protocolVersion: string
  /** The stream of the standalone GET. */
  readonly listen: EventStream = new EventStream('listen')
  /** Requests that have not been answered yet, to be cancelled. */
  readonly running: Map<RpcId, AbortController> = new Map()
  readonly cart: string[] = []
  count = 0
  readonly #streams = new Map<string, EventStream>([[this.listen.key, this.listen]])
  #opened = 0

  constructor(id: string | undefined, protocolVersion: string) {
    this.id = id
    this.protocolVersion = protocolVersion
  }

  /** First 4 characters and length of the id. */
  get shortId(): string {
    return this.id === undefined ? 'no session' : `${this.id.slice(0, 4)}… (${this.id.length})`
  }

  /** Cancels the request of this id, if it runs. */
  cancel(id: unknown): void {
    if (typeof id === 'string' || typeof id === 'number') this.running.get(id)?.abort()
  }

  /** A new stream for the answer to one POST. */
  openStream(hasIds: boolean): EventStream {
    const stream = new EventStream(`post${++this.#opened}`, hasIds)
    this.#streams.set(stream.key, stream)
    if (this.#streams.size > MAX_STREAMS) {
      const oldest = [...this.#streams.keys()].find((key) => key !== this.listen.key)
      if (oldest !== undefined) this.#streams.delete(oldest)
    }
    return stream
  }

  streamOf(key: string): EventStream | undefined {
    return this.#streams.get(key)
  }

  /** Answer streams that a client is reading now. */
  get answerStreams(): EventStream[] {
    return [...this.#streams.values()].filter((stream) => stream !== this.listen && stream.open > 0)
  }
}

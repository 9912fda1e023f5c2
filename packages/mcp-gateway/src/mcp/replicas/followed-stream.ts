import type { Clock } from '../../internal/clock.ts'
import { isSilent } from '../sessions/session-events.ts'

export interface FollowedStreamOptions {
  /** The last that its client has. */
  readonly lastEventId: string
  /** Headers of the answer, beside those of every stream of events. */
  readonly headers: Readonly<Record<string, string>>
  readonly keepAliveMs: number
  readonly clock: Clock
}

const HEADERS = {
  'content-type': 'text/event-stream',
  'cache-control': 'no-cache, no-transform',
  connection: 'keep-alive',
  'x-accel-buffering': 'no',
}
const KEEP_ALIVE = ': keepalive\n\n'

/**
 * A stream that another process writes, for a client that came back to it here: first what was kept, then
 * what is said from then on. What arrives while the past is read waits, and comes once.
 */
export class FollowedStream {
  readonly response: Response
  readonly #options: FollowedStreamOptions
  readonly #encoder = new TextEncoder()
  #controller: ReadableStreamDefaultController<Uint8Array> | undefined
  #waiting: (readonly [id: string, message: unknown, isLast: boolean])[] | undefined = []
  #lastId: string
  #undoKeepAlive: () => void

  constructor(options: FollowedStreamOptions) {
    this.#options = options
    this.#lastId = options.lastEventId
    const body = new ReadableStream<Uint8Array>({
      start: (controller) => {
        this.#controller = controller
      },
      cancel: () => this.#close(),
    })
    this.response = new Response(body, { headers: { ...HEADERS, ...options.headers } })
    this.#undoKeepAlive = this.#keepAlive()
  }

  get isOpen(): boolean {
    return this.#controller !== undefined
  }

  /** Id of the last event that its client has, or was sent. */
  get lastId(): string {
    return this.#lastId
  }

  /** The past is read: what is said now waits. */
  wait(): void {
    this.#waiting ??= []
  }

  /** Something of the past. */
  replay(id: string, message: unknown): void {
    this.#write(id, message)
  }

  /** All of the past was written: what waited follows. */
  goOn(): void {
    const waiting = this.#waiting ?? []
    this.#waiting = undefined
    for (const event of waiting) this.push(...event)
  }

  /** Something that is said now; `isLast`: and nothing after it. */
  push(id: string, message: unknown, isLast: boolean): void {
    if (this.#waiting) {
      this.#waiting.push([id, message, isLast])
      return
    }
    if (id > this.#lastId) this.#write(id, message)
    if (isLast) this.end()
  }

  /** The stream is complete, or is read elsewhere. */
  end(): void {
    const controller = this.#controller
    this.#close()
    controller?.close()
  }

  #write(id: string, message: unknown): void {
    if (isSilent(message)) return
    this.#lastId = id
    const text = `event: message\nid: ${id}\ndata: ${JSON.stringify(message)}\n\n`
    this.#controller?.enqueue(this.#encoder.encode(text))
  }

  #keepAlive(): () => void {
    const { clock, keepAliveMs } = this.#options
    if (keepAliveMs <= 0) return () => undefined
    return clock.after(keepAliveMs, () => {
      this.#controller?.enqueue(this.#encoder.encode(KEEP_ALIVE))
      if (this.#controller) this.#undoKeepAlive = this.#keepAlive()
    })
  }

  #close(): void {
    this.#controller = undefined
    this.#undoKeepAlive()
  }
}

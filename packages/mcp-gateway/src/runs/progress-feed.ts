import type { Clock } from '../internal/clock.ts'
import type { RunProgress } from './order.ts'

interface Piece {
  text: string
  bytes: number
  /** A line is a piece of its own. Other pieces are joined. */
  readonly isLine: boolean
}

/** A silent run sends progress this often: many clients give up after 60 s. */
const HEARTBEAT_MS = 15_000
/** Time for which text is collected: a person reads no faster, and a model sends a token every 10 ms. */
const COALESCE_MS = 100
/** Text of so many bytes is sent at once. */
const FLUSH_BYTES = 2048
/** Bytes that wait for a slow client. The oldest pieces are dropped: the result has the whole text. */
const MAX_PENDING_BYTES = 64 * 1024

/** Progress of one run: joins pieces of text, sends one piece at a time with a number, and sends a heartbeat in silence. */
export class ProgressFeed {
  readonly #send: RunProgress
  readonly #clock: Clock
  readonly #startedAt: number
  readonly #pending: Piece[] = []
  #pendingBytes = 0
  #count: number
  #sentAt: number
  #isSending = false
  #isStopped = false
  #stopFlush: (() => void) | undefined
  #stopHeartbeat: (() => void) | undefined

  /** @param from number of pieces that earlier executions of the run have sent */
  constructor(send: RunProgress, clock: Clock, from: number) {
    this.#count = from
    this.#send = send
    this.#clock = clock
    this.#startedAt = clock.now()
    this.#sentAt = this.#startedAt
    this.#beatAfter(HEARTBEAT_MS)
  }

  get count(): number {
    return this.#count
  }

  /** Sends the next piece of the answer, after `COALESCE_MS` or when there is enough text. */
  text(text: string): void {
    if (this.#isStopped || text === '') return
    this.#add(text, false)
    if (this.#pendingBytes >= FLUSH_BYTES) this.#flush()
    else this.#stopFlush ??= this.#clock.after(COALESCE_MS, () => this.#flush())
  }

  line(text: string): void {
    if (this.#isStopped || text === '') return
    this.#add(text, true)
    this.#flush()
  }

  /** Sends nothing from now on. `flush`: sends the pieces that wait first. */
  stop({ flush }: { readonly flush: boolean }): void {
    if (this.#isStopped) return
    // Does not wait for a slow client: the pieces are few, and must come before the result.
    if (flush) while (this.#pending.length > 0) void this.#sendNext()
    this.#isStopped = true
    this.#pending.length = 0
    this.#stopFlush?.()
    this.#stopHeartbeat?.()
  }

  #add(text: string, isLine: boolean): void {
    const bytes = Buffer.byteLength(text)
    const last = this.#pending.at(-1)
    if (last !== undefined && !last.isLine && !isLine) {
      last.text += text
      last.bytes += bytes
    } else {
      this.#pending.push({ text, bytes, isLine })
    }
    this.#pendingBytes += bytes
    while (this.#pendingBytes > MAX_PENDING_BYTES) {
      this.#pendingBytes -= this.#pending.shift()?.bytes ?? this.#pendingBytes
    }
  }

  #flush(): void {
    this.#stopFlush?.()
    this.#stopFlush = undefined
    if (!this.#isSending) void this.#drain()
  }

  async #drain(): Promise<void> {
    this.#isSending = true
    while (this.#pending.length > 0 && !this.#isStopped) {
      await this.#sendNext()
    }
    this.#isSending = false
  }

  async #sendNext(): Promise<void> {
    const next = this.#pending.shift()
    if (next === undefined) return
    this.#pendingBytes -= next.bytes
    this.#sentAt = this.#clock.now()
    this.#count += 1
    try {
      await this.#send({ progress: this.#count, message: next.text })
    } catch {
      // The client has left. The signal of the run ends the run.
      this.stop({ flush: false })
    }
  }

  /** One timer, however many pieces are sent. A client that takes nothing delays no later heartbeat. */
  #beatAfter(ms: number): void {
    this.#stopHeartbeat = this.#clock.after(ms, () => {
      const now = this.#clock.now()
      const leftMs = this.#sentAt + HEARTBEAT_MS - now
      const isSilent = leftMs <= 0 || leftMs > HEARTBEAT_MS
      if (isSilent) this.line(`Still working (${Math.round((now - this.#startedAt) / 1000)} s)`)
      this.#beatAfter(isSilent ? HEARTBEAT_MS : leftMs)
    })
  }
}

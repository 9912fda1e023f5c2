import type { StreamingSettings } from '../options.ts'
import type { Clock } from '../internal/clock.ts'
import type { RunProgress } from './run-request.ts'

export interface ProgressOptions extends Pick<StreamingSettings, 'coalesceMs' | 'heartbeatMs'> {
  /** Number of pieces that an earlier part of the same run has sent. */
  readonly from: number
}

/** Text is sent at once when there is so much of it. */
const FLUSH_BYTES = 2048
/** What a slow reader has not taken beyond this is dropped, oldest first: the result holds all of it. */
const MAX_PENDING_BYTES = 64 * 1024

/**
 * Progress of one run, as its client can take it: pieces of text joined, one at a time, numbered upwards, a
 * sign of life in silence, and nothing any more once it is stopped.
 */
export class ProgressFeed {
  readonly #send: RunProgress
  readonly #clock: Clock
  readonly #coalesceMs: number
  readonly #heartbeatMs: number
  readonly #startedAt: number
  readonly #pending: { text: string; bytes: number; isLine: boolean }[] = []
  #pendingBytes = 0
  #count: number
  #isSending = false
  #isStopped = false
  #stopFlush: (() => void) | undefined
  #stopHeartbeat: (() => void) | undefined

  constructor(send: RunProgress, clock: Clock, options: ProgressOptions) {
    const { coalesceMs, heartbeatMs, from } = options
    this.#count = from
    this.#send = send
    this.#clock = clock
    this.#coalesceMs = coalesceMs
    this.#heartbeatMs = heartbeatMs
    this.#startedAt = clock.now()
    this.#armHeartbeat()
  }

  /** The number of the last piece. */
  get count(): number {
    return this.#count
  }

  /** The next piece of the answer. */
  text(text: string): void {
    if (this.#isStopped || text === '') return
    this.#add(text, false)
    if (this.#pendingBytes >= FLUSH_BYTES) this.#flush()
    else this.#stopFlush ??= this.#clock.after(this.#coalesceMs, () => this.#flush())
  }

  /** A line of its own: what happens now. */
  line(text: string): void {
    if (this.#isStopped || text === '') return
    this.#add(text, true)
    this.#flush()
  }

  /** Sends what is left if the run has an answer, and then no more. */
  stop({ flush }: { readonly flush: boolean }): void {
    if (this.#isStopped) return
    // In order, before the result, also for a reader that is still busy with an earlier piece: it is not much.
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
    if (this.#isSending) return
    void this.#drain()
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
    this.#armHeartbeat()
    this.#count += 1
    try {
      await this.#send({ progress: this.#count, message: next.text })
    } catch {
      // Nobody listens any more. The run is ended by its own signal, not by this.
      this.stop({ flush: false })
    }
  }

  #armHeartbeat(): void {
    if (this.#heartbeatMs <= 0) return
    this.#stopHeartbeat?.()
    this.#stopHeartbeat = this.#clock.after(this.#heartbeatMs, () => {
      const seconds = Math.round((this.#clock.now() - this.#startedAt) / 1000)
      this.line(`Still working (${seconds} s)`)
      // A reader that takes nothing keeps the line pending; the next beat comes all the same.
      this.#armHeartbeat()
    })
  }
}

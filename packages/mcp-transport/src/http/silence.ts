import { TransportError } from '../transport-error.ts'
import type { Timeouts } from '../transport-options.ts'
import type { HttpClient, HttpRequest } from './http-client.ts'

/** A request that waits for its answer. */
export interface WaitingCall {
  /** Ticks since something came for it. Written by `SilenceWatch` only, and set to 0 by what comes. */
  quietTicks: number
  /** False while it does not wait for the server: a user signs in, or answers a question. */
  readonly isAwaited: boolean
  /** Ends it. */
  fail(error: TransportError): void
}

export interface SilenceWatchOptions {
  readonly http: HttpClient
  readonly timeouts: Timeouts
  /** The requests that wait now. */
  readonly calls: () => readonly WaitingCall[]
  /** A cheap request that every server answers, with whatever status. */
  readonly check: () => HttpRequest
}

/** The silence of a call is measured in so many parts. */
const TICKS = 6
const CHECKS = 2

/** The checks that are under way, by server: one for all clients of this process. */
const checks = new Map<string, Promise<'alive' | 'gone' | 'unknown'>>()

/**
 * Ends calls on a server that has gone silent: a call for which nothing came for `silentMs` has the server
 * checked by a cheap request on another connection. Two checks without any response, `checkMs` each, end the
 * call; its outcome is unknown. One timer serves all calls of a transport, and there is none while no call waits.
 */
export class SilenceWatch {
  readonly #options: SilenceWatchOptions
  #timer: NodeJS.Timeout | undefined
  #isChecking = false
  #isStopped = false

  constructor(options: SilenceWatchOptions) {
    this.#options = options
  }

  /** Watches from now on, as long as there are calls. */
  start(): void {
    if (this.#timer !== undefined || this.#isStopped) return
    const { silentMs } = this.#options.timeouts
    if (silentMs > 0) this.#timer = setTimeout(() => this.#tick(), silentMs / TICKS).unref()
  }

  stop(): void {
    this.#isStopped = true
    clearTimeout(this.#timer)
  }

  #tick(): void {
    this.#timer = undefined
    const calls = this.#options.calls()
    if (calls.length === 0) return
    this.start()
    for (const call of calls) call.quietTicks = call.isAwaited ? call.quietTicks + 1 : 0
    const silent = calls.filter(isSilent)
    if (silent.length > 0 && !this.#isChecking) void this.#check(silent)
  }

  async #check(silent: readonly WaitingCall[]): Promise<void> {
    this.#isChecking = true
    const state = await this.#checkServer()
    this.#isChecking = false
    if (this.#isStopped || state === 'unknown') return
    for (const call of silent) {
      // Only what stayed silent all the time; whatever came meanwhile has set the count to 0.
      if (state === 'gone' && isSilent(call)) call.fail(this.#gone())
      else call.quietTicks = 0
    }
  }

  #checkServer(): Promise<'alive' | 'gone' | 'unknown'> {
    const { identity } = this.#options.http.url
    const running = checks.get(identity)
    if (running !== undefined) return running
    const own = this.#ask().finally(() => checks.delete(identity))
    checks.set(identity, own)
    return own
  }

  async #ask(): Promise<'alive' | 'gone' | 'unknown'> {
    const { http, timeouts, check } = this.#options
    for (let n = 0; n < CHECKS; n++) {
      const isAnswered = await http.isAnswered(check(), timeouts.checkMs)
      if (isAnswered === undefined) return 'unknown'
      if (isAnswered) return 'alive'
    }
    return 'gone'
  }

  #gone(): TransportError {
    const { http, timeouts } = this.#options
    const url = http.url.display
    const message = `${url} went silent: nothing came for ${timeouts.silentMs} ms, and ${CHECKS} checks on another connection had no response within ${timeouts.checkMs} ms each. The request may have been executed`
    return new TransportError('OUTCOME_UNKNOWN', message, { url })
  }
}

function isSilent({ quietTicks }: WaitingCall): boolean {
  return quietTicks >= TICKS
}

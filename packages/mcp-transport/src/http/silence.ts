import { TransportError } from '../transport-error.ts'
import type { Timeouts } from '../transport-options.ts'
import type { HttpClient, HttpRequest } from './http-client.ts'

/** A request without an answer. */
export interface WaitingCall {
  /** Number of ticks without data. Increased by `SilenceWatch`; incoming data sets it to 0. */
  quietTicks: number
  /** False while the request waits for a user, and not for the server. */
  readonly isAwaited: boolean
  fail(error: TransportError): void
}

export interface SilenceWatchOptions {
  readonly http: HttpClient
  readonly timeouts: Timeouts
  /** Returns the requests that wait now. */
  readonly calls: () => readonly WaitingCall[]
  /** Creates a cheap request that every server answers, with any status. */
  readonly check: () => HttpRequest
}

/** Number of ticks until a request counts as silent. */
const TICKS = 6
const CHECKS = 2

/** Checks in progress by server, shared by all clients of the process. */
const checks = new Map<string, Promise<'alive' | 'gone' | 'unknown'>>()

/**
 * Ends calls to a server that stopped responding. After `silentMs` without data for a call, a cheap request on
 * another connection checks the server. Two checks without any response within `checkMs` each end the call with
 * an unknown outcome. A transport has one timer for all its calls, and none without calls.
 */
export class SilenceWatch {
  readonly #options: SilenceWatchOptions
  #timer: NodeJS.Timeout | undefined
  #isChecking = false
  #isStopped = false

  constructor(options: SilenceWatchOptions) {
    this.#options = options
  }

  /** Watches as long as there are calls. */
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
      // Data during the check has set the count to 0.
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
    const message = `${url} stopped responding: it sent nothing for ${timeouts.silentMs} ms, and ${CHECKS} checks on another connection had no response within ${timeouts.checkMs} ms each. The request may have been executed`
    return new TransportError('OUTCOME_UNKNOWN', message, { url })
  }
}

function isSilent({ quietTicks }: WaitingCall): boolean {
  return quietTicks >= TICKS
}

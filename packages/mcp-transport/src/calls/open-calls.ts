import { removeFrom } from '@x/internal'
import type { FailureStreak } from '@x/internal'
import type { HttpClient } from '../http/http-client.ts'
import type { Answer } from '../json-rpc.ts'
import { toTransportError, TransportError } from '../transport-error.ts'
import type { Timeouts } from '../transport-options.ts'
import { Call } from './call.ts'
import type { Attempt } from './call.ts'

/** Replaces a lost server or session. Set if the transport does so for its client. */
export interface CallRecovery {
  /**
   * Resolves when another session is open, or the server needs none.
   *
   * @throws TransportError if that failed
   */
  replace(attempt: Attempt): Promise<unknown>
  /** Sends a request to the server as it is now. */
  sendAgain(call: Call): Promise<void> | undefined
  /** Failures in a row. Calls that failed together count as one failure. */
  readonly streak: FailureStreak
  /**
   * Tests the server with a cheap request, and starts from nothing if it fails: a server may refuse a forgotten session,
   * or an era that it has lost, in a form that looks like any error. If it refuses that too, all stays as it is. Never
   * rejects.
   */
  test(): Promise<void>
}

export interface OpenCallsOptions {
  readonly http: HttpClient
  readonly timeouts: Timeouts
  readonly recovery: CallRecovery | undefined
}

/** Number of ticks until a call counts as silent. */
const TICKS = 6
const CHECKS = 2

/**
 * Checks in progress by server and session, shared by all clients of the process. A gateway may pass two sessions to
 * two servers, of which one is silent.
 */
const checks = new Map<string, Promise<'alive' | 'gone' | 'unknown'>>()

/**
 * The client's requests without an answer, whatever the server speaks. Each gets one outcome: an answer of the server,
 * or a failure. With `recovery`, a call that lost its session waits for the next session, and is sent again at most once.
 *
 * Ends calls to a server that stopped responding. After `silentMs` without data for a call, a cheap request on
 * another connection checks the server. Two checks without any response within 10 s each end the call. Its
 * outcome is unknown, unless the call still waits for a connection. There is one timer for all calls, and none without calls.
 */
export class OpenCalls {
  readonly #options: OpenCallsOptions
  readonly #calls: Call[] = []
  #timer: NodeJS.Timeout | undefined
  #isChecking = false
  /** 0 is the id of `initialize`. */
  #nextId = 1
  /** Called when a call has ended, or has left its session. */
  #onLeft: (() => void)[] | undefined

  constructor(options: OpenCallsOptions) {
    this.#options = options
  }

  /** Number of the next request. */
  nextId(): number {
    return this.#nextId++
  }

  /** Opens a call, which is not sent yet. */
  open({ request, options, onSettled }: Pick<Call, 'request' | 'options' | 'onSettled'>): Call {
    const call = new Call({ id: this.#nextId++, request, options, onSettled })
    call.failuresBefore = this.#options.recovery?.streak.count ?? 0
    this.#calls.push(call)
    if (this.#timer === undefined) this.#startTimer()
    return call
  }

  find(id: number): Call | undefined {
    return this.#calls.find((call) => call.id === id)
  }

  has(call: Call): boolean {
    return this.#calls.includes(call)
  }

  /** Removes a call: it gets no outcome any more. Returns false if it had one, or was removed before. */
  remove(call: Call): boolean {
    const wasOpen = removeFrom(this.#calls, call)
    this.#left()
    return wasOpen
  }

  /** Ends a call without an outcome, because the client cancelled it. */
  drop(call: Call): void {
    this.remove(call)
    call.attempt?.close(this.#options.http.closed('The client cancelled the request'))
  }

  /** Resolves when no open call matches. */
  async ended(matches: (call: Call) => boolean): Promise<void> {
    while (this.#calls.some(matches)) {
      await new Promise<void>((resolve) => (this.#onLeft ??= []).push(resolve))
    }
  }

  /** Takes the outcome of an attempt, unless the call has ended. With `recovery`, a lost call is sent again first. */
  settle(call: Call, attempt: Attempt, outcome: Answer | TransportError): void {
    const { recovery } = this.#options
    if (call.attempt !== attempt) return
    if (recovery === undefined || call.options.endsWithSession === true) {
      return this.#give(call, outcome)
    }
    const isLoss = TransportError.is(outcome) && outcome.code === 'SESSION_LOST'
    if (!isLoss) this.#finish(call, outcome, recovery)
    else if (this.has(call)) void this.#recover(call, attempt, { loss: outcome, recovery })
  }

  /** Ends all calls immediately. */
  failAll(why: string, matches: (call: Call) => boolean = () => true): void {
    for (const call of this.#calls.filter(matches)) {
      const error = this.#options.http.closed(why, call.isSent ? 'unknown' : 'not-executed')
      this.fail(call, error)
    }
  }

  /** Ends a call with a failure of this side. */
  fail(call: Call, error: TransportError): void {
    if (!this.remove(call)) return // cancelled meanwhile
    call.attempt?.close(error)
    call.onSettled(error)
  }

  /** Ends all calls, and stops the timer. */
  close(why: string): void {
    clearTimeout(this.#timer)
    this.failAll(why)
  }

  #left(): void {
    if (this.#onLeft !== undefined) for (const listener of this.#onLeft.splice(0)) listener()
  }

  /** Gives an outcome. Tests the server first after three failures, so that the next call succeeds. */
  #finish(call: Call, outcome: Answer | TransportError, recovery: CallRecovery): void {
    if (this.has(call)) {
      const { streak } = recovery
      if ('result' in outcome) streak.end()
      else if (isFailure(outcome) && call.failuresBefore === streak.count) streak.add()
      if (streak.isTooLong) return void recovery.test().then(() => this.#give(call, outcome))
    }
    this.#give(call, outcome)
  }

  #give(call: Call, outcome: Answer | TransportError): void {
    if (this.remove(call)) call.onSettled(outcome)
  }

  /** Opens a session in any case. A request that the server may have executed fails with the loss. */
  async #recover(
    call: Call,
    attempt: Attempt,
    { loss, recovery }: { loss: TransportError; recovery: CallRecovery },
  ): Promise<void> {
    try {
      await recovery.replace(attempt)
    } catch (error) {
      if (loss.certain !== true) return this.#finish(call, loss, recovery)
      // The call was refused before the handshake, so it was not executed.
      const failure = toTransportError(error)
      const code = failure.code === 'OUTCOME_UNKNOWN' ? 'UNREACHABLE' : failure.code
      return this.#finish(call, failure.with({ code, outcome: loss.outcome }), recovery)
    }
    if (loss.certain !== true || call.wasRepeated) return this.#finish(call, loss, recovery)
    if (!this.has(call)) return
    call.wasRepeated = true
    call.attempt = undefined
    call.quietTicks = 0
    call.failuresBefore = recovery.streak.count
    this.#left()
    try {
      await recovery.sendAgain(call)
    } catch (error) {
      this.#give(call, toTransportError(error))
    }
  }

  #startTimer(): void {
    const { silentMs } = this.#options.timeouts
    if (silentMs > 0) this.#timer = setTimeout(() => this.#tick(), silentMs / TICKS).unref()
  }

  #tick(): void {
    this.#timer = undefined
    if (this.#calls.length === 0) return
    this.#startTimer()
    for (const call of this.#calls) {
      const isAwaited = call.attempt?.check !== undefined && call.attempt.isAwaited
      call.quietTicks = isAwaited ? call.quietTicks + 1 : 0
    }
    const first = this.#calls.find(isSilent)
    if (first !== undefined && !this.#isChecking) void this.#checkSilent(first)
  }

  /** Checks the server of a silent call, for all silent calls of the same session. Others are checked later. */
  async #checkSilent(first: Call): Promise<void> {
    const sessionId = first.attempt?.session?.id
    const silent = this.#calls.filter(
      (call) => isSilent(call) && call.attempt?.session?.id === sessionId,
    )
    this.#isChecking = true
    const state = await this.#checkServer(first.attempt, sessionId)
    this.#isChecking = false
    if (state === 'unknown') return
    for (const call of silent) {
      // Data during the check has set the count to 0.
      if (state === 'alive' || !isSilent(call)) call.quietTicks = 0
      else this.#endSilent(call)
    }
  }

  #endSilent(call: Call): void {
    const { attempt } = call
    if (attempt === undefined || !this.has(call)) return
    const error = this.#gone(attempt)
    this.settle(call, attempt, error)
    attempt.close(error)
  }

  #checkServer(
    attempt: Attempt | undefined,
    sessionId = '',
  ): Promise<'alive' | 'gone' | 'unknown'> {
    const key = `${this.#options.http.url.identity} ${sessionId}`
    const running = checks.get(key)
    if (running !== undefined) return running
    const own = this.#ask(attempt).finally(() => checks.delete(key))
    checks.set(key, own)
    return own
  }

  async #ask(attempt: Attempt | undefined): Promise<'alive' | 'gone' | 'unknown'> {
    const { http, timeouts } = this.#options
    for (let n = 0; n < CHECKS; n++) {
      const asked = attempt?.check?.()
      if (asked === undefined) return 'unknown'
      // Like a stream, the check must not wait behind calls that use all connections.
      const request = {
        ...asked,
        method: 'POST',
        headersMs: 0,
        idleMs: 0,
        isLongLived: true,
      } as const
      const isAnswered = await http.isAnswered(request, checkMs(timeouts))
      if (isAnswered === undefined) return 'unknown'
      if (isAnswered) return 'alive'
    }
    return 'gone'
  }

  #gone({ isSent }: Attempt): TransportError {
    const { http, timeouts } = this.#options
    const message = `${http.url.display} stopped responding: it sent nothing for ${timeouts.silentMs} ms, and ${CHECKS} checks on another connection had no response within ${checkMs(timeouts)} ms each`
    return isSent
      ? http.error('OUTCOME_UNKNOWN', `${message}. The request may have been executed`)
      : http.error('UNREACHABLE', `${message}. The request was not sent`)
  }
}

/** Time limit of one check. */
function checkMs({ silentMs }: Timeouts): number {
  return Math.min(silentMs, 10_000)
}

function isSilent({ quietTicks }: Call): boolean {
  return quietTicks >= TICKS
}

/** Returns whether a request failed at the server or on the way to it, and not on this side. */
function isFailure(outcome: Answer | TransportError): boolean {
  if (!TransportError.is(outcome)) return true
  const { code, status } = outcome
  // Without a status, the provider had no token, and nothing was sent.
  return code !== 'CLOSED' && code !== 'CONFIG' && (code !== 'UNAUTHORIZED' || status !== undefined)
}

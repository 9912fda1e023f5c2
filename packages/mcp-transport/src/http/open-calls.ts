import { removeFrom } from '@x/internal'
import type { FailureStreak } from '@x/internal'
import type { JsonRpcError, JsonRpcRequest, JsonRpcResponse, RequestId } from '../json-rpc.ts'
import { errorAnswer, toTransportError, TransportError } from '../transport-error.ts'
import type { CallOptions, Timeouts } from '../transport-options.ts'
import type { HttpClient, HttpRequest } from './http-client.ts'

/** A request of the client without an answer. */
export interface OpenCall {
  readonly request: JsonRpcRequest
  readonly options: CallOptions
  /** Session of the request. Undefined in the stateless revision. */
  readonly session: { readonly id: string | undefined } | undefined
  /** Number of ticks without data. Increased by `OpenCalls`; incoming data sets it to 0. */
  quietTicks: number
  /** Number of failures in a row before this call. Set by `OpenCalls`. */
  failuresBefore: number
  /** False while the call waits for a user, and not for the server. */
  readonly isAwaited: boolean
  /** True if the server may have received the request. If it is false, `fail` ensures that nothing is ever sent. */
  readonly isSent: boolean
  /** Closes the streams of the call, and answers it with the error. */
  fail(error: TransportError): void
}

/** Replaces a lost server or session. Set if the transport does so for its client. */
export interface CallRecovery<Call> {
  /**
   * Resolves when another session is open, or the server needs none.
   *
   * @throws TransportError if that failed
   */
  replace(call: Call): Promise<unknown>
  /** Sends a request to the server as it is now. It can be cancelled as soon as this method returns a promise. */
  sendAgain(request: JsonRpcRequest, options: CallOptions): Promise<void>
  /** Failures in a row. Calls that failed together count as one failure. */
  readonly streak: FailureStreak
  /**
   * Tests the server with a cheap request, and starts from nothing if it fails: a server may refuse a forgotten session,
   * or an era that it has lost, in a form that looks like any error. If it refuses that too, all stays as it is. Never
   * rejects.
   */
  test(): Promise<void>
}

export interface OpenCallsOptions<Call> {
  readonly http: HttpClient
  readonly timeouts: Timeouts
  /** Passes the answer of a request to the client. */
  readonly deliver: (answer: JsonRpcResponse, request: JsonRpcRequest) => void
  /** Creates a cheap request that every server answers, with any status, to check the server of a call. */
  readonly check: (call: Call) => Pick<HttpRequest, 'era' | 'sessionId' | 'headers' | 'body'>
  readonly recovery: CallRecovery<Call> | undefined
}

/** Number of ticks until a call counts as silent. */
const TICKS = 6
const CHECKS = 2

/**
 * Checks in progress by server and session, shared by all clients of the process. A gateway may pass two sessions to
 * two servers, of which one is silent.
 */
const checks = new Map<string, Promise<'alive' | 'gone' | 'unknown'>>()

/** Requests that were sent again. They are not sent a third time. */
const sentAgain = new WeakSet<JsonRpcRequest>()

/**
 * The client's requests without an answer. Each gets one answer: of the server, or a failure. With `recovery`, a
 * call that lost its session waits for the next session, and is sent again at most once.
 *
 * Ends calls to a server that stopped responding. After `silentMs` without data for a call, a cheap request on
 * another connection checks the server. Two checks without any response within 10 s each end the call. Its
 * outcome is unknown, unless the call still waits for a connection. There is one timer for all calls, and none without calls.
 */
export class OpenCalls<Call extends OpenCall> {
  readonly #options: OpenCallsOptions<Call>
  readonly #calls: Call[] = []
  #timer: NodeJS.Timeout | undefined
  #isChecking = false
  /** Called when a call is removed. */
  #onRemoved: (() => void)[] | undefined

  constructor(options: OpenCallsOptions<Call>) {
    this.#options = options
  }

  add(call: Call): void {
    const { recovery } = this.#options
    if (recovery !== undefined) call.failuresBefore = recovery.streak.count
    this.#calls.push(call)
    if (this.#timer === undefined) this.#startTimer()
  }

  find(id: RequestId): Call | undefined {
    return this.#calls.findLast(({ request }) => request.id === id)
  }

  /** Removes a call: it gets no answer any more. Returns false if it was answered or removed before. */
  remove(call: Call): boolean {
    const wasOpen = removeFrom(this.#calls, call)
    for (const listener of this.#onRemoved?.splice(0) ?? []) listener()
    return wasOpen
  }

  /** Resolves when no open call matches. */
  async ended(matches: (call: Call) => boolean): Promise<void> {
    while (this.#calls.some(matches)) {
      await new Promise<void>((resolve) => (this.#onRemoved ??= []).push(resolve))
    }
  }

  /** Answers a call, unless it was removed. With `recovery`, a lost call is sent again first. */
  settle(call: Call, answer: JsonRpcResponse): void {
    const { recovery } = this.#options
    const loss = recovery === undefined ? undefined : getSessionLoss(answer)
    if (recovery === undefined || loss === undefined) this.#finish(call, answer)
    else if (this.#calls.includes(call)) void this.#recover(call, answer, { loss, recovery })
  }

  /** Answers all calls immediately. */
  failAll(why: string): void {
    for (const call of this.#calls.slice()) {
      if (!this.remove(call)) continue // cancelled meanwhile
      const error = this.#options.http.closed(why, call.isSent ? 'unknown' : 'not-executed')
      call.fail(error)
      this.#options.deliver(errorAnswer(call.request.id, error), call.request)
    }
  }

  /** Answers all calls, and stops the timer. */
  close(why: string): void {
    clearTimeout(this.#timer)
    this.failAll(why)
  }

  /** Gives an answer. With `recovery`, tests the server first after three failures, so that the next call succeeds. */
  #finish(call: Call, answer: JsonRpcResponse): void {
    const { recovery } = this.#options
    if (recovery !== undefined && this.#calls.includes(call)) {
      const { streak } = recovery
      if ('result' in answer) streak.end()
      else if (isFailure(answer) && call.failuresBefore === streak.count) streak.add()
      if (streak.isTooLong) return void recovery.test().then(() => this.#give(call, answer))
    }
    this.#give(call, answer)
  }

  #give(call: Call, answer: JsonRpcResponse): void {
    if (this.remove(call)) this.#options.deliver(answer, call.request)
  }

  /** Opens a session in any case. A request that the server may have executed fails with the loss. */
  async #recover(
    call: Call,
    answer: JsonRpcResponse,
    { loss, recovery }: { loss: TransportError; recovery: CallRecovery<Call> },
  ): Promise<void> {
    try {
      await recovery.replace(call)
    } catch (error) {
      if (loss.certain !== true) return this.#finish(call, answer)
      // The call was refused before the handshake, so it was not executed.
      const failure = toTransportError(error)
      const code = failure.code === 'OUTCOME_UNKNOWN' ? 'UNREACHABLE' : failure.code
      const refused = failure.with({ code, outcome: loss.outcome })
      return this.#finish(call, errorAnswer(call.request.id, refused))
    }
    const { request, options } = call
    if (loss.certain !== true || sentAgain.has(request)) return this.#finish(call, answer)
    if (!this.remove(call)) return
    sentAgain.add(request)
    await recovery
      .sendAgain(request, options)
      .catch((error: unknown) =>
        this.#options.deliver(errorAnswer(request.id, toTransportError(error)), request),
      )
  }

  #startTimer(): void {
    const { silentMs } = this.#options.timeouts
    if (silentMs > 0) this.#timer = setTimeout(() => this.#tick(), silentMs / TICKS).unref()
  }

  #tick(): void {
    this.#timer = undefined
    if (this.#calls.length === 0) return
    this.#startTimer()
    for (const call of this.#calls) call.quietTicks = call.isAwaited ? call.quietTicks + 1 : 0
    const first = this.#calls.find(isSilent)
    if (first !== undefined && !this.#isChecking) void this.#checkSilent(first)
  }

  /** Checks the server of a silent call, for all silent calls of the same session. Others are checked later. */
  async #checkSilent(first: Call): Promise<void> {
    const silent = this.#calls.filter(
      (call) => isSilent(call) && call.session?.id === first.session?.id,
    )
    this.#isChecking = true
    const state = await this.#checkServer(first)
    this.#isChecking = false
    if (state === 'unknown') return
    for (const call of silent) {
      // Data during the check has set the count to 0.
      if (state === 'alive' || !isSilent(call)) call.quietTicks = 0
      else if (this.#calls.includes(call)) call.fail(this.#gone(call))
    }
  }

  #checkServer(call: Call): Promise<'alive' | 'gone' | 'unknown'> {
    const key = `${this.#options.http.url.identity} ${call.session?.id ?? ''}`
    const running = checks.get(key)
    if (running !== undefined) return running
    const own = this.#ask(call).finally(() => checks.delete(key))
    checks.set(key, own)
    return own
  }

  async #ask(call: Call): Promise<'alive' | 'gone' | 'unknown'> {
    const { http, timeouts, check } = this.#options
    for (let n = 0; n < CHECKS; n++) {
      // Like a stream, the check must not wait behind calls that use all connections.
      const request = {
        ...check(call),
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

  #gone({ isSent }: Call): TransportError {
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

function isSilent({ quietTicks }: OpenCall): boolean {
  return quietTicks >= TICKS
}

/** Returns whether a request failed at the server or on the way to it, and not on this side. */
function isFailure({ error: { data } }: JsonRpcError): boolean {
  return !TransportError.is(data) || (data.code !== 'CLOSED' && data.code !== 'CONFIG')
}

/** Returns the `SESSION_LOST` error of an answer. It is certain if nothing was executed. */
function getSessionLoss(answer: JsonRpcResponse): TransportError | undefined {
  const data = 'error' in answer ? answer.error.data : undefined
  return TransportError.is(data) && data.code === 'SESSION_LOST' ? data : undefined
}

import { isRecord, untilAborted } from '@x/internal'
import { ResultSchema as AnyResultSchema } from '@modelcontextprotocol/sdk/types.js'
import { TransportError } from '@x/mcp-transport'
import type { InputAnswers, RequestOutcome } from '@x/mcp-transport'
import { Deadline } from './deadline.ts'
import {
  getOperationName,
  getOutcome,
  getTransportError,
  McpClientError,
  notExecuted,
  toOperationError,
} from './errors.ts'
import { messageHandlers } from './handlers.ts'
import { KeyedCall, KEYED_RETRIES } from './idempotency.ts'
import type { McpSession } from './mcp-session.ts'
import { DEFAULT_TIMEOUT_MS } from './options.ts'
import type { CallOptions, CallToolOptions } from './options.ts'
import { sendRequest } from './requests.ts'
import type { ResultSchema, SendOptions } from './requests.ts'
import { isAway, recoveryDelayMs, retryDelayMs, systemTiming } from './retry.ts'
import type { RetryTiming } from './retry.ts'
import { inOwnRun } from './run-scope.ts'
import type { ClientSetup, ScopeSlot } from './scope-slot.ts'
import type { ScopeSlots } from './scope-slots.ts'
import type { OpenCall, TrackedCall } from './session-calls.ts'
import type { LastError } from './session-state.ts'
import type { ObservedOperation } from './telemetry.ts'

/** A request of the caller, or all requests for the pages of one list. */
export type Operation<T> = RequestOperation<T> | ListOperation<T>

interface Repeatable extends ObservedOperation {
  /** A second execution has no further effect. */
  readonly isSafe: boolean
}

export interface RequestOperation<T> extends Repeatable {
  readonly params: Readonly<Record<string, unknown>> | undefined
  readonly schema: ResultSchema<T>
}

interface ListOperation<T> extends Repeatable {
  /** Reads all pages of a list. `signal` limits the operation. */
  readonly readList: (requestPage: RequestPage, signal: AbortSignal) => Promise<T>
}

/**
 * Requests the page at a cursor; without a cursor, the first page. Returns the result unchecked.
 *
 * @param signal for a list that several operations share. Default: that of the operation
 */
export type RequestPage = (
  cursor: string | undefined,
  signal?: AbortSignal,
) => Promise<Readonly<Record<string, unknown>>>

/** The slot that serves an operation, and the options of the caller. */
export interface Lease {
  readonly slot: ScopeSlot
  /** Attributes messages of the server to this call. Undefined if the server cannot send requests in it. */
  readonly call: TrackedCall | undefined
  readonly options: CallToolOptions
}

/** Values that all attempts of one operation share. */
export interface Attempt extends Pick<SendOptions, 'timeout' | 'onprogress' | 'headers'> {
  /** Limits the whole operation. */
  readonly signal: AbortSignal
  /** A second execution has no further effect, or the caller allows it. */
  readonly mayRunTwice: boolean
  readonly call?: TrackedCall | undefined
  /** Questions of the server are returned instead of the result. @default the handlers answer them */
  readonly surface?: boolean | undefined
  /** The round of a call to send, instead of the whole call. */
  resume?: InputAnswers | undefined
  /** Called before the request is sent. @throws if it must not be sent in the current session */
  readonly assertSendable?: (() => void | Promise<void>) | undefined
  /** The request of the current attempt was passed to the connection. */
  isSent?: boolean
}

/** Requests during which no server sends requests to the client. */
const QUIET_METHODS = /^ping$|\/list$|\/(un)?subscribe$|^logging\/setLevel$/

/** Runs the operations of one client: takes the slot of their scope, and sends them in its session. */
export class Operations {
  readonly setup: ClientSetup
  /** Name of the server in messages. */
  readonly server: string
  /** Limit of one operation without a limit of its own, in milliseconds. */
  readonly timeoutMs: number
  readonly timing: RetryTiming
  readonly #slots: ScopeSlots
  /** Error of the last operation that failed, in any scope. */
  lastError: LastError | undefined

  constructor(setup: ClientSetup, slots: ScopeSlots) {
    const { timeoutMs = DEFAULT_TIMEOUT_MS, retryTiming = systemTiming } = setup.options
    this.setup = setup
    this.server = setup.server
    this.timeoutMs = timeoutMs
    this.timing = retryTiming
    this.#slots = slots
  }

  /** Runs one request in the slot of its scope. */
  request<T>(operation: Operation<T>, options: CallOptions): Promise<T> {
    return this.use({ method: operation.method }, options, (lease) => this.run(operation, lease))
  }

  /** Calls `use` with the slot that serves a call. */
  async use<T>(
    opening: OpenCall,
    given: CallOptions,
    use: (lease: Lease) => Promise<T>,
  ): Promise<T> {
    try {
      // A list needs no state of a session, and is read while agents are built.
      const isAlone =
        given.scope === undefined && opening.method.endsWith('/list') && this.#slots.needsRun
      if (isAlone) return await inOwnRun(() => this.use(opening, given, use))
      const { slot, signal } = this.#slots.acquire(given.scope)
      const { calls } = slot
      const call = QUIET_METHODS.test(opening.method) ? undefined : calls?.start(opening)
      try {
        const options = signal === undefined ? given : withSignal(given, signal)
        return await use({ slot, call, options })
      } catch (error) {
        if (call !== undefined) calls?.failed(call, error)
        throw error
      } finally {
        if (call !== undefined) calls?.end(call)
        this.#slots.release(slot)
      }
    } catch (error) {
      if (McpClientError.is(error)) {
        const { code, message } = error
        this.lastError = { code, message, at: new Date().toISOString() }
      }
      throw error
    }
  }

  /** Runs an operation to its end, within one time limit. */
  async run<T>(operation: Operation<T>, { slot, call, options }: Lease): Promise<T> {
    const { timeout = this.setup.options.timeout, onProgress, idempotent = false } = options
    const { idempotencyKey, sentAt, resume, inputRequired } = options
    const headers = headersOf(options, this.server)
    const isExtended = operation.tool !== undefined && timeout?.resetOnProgress === true
    // Not `using`, which takes V8 longer than the rest of this method.
    const deadline = new Deadline(
      options.timeoutMs ?? this.timeoutMs,
      options.signal,
      isExtended ? timeout.maxMs : undefined,
    )
    const key =
      idempotencyKey === undefined ? undefined : new KeyedCall(slot, operation.tool, sentAt)
    const attempt: Attempt = {
      signal: deadline.signal,
      mayRunTwice: operation.isSafe || idempotent,
      onprogress: isExtended
        ? (progress) => {
            deadline.extend()
            onProgress?.(progress)
          }
        : onProgress,
      call,
      headers,
      surface: inputRequired === 'surface',
      resume,
      assertSendable: key === undefined || idempotent ? undefined : () => key.assertSendable(),
    }
    // Earlier rounds, or an earlier process, may have executed the call.
    const isNew = resume === undefined && sentAt === undefined
    const outcome = isNew ? 'not-executed' : 'unknown'
    const retries: Retries = { slot, attempt, deadline, key, idempotent, outcome, count: 0 }
    try {
      return await slot.observer.operation(operation, () =>
        sendUntilSettled(slot, { operation, attempt }, (failure) =>
          this.#sendAgain(failure, operation, retries),
        ),
      )
    } finally {
      deadline[Symbol.dispose]()
    }
  }

  /**
   * Waits until a failed operation may be sent again: if that is harmless, within its time limit.
   *
   * @throws the error for the caller, if it must not
   */
  async #sendAgain(
    failure: unknown,
    operation: ObservedOperation,
    retries: Retries,
  ): Promise<void> {
    const { slot, attempt, deadline, key, idempotent } = retries
    const { maxRetries, replay = 'session-loss' } = this.setup.options
    const { server, timing } = this
    const { signal } = attempt
    const { tool } = operation
    if (attempt.isSent === true && getOutcome(failure) !== 'not-executed') {
      retries.outcome = 'unknown'
    }
    const { outcome } = retries
    const evidence = slot.connection?.evidence
    const context = { ...operation, server, signal, outcome, evidence, tried: key }
    attempt.resume = getTransportError(failure)?.resume ?? attempt.resume
    if (signal.aborted) throw toOperationError(failure, context)
    const hasKey = key?.isHonoured === true
    // Without `maxRetries`, a call with a key waits for a server that is away until the time limit.
    const waits = hasKey && isAway(failure)
    if (!waits || maxRetries !== undefined) retries.count++
    if (retries.count > (maxRetries ?? (hasKey ? KEYED_RETRIES : 1)))
      throw toOperationError(failure, context)
    const isTrusted =
      replay === 'idempotent' && tool !== undefined && slot.tools.isDeclaredIdempotent(tool)
    const mayRunTwice = attempt.mayRunTwice || isTrusted
    const rules = { policy: replay, isAllowed: idempotent, mayRunTwice, hasKey }
    const asked = retryDelayMs(failure, rules, deadline.leftMs)
    if (asked === undefined) throw toOperationError(failure, context)
    const needsKey = key?.failed(failure, rules) === true
    // After a broken connection, the server may need a moment to come back.
    const delayMs =
      key !== undefined && (waits || needsKey)
        ? Math.max(asked, recoveryDelayMs(key.failures + 1, timing))
        : asked
    slot.log('info', `${getOperationName(operation)} is sent again`, failure)
    if (delayMs === 0) return
    const ended = AbortSignal.any([signal, slot.closing])
    await timing.wait(delayMs, ended).catch((reason: unknown) => {
      throw toOperationError(ended.aborted ? ended.reason : reason, context)
    })
  }
}

/** Values that decide whether an operation is sent again. */
interface Retries {
  readonly slot: ScopeSlot
  readonly attempt: Attempt
  readonly deadline: Deadline
  readonly key: KeyedCall | undefined
  /** The caller allows a second execution. */
  readonly idempotent: boolean
  /** Outcome of all attempts so far. */
  outcome: RequestOutcome
  /** Number of retries so far. */
  count: number
}

interface Sending<T> {
  readonly operation: Operation<T>
  readonly attempt: Attempt
}

/** Waits until a failed request may be sent again. @throws the error for the caller, if it must not */
type SendAgain = (failure: unknown) => Promise<void>

/**
 * Sends a request until it is settled, each time in the session that is there then. Opens a session if there is none.
 * Nothing else in this package sends a request twice.
 */
export async function sendUntilSettled<T>(
  slot: ScopeSlot,
  sending: Sending<T>,
  sendAgain: SendAgain,
): Promise<T> {
  const { attempt } = sending
  const { signal, headers } = attempt
  for (;;) {
    attempt.isSent = false
    let session: McpSession | undefined
    let failure: unknown
    try {
      if (headers !== undefined && slot.connection?.endpoint === undefined) {
        await slot.assertTakesHeaders(signal)
      }
      const known = slot.session
      session = known?.isHolding === false ? known : await slot.ready(signal)
      session.enter()
      // During each check, another session may replace this one.
      const check = attempt.mayRunTwice ? undefined : slot.checkAfterTrouble(session)
      if (check !== undefined) {
        await untilAborted(check, signal)
        if (slot.session !== session) continue
      }
      const asserted = attempt.assertSendable?.()
      if (asserted !== undefined) {
        await untilAborted(asserted, signal)
        if (slot.session !== session) continue
      }
      attempt.isSent = true
      const result = await send(slot, session, sending)
      slot.succeeded(session)
      return result
    } catch (error) {
      const reason = isStoppedByInput(error) ? (attempt.call?.inputFailure ?? error) : error
      failure = session === undefined ? error : slot.failed(session, reason, signal)
    } finally {
      session?.leave()
    }
    await sendAgain(failure)
  }
}

/** True if the connection has ended a call because an answer of this client is missing. No response says that. */
function isStoppedByInput(error: unknown): boolean {
  const { code, status } = getTransportError(error) ?? {}
  return code === 'REJECTED' && status === undefined
}

/** Sends the request of an operation, or the requests for all pages of a list. */
function send<T>(
  slot: ScopeSlot,
  session: McpSession,
  { operation, attempt }: Sending<T>,
): Promise<T> {
  const { method } = operation
  const { connection } = session
  const { call, resume: answers, surface, signal, timeout, onprogress, headers } = attempt
  if (call !== undefined) slot.calls?.sent(call, session)
  const options: SendOptions = {
    signal,
    timeout,
    onprogress,
    headers,
    inputs: answers === undefined && surface !== true ? undefined : { answers, surface },
    handlers: call === undefined ? undefined : messageHandlers(slot, call),
    onCancelFailed: (error) =>
      slot.log('warning', `the cancellation of ${method} was not sent`, error),
  }
  if ('readList' in operation) {
    return operation.readList(async (cursor, shared = signal) => {
      // A cursor of one session has no meaning in another.
      if (slot.session !== session) {
        const message = 'The session ended before the request; nothing was sent'
        const { epoch } = session
        throw new TransportError('SESSION_LOST', message, { certain: true, epoch })
      }
      const page = cursor === undefined ? { method } : { method, params: { cursor } }
      return sendRequest(connection, page, { ...options, signal: shared, schema: AnyResultSchema })
    }, signal)
  }
  const { params, schema } = operation
  return sendRequest(connection, { method, params }, { ...options, schema })
}

/**
 * The headers of an operation, as they are now. Undefined if there are none.
 *
 * @throws McpClientError `CONFIG` for another type, whose headers would be lost
 */
export function headersOf(
  { headers }: Pick<CallOptions, 'headers'>,
  server: string,
): CallOptions['headers'] {
  if (headers === undefined) return undefined
  if (!isRecord(headers) || Symbol.iterator in headers) {
    const message = 'headers must be an object of strings, such as { "x-tenant": "shop" }'
    throw notExecuted('CONFIG', message, { server })
  }
  return Object.keys(headers).length === 0 ? undefined : { ...headers }
}

/** The same options, with a second signal that aborts the operation. */
function withSignal(options: CallOptions, signal: AbortSignal): CallOptions {
  const { signal: own } = options
  if (signal === own) return options
  return { ...options, signal: own === undefined ? signal : AbortSignal.any([own, signal]) }
}

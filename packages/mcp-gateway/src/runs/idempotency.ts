import { isCallToolResult, ProtocolError, ProtocolErrorCode } from '@modelcontextprotocol/server'

import { isRecord, removeFrom } from '@x/internal'
import { z } from 'zod'
import { RunFailure } from '../agents/agent.ts'
import { pause } from '../internal/timers.ts'
import {
  busy,
  hashOf,
  IDEMPOTENCY,
  isKeyEffective,
  isStorable,
  namespaceOf,
  type Execution,
  type RunStorage,
  type ToolOutcome,
} from './order.ts'

type Call = Pick<Execution, 'order' | 'tool'>
type Start = (signal: AbortSignal) => Promise<ToolOutcome>
type Questions = Extract<ToolOutcome, { type: 'input' }>

/** Keys of the two records of a call. */
interface Keys {
  /** Names the call by its idempotency key. The record has the hash of the arguments. It outlives the other one. */
  readonly claim: string
  /** Names the call by its key and its arguments. The record says how the call ended. */
  readonly outcome: string
  readonly args: string
}

const CLAIM_PREFIX = 'idempotency-key:'
const PREFIX = 'idempotent-call:'
/** Time between two looks at a call of another process. */
const LOOK_MS = 500
const BUSY = 'The same call runs in another process. Call again in a moment.'

/** The first call with a key. */
interface Claim {
  readonly args: string
  readonly taskId?: string | undefined
  /** Milliseconds since 1970. */
  readonly at: number
}

/** The claim of the first call with an idempotency key. */
export interface KeyClaim {
  /** `undefined`: it was no task of an engine. */
  readonly taskId: string | undefined
  readonly isNew: boolean
  readonly ageMs: number
}

const StoredClaim: z.ZodType<Claim> = z.object({
  args: z.string(),
  taskId: z.string().optional(),
  at: z.number().default(0),
})

/** How a call ended. */
const StoredEnd = z.object({
  phase: z.literal('ended'),
  result: z.custom<Extract<ToolOutcome, { type: 'result' }>['result']>(isCallToolResult).optional(),
  questions: z
    .custom<Questions>((value) => isRecord(value) && Array.isArray(value['forms']))
    .optional(),
  error: z
    .object({ code: z.number(), message: z.string(), data: z.unknown().optional() })
    .optional(),
})

/**
 * Calls with an idempotency key. A repeated call joins the call that runs, or gets its outcome, also an error. A call is
 * made again only if its agent never got it. After the death of its process it may have been executed, so its repeats
 * fail with `outcome_unknown`.
 */
export class IdempotentCalls {
  readonly #storage: RunStorage
  /** Calls that run in this process. */
  readonly #calls: JoinedCall[] = []

  constructor(storage: RunStorage) {
    this.#storage = storage
  }

  /**
   * Returns what an earlier call with the same key said about itself. `undefined`: there was none.
   *
   * @throws ProtocolError -32602 if it had other arguments
   */
  async earlier(call: Call): Promise<Claim | undefined> {
    const keys = keysOf(call)
    const found = keys && (await this.#storage.records.get(keys.claim))
    const claim = StoredClaim.safeParse(found?.value).data
    if (claim && claim.args !== keys?.args) throw conflict()
    return claim
  }

  /**
   * Claims a key for a call that an engine executes as the task `order.taskId`.
   *
   * @returns the claim of the first call with the key; `undefined` for a call without one
   * @throws ProtocolError -32602 if the first call had other arguments
   */
  async claim(call: Call): Promise<KeyClaim | undefined> {
    const keys = keysOf(call)
    const { taskId } = call.order
    if (!keys || taskId === undefined) return undefined
    const { clock, maxRunMs, records, repeatTtlMs } = this.#storage
    const now = clock.now()
    const ttlMs = maxRunMs(call.tool) + 2 * repeatTtlMs
    const claim = { args: keys.args, taskId, at: now }
    const claimed = await records.put(keys.claim, claim, { ttlMs, ifVersion: null })
    if (claimed !== undefined) return { taskId, isNew: true, ageMs: 0 }
    const first = await this.earlier(call)
    return { taskId: first?.taskId, isNew: false, ageMs: now - (first?.at ?? 0) }
  }

  /** Ends the claim of a call that its agent did not get, so that the call can be made again. @throws GatewayError `UNAVAILABLE` */
  async release(call: Call): Promise<void> {
    const keys = keysOf(call)
    const { records } = this.#storage
    const found = keys && (await records.get(keys.claim))
    const { taskId } = StoredClaim.safeParse(found?.value).data ?? {}
    const isOwn = taskId !== undefined && taskId === call.order.taskId
    if (keys && found && isOwn) await records.delete(keys.claim, found.version)
  }

  /**
   * Makes a call, unless the same call was made before.
   *
   * @param start begins the call; its signal aborts when all requests for it were cancelled
   * @throws RunFailure `outcome_unknown` after the process of the call died, `expired` if its result is not kept any
   *   more, `busy`; ProtocolError -32602 for other arguments; errors of `start` and of the store
   */
  async run(execution: Execution, start: Start): Promise<ToolOutcome> {
    const { sink } = execution
    const keys = keysOf(execution)
    if (keys === undefined) return start(sink.signal)
    for (;;) {
      const running = this.#calls.find((call) => call.keys.claim === keys.claim)
      if (running === undefined) break
      if (running.keys.args !== keys.args) throw conflict()
      if (!running.isAbandoned) return toReplayed(await running.join(sink.signal))
      await running.ended()
    }
    const call = new JoinedCall(keys, (signal) =>
      this.#runOnce(keys, { ...execution, sink: { ...sink, signal } }, start),
    )
    // Listed before the store is asked, so that a repeat in the meantime joins this call.
    this.#calls.push(call)
    try {
      return await call.join(sink.signal)
    } finally {
      removeFrom(this.#calls, call)
    }
  }

  async #runOnce(
    keys: Keys,
    { order, sink: { signal }, tool }: Execution,
    start: Start,
  ): Promise<ToolOutcome> {
    const { lease, records, repeatTtlMs } = this.#storage
    const maxRunMs = this.#storage.maxRunMs(tool)
    // Other processes see that this one is alive before they can see the call.
    const release = await lease.hold()
    try {
      const record = { phase: 'running', owner: lease.id }
      // Kept for as long as a result would be: a repeat after the death of this process must not run.
      const ttlMs = maxRunMs + repeatTtlMs
      const version = await records.put(keys.outcome, record, { ttlMs, ifVersion: null })
      if (version === undefined) {
        return toReplayed(await this.#earlierOutcome(keys.outcome, maxRunMs, signal))
      }
      const { taskId } = order
      const claim = { args: keys.args, ...(taskId !== undefined && { taskId }) }
      const options = { ttlMs: ttlMs + repeatTtlMs, ifVersion: null }
      if ((await records.put(keys.claim, claim, options)) === undefined) {
        await records.delete(keys.outcome)
        await this.earlier({ order, tool })
        throw resultExpired()
      }
      return await this.#execute(keys, () => start(signal))
    } finally {
      release()
    }
  }

  /** Executes a call, and stores how it ended. If the store fails, only a repeat misses that. */
  async #execute(keys: Keys, start: () => Promise<ToolOutcome>): Promise<ToolOutcome> {
    try {
      const outcome = await start()
      await this.#store(keys, outcome).catch(() => {})
      return outcome
    } catch (error) {
      const isKnown = error instanceof ProtocolError
      const { code, message, data } = isKnown ? error : {}
      const end = isKnown ? { phase: 'ended', error: { code, message, data } } : UNKNOWN
      await this.#put(keys, end).catch(() => {})
      throw error
    }
  }

  async #store(keys: Keys, outcome: ToolOutcome): Promise<void> {
    if (outcome.type === 'input') {
      await this.#put(keys, { phase: 'ended', questions: outcome })
    } else if (outcome.isStarted === false) {
      await this.#storage.records.delete(keys.claim)
      await this.#storage.records.delete(keys.outcome)
    } else if (isStorable(outcome.result)) {
      await this.#put(keys, { phase: 'ended', result: outcome.result })
    } else {
      await this.#storage.records.delete(keys.outcome) // repeats find the claim, and fail as expired
    }
  }

  async #put({ outcome }: Keys, end: object): Promise<void> {
    await this.#storage.records.put(outcome, end, { ttlMs: this.#storage.repeatTtlMs })
  }

  /** Returns the outcome of a call of another process, or of this one if it could not store how the call ended. */
  async #earlierOutcome(key: string, maxRunMs: number, signal: AbortSignal): Promise<ToolOutcome> {
    const { clock, lease, records, repeatTtlMs } = this.#storage
    for (let waitedMs = 0; ;) {
      const found = await records.get(key)
      if (found === undefined) throw busy(BUSY) // it ended just now, without an outcome to keep
      const end = StoredEnd.safeParse(found.value).data
      if (end?.result) return { type: 'result', result: end.result }
      if (end?.questions) return end.questions
      if (end?.error) throw new ProtocolError(end.error.code, end.error.message, end.error.data)
      const { phase, owner } = isRecord(found.value) ? found.value : {}
      if (phase === 'unknown') throw outcomeUnknown()
      // A call of this process would have been joined: it has ended, but the store did not take its end.
      const isAlive = owner !== lease.id && (await lease.isAlive(String(owner)))
      if (isAlive) {
        if (signal.aborted) throw new RunFailure('cancelled', 'The call was cancelled.')
        if (waitedMs > maxRunMs) throw busy(BUSY)
        waitedMs += LOOK_MS
        await pause(LOOK_MS, clock, signal).catch(() => {}) // the next look ends a cancelled call
        continue
      }
      const options = { ttlMs: repeatTtlMs, ifVersion: found.version }
      const marked = await records.put(key, UNKNOWN, options)
      if (marked !== undefined) throw outcomeUnknown()
    }
  }
}

/** One call that several requests wait for. It is stopped when the last of them gives up. */
class JoinedCall {
  readonly keys: Keys
  readonly #start: Start
  readonly #controller = new AbortController()
  #waiting = 0
  #outcome: Promise<ToolOutcome> | undefined

  constructor(keys: Keys, start: Start) {
    this.keys = keys
    this.#start = start
  }

  /** The call was stopped, because all requests for it were cancelled. */
  get isAbandoned(): boolean {
    return this.#controller.signal.aborted
  }

  /** Resolves when the call has ended. Never rejects. */
  async ended(): Promise<void> {
    await this.#outcome?.catch(() => {})
  }

  /** Waits for the outcome. The first request begins the call. @param signal aborts when the request gives up */
  async join(signal: AbortSignal): Promise<ToolOutcome> {
    this.#waiting++
    const leave = (): void => {
      this.#waiting--
      if (this.#waiting === 0) this.#controller.abort()
    }
    if (signal.aborted) leave()
    else signal.addEventListener('abort', leave, { once: true })
    try {
      this.#outcome ??= this.#start(this.#controller.signal)
      return await this.#outcome
    } finally {
      signal.removeEventListener('abort', leave)
    }
  }
}

function outcomeUnknown(): RunFailure {
  const text =
    'The process that ran this call died, or could not write how the call ended. The call may have been executed, so it is not made again. Check what it did; to make it again all the same, use another idempotency key.'
  return new RunFailure('outcome_unknown', text)
}

const UNKNOWN = { phase: 'unknown' }

function resultExpired(): RunFailure {
  const text =
    'This call was made before, and its result is not kept here any more. It is not made again. To make it again all the same, use another idempotency key.'
  return new RunFailure('expired', text)
}

function conflict(): ProtocolError {
  const text =
    'The idempotency key was used before, for a call of this tool with other arguments. Nothing was executed: use another key for another call.'
  const data = { reason: 'idempotency_conflict' }
  return new ProtocolError(ProtocolErrorCode.InvalidParams, text, data)
}

/** Marks a result that does not come from an execution for this request. */
function toReplayed(outcome: ToolOutcome): ToolOutcome {
  if (outcome.type === 'input') return outcome
  const { _meta: meta } = outcome.result
  const result = { ...outcome.result, _meta: { ...meta, [IDEMPOTENCY]: { replayed: true } } }
  return { type: 'result', result }
}

/** @returns `undefined` for a call without a key, for answers to a question, and for a key without effect */
function keysOf({ tool, order }: Call): Keys | undefined {
  const { idempotencyKey, principal, resume } = order
  if (idempotencyKey === undefined || resume !== undefined) return undefined
  if (!isKeyEffective(order, idempotencyKey)) return undefined
  const namespace = namespaceOf(order) ?? null
  const parts = [principal.id, namespace, tool.agent.id, tool.skill.id, idempotencyKey]
  return {
    claim: CLAIM_PREFIX + hashOf(parts),
    outcome: PREFIX + hashOf([...parts, order.arguments]),
    args: hashOf(order.arguments ?? {}),
  }
}

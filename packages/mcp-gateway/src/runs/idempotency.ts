import { isCallToolResult } from '@modelcontextprotocol/server'

import { isRecord, removeFrom } from '@x/internal'
import { RunFailure } from '../agents/agent.ts'
import type { RunTool } from '../agents/agent.ts'
import type { Records } from '../store/gateway-store.ts'
import type { ProcessLease } from '../store/lease.ts'
import {
  busy,
  hashOf,
  isStorable,
  namespaceOf,
  type Execution,
  type MaxRunMs,
  type RunStorage,
  type ToolOutcome,
} from './order.ts'

type Start = (signal: AbortSignal) => Promise<ToolOutcome>
type ResultOutcome = Extract<ToolOutcome, { type: 'result' }>

const PREFIX = 'idempotent-call:'
const BUSY = 'The same call runs in another process. Call again in a moment.'

/**
 * Calls with an idempotency key. A repeated call joins the call that runs, or gets its result. A call whose process died
 * may have been executed, so it is never made again: its repeats fail with `outcome_unknown`.
 */
export class IdempotentCalls {
  readonly #records: Records
  readonly #lease: ProcessLease
  readonly #repeatTtlMs: number
  readonly #maxRunMs: MaxRunMs
  /** Calls that run in this process. */
  readonly #calls: JoinedCall[] = []

  constructor({ records, lease, repeatTtlMs }: RunStorage, maxRunMs: MaxRunMs) {
    this.#records = records
    this.#lease = lease
    this.#repeatTtlMs = repeatTtlMs
    this.#maxRunMs = maxRunMs
  }

  /**
   * Makes a call, unless the same call was made before.
   *
   * @param start begins the call; its signal aborts when all requests for it were cancelled
   * @throws RunFailure `busy` while another process runs the call, `outcome_unknown` after that process died; errors of
   *   `start` and of the store
   */
  async run(execution: Execution, start: Start): Promise<ToolOutcome> {
    const { tool, sink } = execution
    const key = keyOf(execution)
    if (key === undefined) return start(sink.signal)
    for (;;) {
      const running = this.#calls.find((call) => call.key === key)
      if (running === undefined) break
      if (!running.isAbandoned) return running.join(sink.signal)
      await running.ended()
    }
    const call = new JoinedCall(key, (signal) => this.#runOnce(key, tool, () => start(signal)))
    // Listed before the store is asked, so that a repeat in the meantime joins this call.
    this.#calls.push(call)
    try {
      return await call.join(sink.signal)
    } finally {
      removeFrom(this.#calls, call)
    }
  }

  async #runOnce(
    key: string,
    tool: RunTool,
    start: () => Promise<ToolOutcome>,
  ): Promise<ToolOutcome> {
    const ttlMs = this.#repeatTtlMs
    // Other processes see that this one is alive before they can see the call.
    const release = await this.#lease.hold()
    try {
      const record = { phase: 'running', owner: this.#lease.id }
      // Kept for as long as a result would be: a repeat after the death of this process must not run.
      const options = { ttlMs: this.#maxRunMs(tool) + ttlMs, ifVersion: null }
      const version = await this.#records.put(key, record, options)
      if (version === undefined) return await this.#earlierOutcome(key)
      let kept: ResultOutcome | undefined
      try {
        const outcome = await start()
        if (isWorthKeeping(outcome)) kept = outcome
        return outcome
      } finally {
        const stored =
          kept === undefined
            ? this.#records.delete(key)
            : this.#records.put(key, { phase: 'ended', result: kept.result }, { ttlMs })
        // If the store fails, only a repeat misses the result. The calls that wait get it here.
        await stored.catch(() => {})
      }
    } finally {
      release()
    }
  }

  /** Returns the outcome of a call of another process, or of this one if it could not store how the call ended. */
  async #earlierOutcome(key: string): Promise<ToolOutcome> {
    for (;;) {
      const found = await this.#records.get(key)
      if (found === undefined) throw busy(BUSY) // it ended just now, without a result to keep
      const { phase, owner, result } = isRecord(found.value) ? found.value : {}
      if (isCallToolResult(result)) return { type: 'result', result }
      if (phase === 'unknown') throw outcomeUnknown()
      // A call of this process would have been joined: it has ended, but the store did not take its end.
      const isAlive = owner !== this.#lease.id && (await this.#lease.isAlive(String(owner)))
      if (isAlive) throw busy(BUSY)
      const options = { ttlMs: this.#repeatTtlMs, ifVersion: found.version }
      const marked = await this.#records.put(key, { phase: 'unknown' }, options)
      if (marked !== undefined) throw outcomeUnknown()
    }
  }
}

/** One call that several requests wait for. It is stopped when the last of them gives up. */
class JoinedCall {
  readonly key: string
  readonly #start: Start
  readonly #controller = new AbortController()
  #waiting = 0
  #outcome: Promise<ToolOutcome> | undefined

  constructor(key: string, start: Start) {
    this.key = key
    this.#start = start
  }

  /** Whether the call was stopped, because all requests for it were cancelled. */
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

/** @returns `undefined` for a call without a key, for answers to a question, and for a caller that has no namespace */
function keyOf({ tool, order }: Execution): string | undefined {
  const { idempotencyKey, principal, resume } = order
  const namespace = namespaceOf(order)
  if (idempotencyKey === undefined || resume !== undefined || namespace === undefined) {
    return undefined
  }
  const parts = [principal.id, namespace, tool.agent.id, tool.skill.id, idempotencyKey]
  return `${PREFIX}${hashOf([...parts, order.arguments])}`
}

/** A failed call is made again. A call that asked is continued as a paused run. */
function isWorthKeeping(outcome: ToolOutcome): outcome is ResultOutcome {
  if (outcome.type !== 'result' || outcome.result.isError === true) return false
  const { _meta: meta } = outcome.result
  if (meta?.['reason'] === 'needs_input') return false
  return isStorable(outcome.result)
}

import { isCallToolResult } from '@modelcontextprotocol/server'

import { isRecord } from '@x/internal'
import type { Clock } from '../internal/clock.ts'
import { randomHex } from '../internal/random-hex.ts'
import type { Values } from '../store/gateway-store.ts'
import { canonicalHash } from './interrupts/canonical-hash.ts'
import { JoinedCall } from './joined-call.ts'
import { RunFailure } from '../agents/run-failure.ts'
import type { RunRequest } from './run-request.ts'
import type { RunTool } from '../agents/run-tool.ts'
import { isScopeHandle } from './scope-handle.ts'
import type { ToolOutcome } from './tool-outcome.ts'

export interface IdempotentCallsOptions {
  readonly values: Values
  readonly clock: Clock
  /** The longest that a call may take. */
  readonly maxRunMs: (tool: RunTool) => number
  /** Time for which a repeat gets the result of a finished call. */
  readonly repeatTtlMs: number
}

const PREFIX = 'idempotent-call:'
const OWNER_PREFIX = 'idempotent-owner:'
/** How long a process counts as alive after its last heartbeat. Longer than an event loop should ever be blocked. */
const LEASE_MS = 4000
const HEARTBEAT_MS = 1000
/** What is kept of a result at most; a larger one is given to those who joined, and not again. */
const MAX_STORED_CHARS = 1024 * 1024

/**
 * Calls that were issued again: they join the one that still runs, or get its result. A call whose process died may
 * have been executed, so it is never made again: whoever issues it is told that its outcome is unknown.
 */
export class IdempotentCalls {
  readonly #options: IdempotentCallsOptions
  readonly #underWay = new Map<string, JoinedCall>()
  /** Names this process in the records of its calls, and in its heartbeat. */
  readonly #owner = randomHex(16)
  #leaseEndsAt = 0
  #stopHeartbeat: (() => void) | undefined

  constructor(options: IdempotentCallsOptions) {
    this.#options = options
  }

  /**
   * @param start begins the call; its signal aborts when all have given up who wait for it
   * @throws RunFailure `busy` while another process runs the call, `outcome_unknown` after that process died; what
   *   `start` and the store throw
   */
  async run(
    tool: RunTool,
    request: RunRequest,
    start: (signal: AbortSignal) => Promise<ToolOutcome>,
  ): Promise<ToolOutcome> {
    const key = keyOf(tool, request)
    if (key === undefined) return start(request.signal)
    // One that was given up has no answer, but is not over at once.
    for (;;) {
      const here = this.#underWay.get(key)
      if (here === undefined) break
      if (!here.isGivenUp) return here.join(request.signal)
      await here.ended
    }
    const call = new JoinedCall((signal) => this.#runOnce(key, tool, () => start(signal)))
    // Known before the store is asked: a second call that comes meanwhile joins this one.
    this.#underWay.set(key, call)
    const joined = call.join(request.signal)
    try {
      return await joined
    } finally {
      this.#underWay.delete(key)
      if (this.#underWay.size === 0) this.#stop()
    }
  }

  async #runOnce(
    key: string,
    tool: RunTool,
    start: () => Promise<ToolOutcome>,
  ): Promise<ToolOutcome> {
    const { values, maxRunMs, repeatTtlMs } = this.#options
    await this.#beAlive()
    // Kept for as long as a result would be: a repeat after the death of this process must not run.
    const options = { ttlMs: maxRunMs(tool) + repeatTtlMs, ifVersion: null }
    const version = await values.put(key, { phase: 'running', owner: this.#owner }, options)
    if (version === undefined) return this.#earlier(key)
    let kept: ResultOutcome | undefined
    try {
      const outcome = await start()
      if (isWorthKeeping(outcome)) kept = outcome
      return outcome
    } finally {
      // Only a repeat would miss it: whoever waits has the outcome either way.
      const ended =
        kept === undefined
          ? values.delete(key)
          : values.put(key, { phase: 'ended', result: kept.result }, { ttlMs: repeatTtlMs })
      await Promise.resolve(ended).catch(() => undefined)
    }
  }

  /** What became of a call that was issued before, elsewhere or in an earlier life of this process. */
  async #earlier(key: string): Promise<ToolOutcome> {
    const { values, repeatTtlMs } = this.#options
    for (;;) {
      const found = await values.get(key)
      const record = isRecord(found?.value) ? found.value : {}
      const { phase, owner, result } = record
      if (isCallToolResult(result)) return { type: 'result', result }
      if (found === undefined) throw running() // it ended just now, without a result to keep
      if (phase === 'unknown') throw unknown()
      // This process does not run it either: it did, and could not write how the call ended.
      const isHere = owner === this.#owner
      const isAlive = !isHere && (await values.get(OWNER_PREFIX + String(owner))) !== undefined
      if (isAlive) throw running()
      const { version: ifVersion } = found
      const isMarked = await values.put(
        key,
        { phase: 'unknown' },
        { ttlMs: repeatTtlMs, ifVersion },
      )
      if (isMarked !== undefined) throw unknown()
    }
  }

  /** Others know that this process lives before they can see a call of it. */
  async #beAlive(): Promise<void> {
    this.#stopHeartbeat ??= this.#options.clock.after(HEARTBEAT_MS, this.#beat)
    // A heartbeat may be late; then the next call renews the lease.
    if (this.#leaseEndsAt - this.#options.clock.now() < LEASE_MS / 2) await this.#renew()
  }

  async #renew(): Promise<void> {
    const { clock, values } = this.#options
    const endsAt = clock.now() + LEASE_MS
    await values.put(OWNER_PREFIX + this.#owner, true, { ttlMs: LEASE_MS })
    this.#leaseEndsAt = endsAt
  }

  readonly #beat = (): void => {
    this.#stopHeartbeat = this.#options.clock.after(HEARTBEAT_MS, this.#beat)
    // Where the store is away, others take this process for dead: its calls are unknown to them until they end.
    this.#renew().catch(() => undefined)
  }

  #stop(): void {
    this.#stopHeartbeat?.()
    this.#stopHeartbeat = undefined
  }
}

function running(): RunFailure {
  const text = 'The same call runs in another process. Call again in a moment.'
  return new RunFailure('busy', text, { retryAfterMs: 5000 })
}

function unknown(): RunFailure {
  const text =
    'The process that ran this call died, or could not write how the call ended. The call may have been executed, so it is not made again. Check what it did; to make it again all the same, use another idempotency key.'
  return new RunFailure('outcome_unknown', text)
}

/**
 * By caller, tool, arguments and key: never by the arguments alone. Callers whom nobody verified share a name,
 * so theirs counts only beside a handle that cannot be guessed.
 */
function keyOf(tool: RunTool, request: RunRequest): string | undefined {
  const { idempotencyKey, principal, resume } = request
  const scope = request.scope ?? request.sessionScope
  if (idempotencyKey === undefined || resume !== undefined) return undefined
  if (principal.isAnonymous && !isScopeHandle(scope)) return undefined
  const parts = [principal.id, scope, tool.agent.id, tool.skill.id, idempotencyKey]
  return `${PREFIX}${canonicalHash([...parts, request.arguments])}`
}

type ResultOutcome = Extract<ToolOutcome, { type: 'result' }>

/** A call that failed is made again; one that asked is a run of its own, which its question names. */
function isWorthKeeping(outcome: ToolOutcome): outcome is ResultOutcome {
  if (outcome.type !== 'result' || outcome.result.isError === true) return false
  const { _meta: meta } = outcome.result
  if (meta?.['reason'] === 'needs_input') return false
  return JSON.stringify(outcome.result).length <= MAX_STORED_CHARS
}

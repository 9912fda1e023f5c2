import { isCallToolResult } from '@modelcontextprotocol/server'

import { isRecord } from '../is-record.ts'
import type { Values } from '../store/gateway-store.ts'
import { canonicalHash } from './interrupts/canonical-hash.ts'
import { JoinedCall } from './joined-call.ts'
import { RunFailure } from './run-failure.ts'
import type { RunRequest } from './run-request.ts'
import type { RunTool } from './run-tool.ts'
import { isScopeHandle } from './scope-handle.ts'
import type { ToolOutcome } from './tool-outcome.ts'

export interface IdempotentCallsOptions {
  readonly values: Values
  /** The longest that a call may take, by which one is known to be dead. */
  readonly maxRunMs: (tool: RunTool) => number
  /** For how long a finished call gives its result again. @default 600_000 */
  readonly repeatTtlMs?: number | undefined
}

const PREFIX = 'idempotent-call:'
const DEAD_AFTER_MS = 60_000
/** What is kept of a result at most; a larger one is given to those who joined, and not again. */
const MAX_STORED_CHARS = 1024 * 1024

/** Calls that were issued again: they join the one that still runs, or get its result. */
export class IdempotentCalls {
  readonly #options: IdempotentCallsOptions
  readonly #underWay = new Map<string, JoinedCall>()

  constructor(options: IdempotentCallsOptions) {
    this.#options = options
  }

  /**
   * @param start begins the call; its signal aborts when all have given up who wait for it
   * @throws RunFailure `busy` while another process runs the call; what `start` and the store throw
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
    }
  }

  async #runOnce(
    key: string,
    tool: RunTool,
    start: () => Promise<ToolOutcome>,
  ): Promise<ToolOutcome> {
    const { values, maxRunMs, repeatTtlMs = 600_000 } = this.#options
    const options = { ttlMs: maxRunMs(tool) + DEAD_AFTER_MS, ifVersion: null }
    const version = await values.put(key, { phase: 'running' }, options)
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

  async #earlier(key: string): Promise<ToolOutcome> {
    const found = await this.#options.values.get(key)
    const result = isRecord(found?.value) ? found.value['result'] : undefined
    if (isCallToolResult(result)) return { type: 'result', result }
    throw new RunFailure('busy', 'The same call runs in another process. Call again in a moment.', {
      retryAfterMs: 5000,
    })
  }
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

import { ProtocolError, ProtocolErrorCode } from '@modelcontextprotocol/server'

import { LONGEST_MS } from '@x/internal'
import type { RunTool } from '../agents/agent.ts'
import { GatewayError } from '../errors.ts'
import { sleep } from '../internal/clock.ts'
import { pause } from '../internal/timers.ts'
import {
  DIED,
  isDeath,
  mayExecute,
  nextCall,
  toErrorEnd,
  type CallEnd,
  type CallRecord,
} from './call-record.ts'
import type { StoredCall } from './call-store.ts'
import { AGENT_MS, RETRY_MS, type Calls, type CallsOptions } from './calls.ts'
import { LiveCall, reasonOf } from './live-call.ts'
import { maxRunMsOf, type Execution, type ToolOutcome } from './order.ts'

export interface CallWorkerOptions extends CallsOptions {
  readonly calls: Calls
  /** Returns a tool by its name. `undefined`: its agent is not in this process. */
  readonly toolOf: (name: string) => RunTool | undefined
  /** Executes a stored call with `Calls.call()`, and reports it. */
  readonly execute: (execution: Execution) => Promise<ToolOutcome>
}

/** Time between the first two attempts to reach the engine. It doubles each time. */
const FIRST_WAIT_MS = 250
const MAX_WAIT_MS = 5000
const NOT_YET = 'Queued tasks are not executed here yet, because the engine cannot be reached.'

/** Executes queued calls in this process. */
export class CallWorker {
  readonly #options: CallWorkerOptions
  #working: Promise<() => Promise<void>> | undefined
  #stopping: Promise<void> | undefined
  /** Ends the wait for an engine. */
  readonly #leaving = new AbortController()

  constructor(options: CallWorkerOptions) {
    this.#options = options
  }

  /**
   * Executes queued calls in this process, until `stop()`. Waits for an engine that cannot be reached.
   *
   * @throws GatewayError `CONFIG` if the engine refuses access; `CLOSED`
   */
  async work(): Promise<void> {
    const { engine } = this.#options
    if (this.#stopping) throw closed()
    this.#working ??= this.#whenReachable(() =>
      engine.work((id, { signal }) => this.#execute(id, signal)),
    )
    try {
      await this.#working
    } catch (error) {
      this.#working = undefined
      throw error
    }
  }

  /** Hands queued calls that this process executes to other processes, and takes no more of them. */
  stop(): Promise<void> {
    this.#stopping ??= (async () => {
      this.#leaving.abort(closed())
      const stop = await this.#working?.catch(() => undefined)
      await stop?.()
    })()
    return this.#stopping
  }

  async #whenReachable<Value>(attempt: () => Promise<Value>): Promise<Value> {
    const { clock, onError } = this.#options
    // The timers of the clock do not keep the process alive, and a worker may have nothing else yet.
    const alive = setInterval(() => {}, LONGEST_MS)
    try {
      for (let ms = FIRST_WAIT_MS; ; ms = Math.min(2 * ms, MAX_WAIT_MS)) {
        try {
          return await attempt()
        } catch (cause) {
          const isAway = GatewayError.is(cause) && cause.code === 'UNAVAILABLE'
          if (!isAway) throw cause
          onError(new Error(`${NOT_YET} The next attempt is in ${ms} ms`, { cause }))
        }
        await pause(ms, clock, this.#leaving.signal)
      }
    } finally {
      clearInterval(alive)
    }
  }

  /**
   * Executes a queued call up to its end or its next questions. Continues the call if another process has died in it.
   *
   * @param leaving as `RunAttempt.signal`
   */
  async #execute(id: string, leaving: AbortSignal): Promise<'ended' | 'released'> {
    const { calls, clock, lease } = this.#options
    const [runId = '', round] = id.split('/')
    const own = calls.takeOwn(runId)
    let release = own?.releaseLease
    try {
      if (own) return await this.#executeClaimed(own.stored, leaving)
      await calls.store.start()
      // Before the claim: other processes must see that this one is alive when they see that it has the call.
      release = await lease.hold()
      const found = await this.#claim(runId, Number(round))
      if (found === 'elsewhere') {
        await sleep(clock, RETRY_MS) // the process that has the call or its agent goes on with it in this time
        return 'released'
      }
      return found ? await this.#executeClaimed(found, leaving) : 'ended'
    } catch {
      // The store is away. Without a pause, processes would take the call again and again.
      await sleep(clock, RETRY_MS)
      return 'released'
    } finally {
      release?.()
    }
  }

  /**
   * Takes a queued call, or one of a process that has died.
   *
   * @returns `undefined` if it does not wait for a process; `elsewhere` if a process that lives executes it, or if its
   *   agent is not in this process, but may be in another one, or come
   */
  async #claim(runId: string, round: number): Promise<StoredCall | 'elsewhere' | undefined> {
    const { calls, clock, lease, onError, toolOf } = this.#options
    for (;;) {
      const found = await calls.store.read(runId)
      if (found?.call.round !== round || found.call.state.status !== 'running') return undefined
      const { call } = found
      // An engine may give a call away whose process has lost its place in the queue, and will stop soon.
      if (await calls.isExecuted(call)) return 'elsewhere'
      const isWaitedFor = clock.now() - call.updatedAt < AGENT_MS
      if (isWaitedFor && !toolOf(call.tool)) return 'elsewhere'
      const next = nextCall(call, { type: 'claimed', process: lease.id }, clock.now())
      const claimed = await calls.store.replace(found, next)
      if (!claimed) continue
      if (found.call.state.process !== '') {
        const text = `The run ${runId} of ${call.tool} is taken over: its process died or froze`
        onError(new Error(text))
      }
      return claimed
    }
  }

  /** Executes a call that this process has claimed. @throws GatewayError `UNAVAILABLE` */
  async #executeClaimed(found: StoredCall, leaving: AbortSignal): Promise<'ended' | 'released'> {
    const { calls, runs, toolOf } = this.#options
    const { parts, store } = calls
    const { call } = found
    const { agentId, asked, attempt, isDurable, order: stored, runId, state } = call
    const { claims = 1, remote } = state.status === 'running' ? state : {}
    const end = async (why: CallEnd): Promise<'ended'> => {
      const expiresAt = store.expiryOf('ended', true)
      const event = { type: 'ended', attempt, end: why, expiresAt } as const
      await store.patiently(found, () => store.apply(found, event))
      return 'ended'
    }
    if (stored) calls.credentials.take(stored)
    const tool = toolOf(call.tool)
    if (!tool || !stored) return end(toErrorEnd(notHere(call.tool)))
    const order = { ...stored, attempt: isDurable ? claims : undefined }
    const canContinue = isDurable && runs.canContinue(tool, order)
    if (!mayExecute(call, canContinue)) {
      await end(DIED)
      runs.forgetRun(call, remote)
      return 'ended'
    }
    const live = new LiveCall(parts, { runId, stored: found, attempt: { leaving, canContinue } })
    live.begin(() => this.#whenPossible({ tool, order, sink: live.sink() }))
    const leave = (): void => {
      // A call that no other process can continue gets the time that calls have when the gateway stops.
      const isFinishedHere = leaving.reason === 'stopping' && !live.isLeft
      if (!isFinishedHere) live.stop(leaving.reason)
    }
    if (leaving.aborted) leave()
    else leaving.addEventListener('abort', leave, { once: true })
    await live.done
    leaving.removeEventListener('abort', leave)
    const last = live.stored?.call
    const isEnded = last?.attempt === attempt && last.state.status === 'ended'
    if (isEnded && isDurable) {
      runs.forgetRun(call)
      // A process without the engine may have begun the run, with another thread. With an unknown outcome, it may be in use.
      if (asked && !hasUnknownOutcome(last)) runs.forgetState(agentId, asked.state)
    }
    if (isEnded || !live.isLeft) return 'ended'
    await store.apply(found, { type: 'released', attempt })
    return 'released'
  }

  /** Executes a call, and does so again while its agent is busy or absent. */
  async #whenPossible(execution: Execution): Promise<ToolOutcome> {
    const { calls, clock, execute } = this.#options
    const beganAt = clock.now()
    for (;;) {
      const outcome = await execute(execution)
      const isLate = clock.now() - beganAt >= this.#patienceFor(outcome, execution.tool)
      if (isLate || execution.sink.signal.aborted || calls.store.isEnding) return outcome
      await sleep(clock, RETRY_MS)
    }
  }

  /** Returns the time for which a call is tried again after an outcome, from its first execution. */
  #patienceFor(outcome: ToolOutcome, tool: RunTool): number {
    const reason = outcome.type === 'result' ? reasonOf(outcome.result) : undefined
    if (reason === 'busy') return maxRunMsOf(tool, this.#options)
    return reason === 'agent_gone' ? AGENT_MS : 0
  }
}

function hasUnknownOutcome({ state }: CallRecord): boolean {
  return state.status === 'ended' && isDeath(state.end)
}

function notHere(tool: string): ProtocolError {
  const text = `The process that took this task does not have the agent behind ${tool}. An earlier process may have executed a part of the call: check that before you call again.`
  return new ProtocolError(ProtocolErrorCode.InternalError, text, { reason: 'agent_gone' })
}

function closed(): GatewayError {
  return new GatewayError('CLOSED', 'The gateway was closed')
}

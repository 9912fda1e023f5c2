import { GatewayError } from '../errors.ts'
import { MAX_TIMER_MS, sleep } from '../internal/clock.ts'
import { pause } from '../internal/timers.ts'
import { DIED, isDeath, nextCall, toErrorEnd, type CallRecord } from './call-record.ts'
import type { CallStore, StoredCall } from './call-store.ts'
import type { RunEngine } from './engine.ts'
import { reasonOf, type Executions, type ExecutionsOptions } from './executions.ts'
import { LiveCall } from './live-call.ts'
import type { RunSink, ToolOutcome } from './order.ts'
import { QueuedCredentials } from './queued-credentials.ts'

export interface CallQueueOptions extends ExecutionsOptions {
  readonly engine: RunEngine
  /** Returns what executes a stored call. @throws ProtocolError if its agent is not there */
  readonly prepare: (call: CallRecord, attempt: number | undefined) => PreparedCall
}

/** Executes a stored call, or continues it with the answers to its last questions. */
export interface PreparedCall {
  readonly execute: (sink: RunSink) => Promise<ToolOutcome>
  /** Time after which the execution has ended. */
  readonly maxRunMs: number
  /** Another process can continue the call after the one that executed it died. */
  readonly canContinue: boolean
  /** Lets the agent delete what it kept for the call. @param remote as `RemoteRun`: the run is stopped */
  readonly forget: (remote?: unknown) => void
}

/** Time between two attempts: to reach a store that is away, and to find room for a call. */
const RETRY_MS = 1000
/** Time between the first two attempts to reach the engine. It doubles each time. */
const FIRST_WAIT_MS = 250
const MAX_WAIT_MS = 5000
const NOT_YET = 'Queued tasks are not executed here yet, because the engine cannot be reached.'
/** Processes that may die within one call. Then the call is to blame. */
const MAX_CLAIMS = 5
/** A process that has died looks alive for a shorter time. */
const DEAD_MS = 5000
/** In this time after its last change, a call waits for its agent, or for a process that has it. */
const AGENT_MS = 60_000
/** In this time, a process that has stored a call notes that it executes it. */
const BEGIN_MS = 5000

/** Queues stored calls for the engine, and executes queued calls in this process. */
export class CallQueue {
  readonly credentials: QueuedCredentials
  readonly #options: CallQueueOptions
  readonly #store: CallStore
  readonly #executions: Executions
  #working: Promise<() => Promise<void>> | undefined
  #stopping: Promise<void> | undefined
  /** Ends the wait for an engine. */
  readonly #leaving = new AbortController()

  constructor(store: CallStore, executions: Executions, options: CallQueueOptions) {
    this.#store = store
    this.#executions = executions
    this.#options = options
    this.credentials = new QueuedCredentials(store, options)
  }

  /** Queues a call. One that cannot be queued now, or was lost, is queued again by `takeOver()`. */
  async submit({ call }: StoredCall): Promise<void> {
    const { engine, onError } = this.#options
    try {
      await engine.submit(idOf(call))
    } catch (cause) {
      onError(new Error('A task cannot be queued now', { cause }))
    }
  }

  /** Returns whether a process executes a call that runs, or will do so soon. @throws GatewayError `UNAVAILABLE` */
  async isExecuted({ runId, state, updatedAt }: CallRecord): Promise<boolean> {
    const { clock, lease } = this.#options
    // The process that stored a queued call may have died before it queued it.
    if (state.status !== 'running' || state.process === '') return false
    if (state.process !== lease.id) return lease.isAlive(state.process)
    return this.#executions.find(runId) !== undefined || clock.now() - updatedAt < BEGIN_MS
  }

  /** Lets the engine continue a call that no process executes, or ends it. @throws GatewayError `UNAVAILABLE` */
  async takeOver(found: StoredCall): Promise<StoredCall> {
    const { attempt, isDurable, order, state, task } = found.call
    if (state.status !== 'running') return found
    // A call without its order cannot be joined at the server of its agent.
    const isJoined = state.remote !== undefined && order !== undefined
    if (state.process === '' || isDurable || isJoined) {
      await this.submit(found) // has no effect for a call that waits in the queue
      return { ...found, call: { ...found.call, state: { ...state, process: '' } } }
    }
    const expiresAt = this.#executions.expiryOf('ended', task !== undefined)
    const ended = await this.#store.apply(found, { type: 'ended', attempt, end: DIED, expiresAt })
    if (!ended) return found
    this.#executions.report(ended.call)
    return ended
  }

  /** Stops the execution of a call that was cancelled, wherever it is. */
  async stop({ call }: StoredCall): Promise<void> {
    const { engine } = this.#options
    const { asked, isDurable, runId, state } = call
    const live = this.#executions.find(runId)
    live?.stop()
    // A process that misses this learns of the end when it stores its own.
    await engine.cancel(idOf(call)).catch(() => {})
    if (live) return
    if (state.status === 'running' && state.remote !== undefined) {
      void this.#stopRemote(call, state.remote).catch(() => {}) // the run goes on, and its result is dropped
    }
    if (state.status !== 'asking') return
    this.#executions.forget(call, asked?.state)
    // The agent keeps a thread for the answer.
    if (isDurable) this.#prepared(call)?.forget()
  }

  /** Stops a run at the server of its agent, which this process may have to find first. */
  async #stopRemote(call: CallRecord, remote: unknown): Promise<void> {
    const { clock } = this.#options
    // A process that has died looks alive for some time. If it lives, it stops the run itself.
    if (await this.isExecuted(call)) await this.#wait(DEAD_MS)
    if (await this.isExecuted(call)) return
    const until = clock.now() + AGENT_MS
    while (!this.#prepared(call) && clock.now() < until && !this.#executions.isClosed) {
      await this.#wait(RETRY_MS)
    }
    this.#prepared(call)?.forget(remote)
  }

  /**
   * Executes queued calls in this process, until `close()`. Waits for an engine that cannot be reached.
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

  async #whenReachable<Value>(attempt: () => Promise<Value>): Promise<Value> {
    const { clock, onError } = this.#options
    // The timers of the clock do not keep the process alive, and a worker may have nothing else yet.
    const alive = setInterval(() => {}, MAX_TIMER_MS)
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

  /** Hands queued calls that this process executes to other processes, and takes no more of them. */
  stopWorking(): Promise<void> {
    this.#stopping ??= (async () => {
      this.#leaving.abort(closed())
      const stop = await this.#working?.catch(() => undefined)
      await stop?.()
    })()
    return this.#stopping
  }

  /**
   * Executes a queued call up to its end or its next questions. Continues the call if another process has died in it.
   *
   * @param leaving as `RunAttempt.signal`
   */
  async #execute(id: string, leaving: AbortSignal): Promise<'ended' | 'released'> {
    const [runId = '', round] = id.split('/')
    let release: (() => void) | undefined
    try {
      await this.#store.start()
      // Before the claim: other processes must see that this one is alive when they see that it has the call.
      release = await this.#options.lease.hold()
      const found = await this.#claim(runId, Number(round))
      if (found === 'elsewhere') {
        await this.#wait(RETRY_MS) // the process that has the call or its agent goes on with it in this time
        return 'released'
      }
      return found ? await this.#executeClaimed(found, leaving) : 'ended'
    } catch {
      // The store is away. Without a pause, processes would take the call again and again.
      await this.#wait(RETRY_MS)
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
    const { clock, lease, onError } = this.#options
    for (;;) {
      const found = await this.#store.read(runId)
      if (found?.call.round !== round || found.call.state.status !== 'running') return undefined
      const { call } = found
      // An engine may give a call away whose process has lost its place in the queue, and will stop soon.
      if (await this.isExecuted(call)) return 'elsewhere'
      const isWaitedFor = clock.now() - call.updatedAt < AGENT_MS
      if (isWaitedFor && !this.#prepared(call)) return 'elsewhere'
      const next = nextCall(call, { type: 'claimed', process: lease.id }, clock.now())
      const claimed = await this.#store.replace(found, next)
      if (!claimed) continue
      if (found.call.state.process !== '') {
        const text = `The run ${runId} of ${call.tool} is taken over: its process died or froze`
        onError(new Error(text))
      }
      return claimed
    }
  }

  #prepared(call: CallRecord, attempt?: number): PreparedCall | undefined {
    try {
      return this.#options.prepare(call, attempt)
    } catch {
      return undefined
    }
  }

  /** Executes a call that this process has claimed. @throws GatewayError `UNAVAILABLE` */
  async #executeClaimed(found: StoredCall, leaving: AbortSignal): Promise<'ended' | 'released'> {
    const { call } = found
    const { asked, attempt, isDurable, runId, state } = call
    const { claims = 1, remote } = state.status === 'running' ? state : {}
    const expiresAt = this.#executions.expiryOf('ended', true)
    if (call.order) this.credentials.take(call.order)
    let prepared: PreparedCall
    try {
      prepared = this.#options.prepare(call, isDurable ? claims : undefined)
    } catch (error) {
      const end = toErrorEnd(error)
      await this.#executions.store(found, { type: 'ended', attempt, end, expiresAt })
      return 'ended'
    }
    const canContinue = isDurable && prepared.canContinue
    if (claims > MAX_CLAIMS || (claims > 1 && !canContinue && remote === undefined)) {
      await this.#executions.store(found, { type: 'ended', attempt, end: DIED, expiresAt })
      prepared.forget(remote)
      return 'ended'
    }
    const live = new LiveCall({ runId, stored: found, attempt: { leaving, canContinue } })
    const sink = this.#executions.sinkOf(live)
    this.#executions.begin(live, () => this.#whenPossible(prepared, sink))
    const leave = (): void => {
      // A call that no other process can continue gets the time that calls have when the gateway stops.
      const isFinishedHere = leaving.reason === 'stopping' && !this.#executions.isLeft(live)
      if (!isFinishedHere) live.stop(leaving.reason)
    }
    if (leaving.aborted) leave()
    else leaving.addEventListener('abort', leave, { once: true })
    await live.done
    leaving.removeEventListener('abort', leave)
    const last = live.stored?.call
    const isEnded = live.isSettled && last?.attempt === attempt && last.state.status === 'ended'
    if (isEnded && isDurable) {
      prepared.forget()
      // A process without the engine may have begun the run, with another thread. With an unknown outcome, it may be in use.
      if (asked && !hasUnknownOutcome(last)) this.#executions.forget(call, asked.state)
    }
    if (isEnded || !this.#executions.isLeft(live)) return 'ended'
    await this.#store.apply(found, { type: 'released', attempt })
    return 'released'
  }

  /** Executes a call, and does so again while its agent is busy or absent. */
  async #whenPossible(prepared: PreparedCall, sink: RunSink): Promise<ToolOutcome> {
    const { clock } = this.#options
    const beganAt = clock.now()
    const patience: ReadonlyMap<unknown, number> = new Map([
      ['busy', prepared.maxRunMs],
      ['agent_gone', AGENT_MS],
    ])
    for (;;) {
      const outcome = await prepared.execute(sink)
      const reason = outcome.type === 'result' ? reasonOf(outcome.result) : undefined
      const isLate = clock.now() - beganAt >= (patience.get(reason) ?? 0)
      if (isLate || sink.signal.aborted || this.#executions.isClosed) return outcome
      await this.#wait(RETRY_MS)
    }
  }

  #wait(ms: number): Promise<void> {
    return sleep(this.#options.clock, ms)
  }
}

/** Names a call and its round for the engine, which may still finish an earlier round. */
function idOf({ round, runId }: CallRecord): string {
  return `${runId}/${round}`
}

function hasUnknownOutcome({ state }: CallRecord): boolean {
  return state.status === 'ended' && isDeath(state.end)
}

function closed(): GatewayError {
  return new GatewayError('CLOSED', 'The gateway was closed')
}

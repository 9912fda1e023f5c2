import { BoundedMap, isRecord, Listeners, splitErrorLink } from '@x/internal'
import { compareText, isFinal, RunFailure } from '../agents/agent.ts'
import type {
  Agent,
  AgentCall,
  AgentListener,
  AgentSource,
  AgentUpdate,
  RunnableAgents,
} from '../agents/agent.ts'
import {
  agentDefectOf,
  areEqualAgents,
  legibleAgent,
  legibleUpdate,
} from '../agents/reported-agent.ts'
import { GatewayError } from '../errors.ts'
import type { Clock } from '../internal/clock.ts'
import { Debouncer, withDeadline } from '../internal/timers.ts'
import { collisionText } from './names.ts'
import { ToolPlanner, type PlanOptions, type ToolPlan } from './plan.ts'

export interface AgentRegistryOptions {
  readonly sources: readonly AgentSource[]
  readonly tools: PlanOptions
  /** Changes that follow each other within this time are one change. After four times this time, clients are notified in any case. */
  readonly debounceMs: number
  /** Called with warnings. They contain no text of a user and no credential. */
  readonly onWarning: (message: string, cause?: unknown) => void
  readonly clock: Clock
}

/** A new plan, and which lists differ. */
export interface PlanChange {
  readonly plan: ToolPlan
  /** `true` if `tools/list` changed. */
  readonly tools: boolean
  /** `true` if `prompts/list` changed. */
  readonly prompts: boolean
}

export interface RegistryStatus {
  readonly sources: readonly SourceStatus[]
  readonly agents: readonly AgentStatus[]
}

/** State of a source. */
export interface SourceStatus {
  readonly name: string
  readonly state: 'starting' | 'started' | 'failed'
  /** Why the source failed, or why its last agent was refused. */
  readonly reason: string | undefined
}

export interface AgentStatus {
  readonly agent: Agent
  readonly source: string
  /** Milliseconds since 1970. */
  readonly seenAt: number
  /** Why the agent is degraded. */
  readonly reason: string | undefined
}

interface KnownAgent {
  readonly source: AgentSource
  /** As the source reported it. */
  reported: Agent
  /** Milliseconds since 1970. */
  seenAt: number
  /** Number of failed runs in a row, of all callers. */
  failures: number
  /** Why its last runs failed. */
  fault?: string | undefined
  /** Why the source could not reach the agent at the last attempt. */
  unreachable?: string | undefined
}

/** An agent with many skills that restarts is one change, and a person does not notice the wait. */
export const DEBOUNCE_MS = 250

/** An agent of another process leaves if its source has not seen it for this time: three searches of a source. */
const AGENT_TTL_MS = 60_000
const CHECK_MS = 10_000

/** Longest wait for the first search of a source. */
const FIRST_SEARCH_MS = 30_000
const CLOSE_MS = 10_000
/** Longest wait for the first agent, for a client that is served alone over a pipe. */
const ONE_CLIENT_MS = 5000
/** Longest wait of the first list for graphs of this process. */
const FIRST_LIST_MS = 10_000
/** Failed runs in a row after which an agent is degraded. */
const MAX_FAILURES = 5
/** Most warnings that are remembered. */
const MAX_KEPT = 1000

/**
 * The agents of all sources, and the plan of tools that is made of them. A source that fails or hangs stops no other.
 *
 * @example
 * ```ts
 * import { createGateway, langGraphSource } from '@x/mcp-gateway'
 *
 * const { registry } = createGateway({}) // an `AgentRegistry`
 * await registry.addSource(langGraphSource('./langgraph.json'))
 * console.log(registry.status())
 * ```
 */
export class AgentRegistry implements RunnableAgents {
  readonly #options: AgentRegistryOptions
  readonly #clock: Clock
  readonly #planner: ToolPlanner
  #plan: ToolPlan
  /** In the order in which they were added. */
  readonly #sources = new Map<AgentSource, SourceStatus>()
  readonly #agents = new Map<string, KnownAgent>()
  /** Warnings that were already sent. */
  readonly #warned: Map<string, true> = new BoundedMap(MAX_KEPT)
  readonly #listeners: Listeners<PlanChange>
  readonly #planning: Debouncer
  readonly #firstList: FirstList
  readonly #firstAgents: FirstList
  #starting: Promise<void> | undefined
  #stopChecking: () => void = () => undefined
  #stopWaiting: () => void = () => undefined
  #closing: Promise<void> | undefined

  /** @throws GatewayError `CONFIG` */
  constructor(options: AgentRegistryOptions) {
    const { clock, tools, debounceMs, onWarning, sources } = options
    this.#options = options
    this.#clock = clock
    this.#planner = new ToolPlanner(tools)
    this.#plan = this.#planner.plan([])
    this.#listeners = new Listeners((error) => onWarning('A listener of changes failed', error))
    this.#planning = new Debouncer({
      clock,
      quietMs: debounceMs,
      maxMs: 4 * debounceMs,
      onDue: () => this.#makePlan(),
    })
    this.#firstList = new FirstList(clock, FIRST_LIST_MS)
    this.#firstAgents = new FirstList(clock, ONE_CLIENT_MS)
    for (const source of sources) this.#add(source)
  }

  /**
   * Starts all sources, and resolves after the first search of each, with the new plan. A source that fails stops no
   * other: see `status()`. Never rejects. A second call returns the same promise.
   */
  start(): Promise<void> {
    this.#starting ??= this.#startAll()
    return this.#starting
  }

  /** Adds a source at run time. Resolves after its first search. Never rejects. */
  async addSource(source: AgentSource): Promise<void> {
    if (this.#closing !== undefined || this.#sources.has(source)) return
    this.#add(source)
    if (this.#starting === undefined) return
    await this.#startSource(source)
    this.#makePlan()
  }

  /** Removes the agents of a source, and closes it. Runs in flight go on. */
  async removeSource(source: AgentSource): Promise<void> {
    if (!this.#sources.delete(source)) return
    this.#dropAgents((known) => known.source === source)
    const closing = this.#close(source)
    this.#makePlan()
    await closing
  }

  /** Sorted by id. */
  agents(): readonly Agent[] {
    return this.#knownAgents().map(withHealth)
  }

  plan(): ToolPlan {
    return this.#plan
  }

  get isListable(): boolean {
    return this.#firstList.isOpen
  }

  /** Resolves when the first list may be sent, or after its time limit. Never rejects. */
  whenListable(): Promise<void> {
    return this.#firstList.wait()
  }

  /**
   * Like `whenListable()`, for a client that may read the list only once. Resolves when an agent is there, after
   * 5 s, or if there are no sources. Never rejects.
   */
  whenPopulated(): Promise<void> {
    return this.#firstAgents.wait()
  }

  sourceOf(agentId: string): AgentSource | undefined {
    return this.#agents.get(agentId)?.source
  }

  watchedRun(source: AgentSource, call: AgentCall): AsyncIterable<AgentUpdate> {
    const known = this.#agents.get(call.agentId)
    return watchedRun(source, call, (end) => {
      if (known === undefined) return
      if (end === 'worked') {
        known.failures = 0
        this.#note(known, { fault: undefined })
      } else if (end === 'failed') {
        known.failures += 1
        if (known.failures >= MAX_FAILURES) this.#note(known, { fault: 'its last runs failed' })
      }
    })
  }

  degrade(agentId: string, reason: string): void {
    const known = this.#agents.get(agentId)
    if (known) this.#note(known, { fault: reason })
  }

  /** Calls the listener after a change of the lists, but not of health alone. Returns a function that removes it. */
  on(_event: 'changed', listener: (change: PlanChange) => void): () => void {
    return this.#listeners.add(listener)
  }

  status(): RegistryStatus {
    return {
      sources: [...this.#sources.values()],
      agents: this.#knownAgents().map((known) => {
        const { source, seenAt } = known
        return { agent: withHealth(known), source: source.name, seenAt, reason: troubleOf(known) }
      }),
    }
  }

  /** Closes all sources. No listener is called after it. */
  close(): Promise<void> {
    this.#closing ??= this.#closeAll()
    return this.#closing
  }

  async #closeAll(): Promise<void> {
    this.#stopChecking()
    this.#stopWaiting()
    this.#planning.clear()
    this.#listeners.clear()
    this.#firstList.open()
    this.#firstAgents.open()
    await Promise.all([...this.#sources.keys()].map((source) => this.#close(source)))
  }

  // ---- the first list ----------------------------------------------------------------------------------------------

  async #startAll(): Promise<void> {
    if (this.#closing !== undefined) return
    void this.#firstList.wait()
    this.#expireAgents()
    const sources = [...this.#sources.keys()]
    const searches = sources.map((source) => this.#startSource(source))
    void this.#openSoon(searches.filter((_, index) => sources[index]?.isLocal === true))
    await Promise.all(searches)
    this.#makePlan()
    this.#stopWaiting()
    this.#firstList.open()
    if (this.#sources.size === 0) this.#firstAgents.open()
  }

  /**
   * Opens the first list when graphs of this process are loaded, and other agents had a short time to be found. Agents
   * of other processes may be unreachable for long.
   */
  async #openSoon(local: readonly Promise<void>[]): Promise<void> {
    const isDue = new Promise<void>((resolve) => {
      this.#stopWaiting = this.#clock.after(4 * this.#options.debounceMs, resolve)
    })
    await Promise.all([isDue, ...local])
    this.#makePlan()
    this.#firstList.open()
  }

  // ---- sources and their agents ------------------------------------------------------------------------------------

  #add(source: AgentSource): void {
    this.#sources.set(source, { name: source.name, state: 'starting', reason: undefined })
  }

  #setStatus(source: AgentSource, change: Partial<SourceStatus>): void {
    const known = this.#sources.get(source)
    if (known) this.#sources.set(source, { ...known, ...change })
  }

  /** Resolves after the first search of a source, or after its time limit: later agents are listed too. Never rejects. */
  async #startSource(source: AgentSource): Promise<void> {
    const { onWarning } = this.#options
    const search = async (): Promise<void> => {
      try {
        await source.start(this.#listenerFor(source))
        this.#setStatus(source, { state: 'started' })
      } catch (error) {
        const text = error instanceof Error ? error.message : String(error)
        const [reason, link] = splitErrorLink(text)
        this.#setStatus(source, { state: 'failed', reason })
        onWarning(`${source.name} could not be started: ${reason}${link}`, error)
      }
    }
    try {
      const what = `The first search of ${source.name}`
      await withDeadline(search(), { clock: this.#clock, ms: FIRST_SEARCH_MS, what })
    } catch (error) {
      onWarning('A source takes long to start', error)
    }
  }

  /** Never rejects. */
  async #close(source: AgentSource): Promise<void> {
    try {
      const what = `Closing ${source.name}`
      await withDeadline(source.close(), { clock: this.#clock, ms: CLOSE_MS, what })
    } catch (error) {
      this.#options.onWarning(`${source.name} could not be closed`, error)
    }
  }

  #listenerFor(source: AgentSource): AgentListener {
    const update = (agentId: string, change: Partial<KnownAgent>): void => {
      const known = this.#agents.get(agentId)
      if (known?.source === source) this.#note(known, change)
    }
    return {
      found: (agent) => this.#found(source, agent),
      seen: (id) => update(id, { seenAt: this.#clock.now(), unreachable: undefined }),
      unreachable: (id, reason) => update(id, { unreachable: reason }),
      gone: (id) => {
        if (this.#agents.get(id)?.source === source && this.#agents.delete(id)) this.#planSoon()
      },
      warned: this.#options.onWarning,
    }
  }

  #found(source: AgentSource, reported: Agent): void {
    if (this.#closing !== undefined || !this.#sources.has(source)) return
    const defect = agentDefectOf(reported)
    if (defect !== undefined) return this.#refuse(source, `an agent was refused: ${defect}`)
    const agent = legibleAgent(reported)
    const seen = { seenAt: this.#clock.now(), unreachable: undefined }
    const known = this.#agents.get(agent.id)
    if (known?.source === source) {
      const isSame = areEqualAgents(known.reported, agent)
      // An equal report is dropped, so that the compiled schemas of the first one are found again.
      this.#note(known, isSame ? seen : { ...seen, reported: agent })
      if (!isSame) this.#planSoon()
      return
    }
    if (known) {
      const reason = `${known.source.name} has an agent with the id "${agent.id}" already`
      return this.#refuse(source, reason)
    }
    this.#agents.set(agent.id, { source, failures: 0, reported: agent, ...seen })
    this.#planSoon()
  }

  /** Sorted by id. */
  #knownAgents(): readonly KnownAgent[] {
    return [...this.#agents.values()].toSorted((one, other) =>
      compareText(one.reported.id, other.reported.id),
    )
  }

  #refuse(source: AgentSource, reason: string): void {
    this.#setStatus(source, { reason })
    this.#options.onWarning(`${source.name}: ${reason}`)
  }

  #note(known: KnownAgent, change: Partial<KnownAgent>): void {
    const before = troubleOf(known)
    Object.assign(known, change)
    if ((before === undefined) !== (troubleOf(known) === undefined)) this.#planSoon()
  }

  #dropAgents(leaves: (known: KnownAgent) => boolean): void {
    for (const [id, known] of this.#agents) {
      if (!leaves(known)) continue
      this.#agents.delete(id)
      this.#planSoon()
    }
  }

  /** Drops agents of other processes that were not seen for a while, again and again. */
  #expireAgents(): void {
    this.#stopChecking = this.#clock.after(CHECK_MS, () => {
      const since = this.#clock.now() - AGENT_TTL_MS
      this.#dropAgents(({ source, seenAt }) => source.isLocal !== true && seenAt <= since)
      this.#expireAgents()
    })
  }

  // ---- the plan ----------------------------------------------------------------------------------------------------

  #planSoon(): void {
    if (this.#closing === undefined) this.#planning.touch()
  }

  #makePlan(): void {
    if (this.#closing !== undefined) return
    this.#planning.clear()
    const before = this.#plan
    const plan = this.#planner.plan(this.agents())
    this.#plan = plan
    this.#warnOf(plan)
    if (plan.agents.length > 0) this.#firstAgents.open()
    const tools = plan.toolsVersion !== before.toolsVersion
    const prompts = plan.promptsVersion !== before.promptsVersion
    if (tools || prompts) this.#listeners.emit({ plan, tools, prompts })
  }

  /** Sends each warning once. */
  #warnOf({ collisions, dropped, warnings }: ToolPlan): void {
    const { onWarning } = this.#options
    const isNew = (text: string): boolean => {
      if (this.#warned.has(text)) return false
      this.#warned.set(text, true)
      return true
    }
    const renamed = collisions.filter(({ given, skill }) => isNew(`${skill} is ${given}`))
    if (renamed.length > 0) onWarning(collisionText(renamed))
    const messages = [
      ...warnings,
      ...dropped
        .filter(({ why }) => why === 'schema')
        .map(({ agentId, skillId, reason }) => `${agentId}/${skillId} is no tool: ${reason}`),
    ]
    for (const message of messages.filter(isNew)) onWarning(message)
  }
}

/** Returns why an agent is degraded. `undefined` if it is healthy. */
function troubleOf({ fault, unreachable }: KnownAgent): string | undefined {
  return fault ?? unreachable
}

/** Returns the agent with its present health. */
function withHealth(known: KnownAgent): Agent {
  const { reported } = known
  const isHealthy = troubleOf(known) === undefined
  return isHealthy ? reported : { ...reported, health: 'degraded' }
}

/** Whether a run shows that its agent works. `unknown`: the caller cancelled, or made an error. */
type RunEnd = 'worked' | 'failed' | 'unknown'

/**
 * Runs an agent.
 *
 * @param onEnd called once, with what the run shows
 * @throws what the source throws
 */
async function* watchedRun(
  source: AgentSource,
  call: AgentCall,
  onEnd: (end: RunEnd) => void,
): AsyncGenerator<AgentUpdate> {
  const { signal } = call
  let end: RunEnd = 'unknown'
  try {
    for await (const update of source.run(call)) {
      // An agent that refuses the task works, too.
      if (isFinal(update)) end = 'worked'
      yield legibleUpdate(update)
    }
    if (end !== 'worked') end = 'failed'
  } catch (error) {
    end = isCallerError(error) ? 'unknown' : 'failed'
    throw error
  } finally {
    onEnd(signal.aborted ? endOfAborted(signal.reason) : end)
  }
}

/** A time limit of the gateway counts like an error of the agent. All other aborts come from callers. */
function endOfAborted(reason: unknown): RunEnd {
  if (!(reason instanceof RunFailure)) return 'unknown'
  return reason.reason === 'timeout' ? 'failed' : 'unknown'
}

/** Statuses with which a remote agent refuses a request of the caller (RFC 9110, section 15.5; RFC 4918, section 11.2). */
const CALLER_STATUSES: ReadonlySet<unknown> = new Set([400, 413, 422])

/** Caller errors (arguments, quota, a request that a remote agent refuses) say nothing about the agent. */
function isCallerError(error: unknown): boolean {
  if (error instanceof RunFailure) return error.reason === 'invalid_arguments'
  if (GatewayError.is(error)) return error.code === 'QUOTA' || error.code === 'LIMIT'
  return isRecord(error) && CALLER_STATUSES.has(error['status'])
}

/** Holds back the first list for a limited time, because some clients read a list only once. */
class FirstList {
  readonly #clock: Clock
  readonly #timeoutMs: number
  isOpen = false
  #cancel: (() => void) | undefined
  #open: () => void = () => undefined
  readonly #opened = new Promise<void>((resolve) => {
    this.#open = resolve
  })

  constructor(clock: Clock, timeoutMs: number) {
    this.#clock = clock
    this.#timeoutMs = timeoutMs
  }

  /** Starts the time limit with the first call. Never rejects. */
  wait(): Promise<void> {
    if (!this.isOpen) this.#cancel ??= this.#clock.after(this.#timeoutMs, () => this.open())
    return this.#opened
  }

  open(): void {
    this.isOpen = true
    this.#cancel?.()
    this.#open()
  }
}

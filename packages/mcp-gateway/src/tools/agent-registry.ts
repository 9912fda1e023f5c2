import type {
  Agent,
  AgentCall,
  AgentListener,
  AgentSource,
  AgentUpdate,
  RunnableAgents,
} from '../agents/agent.ts'
import { Breakers } from '../agents/breaker.ts'
import { asSeen, KnownAgents, troubleOf } from '../agents/known-agents.ts'
import { RegistrySources } from '../agents/registry-sources.ts'
import type { SourceStatus } from '../agents/registry-sources.ts'
import type { Clock } from '../internal/clock.ts'
import type { Principal } from '../internal/principal.ts'
import type { RegistrySettings, WaitForSettings } from '../options.ts'
import { CurrentPlan } from './current-plan.ts'
import type { PlanOptions, ToolPlan } from './plan.ts'

export interface AgentRegistryOptions extends RegistrySettings {
  readonly sources: readonly AgentSource[]
  readonly tools: PlanOptions
  /** Called with warnings. They contain no text of a user and no credential. */
  readonly onWarning: (message: string, cause?: unknown) => void
  readonly clock: Clock
}

/** A source to remove, a source to add, or both. */
export interface SourceReplacement {
  readonly gone?: AgentSource | undefined
  readonly come?: AgentSource | undefined
}

/** Options that can change at run time. */
export type RegistryUpdate = Pick<AgentRegistryOptions, 'tools' | 'ttlMs' | 'checkMs'>

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

export interface AgentStatus {
  readonly agent: Agent
  readonly source: string
  /** Milliseconds since 1970. */
  readonly seenAt: number
  /** Why the agent is degraded. */
  readonly reason?: string | undefined
}

/** Longest wait for the first agent, for a client that is served alone over a pipe. */
const ONE_CLIENT_MS = 5000
/** Longest wait of the first list for graphs of this process. */
const FIRST_LIST_MS = 10_000

/** The agents of all sources, and the plan of tools that is made of them. */
export class AgentRegistry implements RunnableAgents {
  readonly #clock: Clock
  #ttlMs: number
  #checkMs: number
  readonly #waitFor: WaitForSettings | undefined
  readonly #minAgents: number
  readonly #sources: RegistrySources
  readonly #known = new KnownAgents()
  readonly #breakers: Breakers
  readonly #current: CurrentPlan
  readonly #firstList: FirstList
  readonly #firstAgents: FirstList
  /** Time that the first list waits for agents of other processes, without the setting `waitFor`. */
  readonly #remoteWaitMs: number
  #starting: Promise<void> | undefined
  #stopChecking: () => void = () => undefined
  #stopWaiting: () => void = () => undefined
  #closing: Promise<void> | undefined

  /** @throws GatewayError `CONFIG` */
  constructor(options: AgentRegistryOptions) {
    const { clock, tools, debounceMs, waitFor, onWarning } = options
    this.#clock = clock
    this.#ttlMs = options.ttlMs
    this.#checkMs = options.checkMs
    this.#waitFor = waitFor
    this.#minAgents = waitFor?.minAgents ?? 1
    this.#current = new CurrentPlan({
      tools,
      clock,
      debounceMs,
      agents: () => this.agents(),
      onPlan: ({ agents }) => {
        if (agents.length < this.#minAgents) return
        this.#firstAgents.open()
        if (waitFor !== undefined) this.#firstList.open()
      },
      onWarning,
    })
    const timeoutMs = waitFor?.timeoutMs ?? FIRST_LIST_MS
    this.#remoteWaitMs = 4 * debounceMs
    this.#firstList = new FirstList(clock, timeoutMs)
    this.#firstAgents = new FirstList(clock, waitFor === undefined ? ONE_CLIENT_MS : timeoutMs)
    this.#breakers = new Breakers({
      clock,
      breaker: options.breaker,
      onWorked: (agentId) => {
        if (this.#known.fault(agentId, undefined)) this.#current.touch()
      },
      onFailing: (agentId) => this.degrade(agentId, 'its last runs failed'),
    })
    this.#sources = new RegistrySources({ clock, onWarning })
    for (const source of options.sources) this.#sources.add(source)
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
    this.#sources.add(source)
    if (this.#starting === undefined) return
    await this.#startSource(source)
    this.#current.remake()
  }

  /** Removes the agents of a source, and closes it. Runs in flight go on. */
  async removeSource(source: AgentSource): Promise<void> {
    await this.replaceSources([{ gone: source }])
  }

  /**
   * Replaces sources. Agents that the old and the new source have stay listed. A new source that cannot be started is
   * closed, and the old one stays. Resolves after the first search of each new source, when old sources are closed.
   * Never rejects.
   *
   * @returns the new sources that could not be started
   */
  async replaceSources(
    replacements: readonly SourceReplacement[],
  ): Promise<readonly AgentSource[]> {
    for (const { gone } of replacements) {
      if (gone && this.#sources.has(gone)) this.#known.release(gone)
    }
    await Promise.all(replacements.map(async ({ come }) => come && this.addSource(come)))
    const failed: AgentSource[] = []
    const leaving: AgentSource[] = []
    for (const { gone, come } of replacements) {
      const isFailed = gone !== undefined && come !== undefined && this.#sources.hasFailed(come)
      if (isFailed) {
        this.#known.keep(gone)
        failed.push(come)
        leaving.push(come)
      } else if (gone) leaving.push(gone)
    }
    const closing = leaving.map((source) => this.#remove(source))
    this.#current.remake()
    await Promise.all(closing)
    return failed
  }

  /**
   * Changes settings at run time. Resolves when the new plan is in force.
   *
   * @throws GatewayError `CONFIG`, and then nothing has changed
   */
  async update({ tools, ttlMs, checkMs }: RegistryUpdate): Promise<void> {
    this.#current.use(tools)
    this.#ttlMs = ttlMs
    this.#checkMs = checkMs
    if (this.#starting !== undefined) this.#current.remake()
  }

  /** Sorted by id. */
  agents(): readonly Agent[] {
    return this.#known.entries().map(asSeen)
  }

  agent(id: string): Agent | undefined {
    const known = this.#known.get(id)
    return known === undefined ? undefined : asSeen(known)
  }

  plan(): ToolPlan {
    return this.#current.plan
  }

  /** Returns the id of the agent whose tool had this name until it left. `undefined` if this caller could not use it. */
  ownerOf(toolName: string, principal?: Principal): string | undefined {
    return this.#current.ownerOf(toolName, principal)
  }

  get isListable(): boolean {
    return this.#firstList.isOpen
  }

  /** Resolves when the first list may be sent, or after its time limit. Never rejects. */
  whenListable(): Promise<void> {
    return this.#firstList.wait()
  }

  /**
   * Like `whenListable()`, for a client that may read the list only once. Resolves when the number of agents of `waitFor`
   * is there, or one agent without that setting; after its time limit or 5 s; or if there are no sources. Never rejects.
   */
  whenPopulated(): Promise<void> {
    return this.#firstAgents.wait()
  }

  /** Returns the source of an agent. `undefined` if the agent left. */
  sourceOf(agentId: string): AgentSource | undefined {
    return this.#known.get(agentId)?.source
  }

  /**
   * Runs an agent for a caller. Failures are counted for each caller.
   *
   * @throws RunFailure `unavailable` for an agent whose last runs failed; what the source throws
   */
  guardedRun(source: AgentSource, call: AgentCall, caller: string): AsyncIterable<AgentUpdate> {
    return this.#breakers.run(source, call, caller)
  }

  /** Marks an agent as degraded until one of its runs succeeds. */
  degrade(agentId: string, reason: string): void {
    if (this.#known.fault(agentId, reason)) this.#current.touch()
  }

  /** Calls the listener after a change of the lists, but not of health alone. Returns a function that removes it. */
  on(_event: 'changed', listener: (change: PlanChange) => void): () => void {
    return this.#current.onChange(listener)
  }

  status(): RegistryStatus {
    return {
      sources: this.#sources.statuses(),
      agents: this.#known.entries().map((known) => ({
        agent: asSeen(known),
        source: known.source.name,
        seenAt: known.seenAt,
        reason: troubleOf(known),
      })),
    }
  }

  /** Closes all sources. No listener is called after it. */
  close(): Promise<void> {
    this.#closing ??= this.#closeAll()
    return this.#closing
  }

  async #startAll(): Promise<void> {
    if (this.#closing !== undefined) return
    void this.#firstList.wait()
    this.#check()
    if (this.#waitFor !== undefined) this.#planForFirst(this.#waitFor)
    const sources = this.#sources.sources()
    const searches = sources.map((source) => this.#startSource(source))
    if (this.#waitFor === undefined) {
      void this.#openSoon(searches.filter((_, index) => sources[index]?.isLocal === true))
    }
    await Promise.all(searches)
    this.#current.remake()
    if (this.#waitFor === undefined) {
      this.#stopWaiting()
      this.#firstList.open()
    }
    if (this.#sources.sources().length === 0) this.#firstAgents.open()
  }

  /**
   * Opens the first list without the setting `waitFor`: when graphs of this process are loaded, and other agents had a
   * short time to be found. Agents of other processes may be unreachable for long.
   */
  async #openSoon(local: readonly Promise<void>[]): Promise<void> {
    const isDue = new Promise<void>((resolve) => {
      this.#stopWaiting = this.#clock.after(this.#remoteWaitMs, resolve)
    })
    await Promise.all([isDue, ...local])
    this.#current.remake()
    this.#firstList.open()
  }

  #openFirst(): void {
    this.#firstList.open()
    this.#firstAgents.open()
  }

  #startSource(source: AgentSource): Promise<void> {
    return this.#sources.start(source, this.#listenerFor(source))
  }

  #listenerFor(source: AgentSource): AgentListener {
    const isActive = (): boolean => this.#closing === undefined && this.#sources.has(source)
    return {
      found: (agent) => {
        if (!isActive()) return
        const found = this.#known.found(source, agent, this.#clock.now())
        // The next runs use the new source, and a new breaker.
        if (found.type === 'taken') this.#forget([agent.id])
        else if (found.type === 'refused') this.#sources.refuse(source, found.reason)
        else if (found.type !== 'same') this.#current.touch()
      },
      seen: (agentId) => {
        if (isActive() && this.#known.seen(source, agentId, this.#clock.now()))
          this.#current.touch()
      },
      unreachable: (agentId, reason) => {
        if (isActive() && this.#known.unreachable(source, agentId, reason)) this.#current.touch()
      },
      gone: (agentId) => {
        if (isActive() && this.#known.gone(source, agentId)) this.#forget([agentId])
      },
    }
  }

  async #remove(source: AgentSource): Promise<void> {
    if (!this.#sources.remove(source)) return
    this.#forget(this.#known.removeAllOf(source))
    await this.#sources.close(source)
  }

  /** Removes what is kept for agents that left. */
  #forget(agentIds: readonly string[]): void {
    for (const id of agentIds) this.#breakers.forget(id)
    if (agentIds.length > 0) this.#current.touch()
  }

  #check(): void {
    this.#stopChecking = this.#clock.after(this.#checkMs, () => {
      if (this.#closing !== undefined) return
      this.#forget(this.#known.expire(this.#clock.now() - this.#ttlMs))
      this.#check()
    })
  }

  /** Makes pending plans at once until the first list is open. */
  #planForFirst(waitFor: WaitForSettings): void {
    this.#stopWaiting = this.#clock.after(waitFor.pollMs, () => {
      if (this.#closing !== undefined || this.#firstList.isOpen) return
      this.#current.flush()
      this.#planForFirst(waitFor)
    })
  }

  async #closeAll(): Promise<void> {
    this.#stopChecking()
    this.#stopWaiting()
    this.#current.close()
    this.#openFirst()
    await Promise.all(this.#sources.sources().map((source) => this.#sources.close(source)))
  }
}

/** Holds back the first list for a limited time, because some clients read a list only once. */
class FirstList {
  readonly #clock: Clock
  readonly #timeoutMs: number
  #isOpen = false
  #cancel: (() => void) | undefined
  #open: () => void = () => undefined
  readonly #opened = new Promise<void>((resolve) => {
    this.#open = resolve
  })

  constructor(clock: Clock, timeoutMs: number) {
    this.#clock = clock
    this.#timeoutMs = timeoutMs
  }

  get isOpen(): boolean {
    return this.#isOpen
  }

  /** Starts the time limit with the first call. Never rejects. */
  wait(): Promise<void> {
    if (!this.#isOpen) this.#cancel ??= this.#clock.after(this.#timeoutMs, () => this.open())
    return this.#opened
  }

  open(): void {
    this.#isOpen = true
    this.#cancel?.()
    this.#open()
  }
}

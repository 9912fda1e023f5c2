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

/** How long somebody is kept waiting for a first agent who is served alone, as over a pipe. */
const ONE_READER_MS = 5000
/** First lists wait this long for graphs of this process. */
const FIRST_LIST_MS = 10_000

/** Every agent of every source: the one place that decides what is there. */
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
  /** How long a first list waits for agents of other processes, where nothing is said of it. */
  readonly #soonMs: number
  #starting: Promise<void> | undefined
  #stopChecking: () => void = () => undefined
  #stopLooking: () => void = () => undefined
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
    this.#soonMs = 4 * debounceMs
    this.#firstList = new FirstList(clock, timeoutMs)
    this.#firstAgents = new FirstList(clock, waitFor === undefined ? ONE_READER_MS : timeoutMs)
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
   * Starts all sources, and resolves after the first look of each: the plan then holds what they found. A
   * source that fails stops no other: see `status()`. Never rejects; the second call is the first.
   */
  start(): Promise<void> {
    this.#starting ??= this.#startAll()
    return this.#starting
  }

  /** One more source, at run time; resolves after its first look. Never rejects. */
  async addSource(source: AgentSource): Promise<void> {
    if (this.#closing !== undefined || this.#sources.has(source)) return
    this.#sources.add(source)
    if (this.#starting === undefined) return
    await this.#startSource(source)
    this.#current.remake()
  }

  /** Its agents leave, and it is closed. Runs that it does now go on. */
  async removeSource(source: AgentSource): Promise<void> {
    await this.replaceSources([{ gone: source }])
  }

  /**
   * Some sources in place of others: an agent that both have stays where it is. One that cannot be started takes no
   * place: it is closed, and what it was to replace stays. Resolves after the first looks of those that come; what was
   * replaced is closed then. Never rejects.
   *
   * @returns those that took no place
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
      const isInVain = gone !== undefined && come !== undefined && this.#sources.hasFailed(come)
      if (isInVain) {
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
   * Changes settings while it runs. Resolves when the new plan is in force.
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

  /** The agent whose tool had this name until it left, by id; `undefined` if there was none, or none for this caller. */
  ownerOf(toolName: string, principal?: Principal): string | undefined {
    return this.#current.ownerOf(toolName, principal)
  }

  get isListable(): boolean {
    return this.#firstList.isOpen
  }

  /** Resolves when there is a plan worth listing, or the time for it is over. Never rejects. */
  whenListable(): Promise<void> {
    return this.#firstList.wait()
  }

  /**
   * The same for somebody who may read the list once and no more, also where it is not configured to wait: resolves
   * when there are agents, as many as `waitFor` says or one, after its time or 5 s, or when none can come. Never rejects.
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

  /** Something was wrong with it. Holds until one of its runs ends well. */
  degrade(agentId: string, reason: string): void {
    if (this.#known.fault(agentId, reason)) this.#current.touch()
  }

  /** Told after a change of what is listed, never for health alone. Returns its own undo. */
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

  /** Closes all sources. Nothing is told any more. */
  close(): Promise<void> {
    this.#closing ??= this.#closeAll()
    return this.#closing
  }

  async #startAll(): Promise<void> {
    if (this.#closing !== undefined) return
    void this.#firstList.wait()
    this.#check()
    if (this.#waitFor !== undefined) this.#lookForFirst(this.#waitFor)
    const sources = this.#sources.sources()
    const looks = sources.map((source) => this.#startSource(source))
    if (this.#waitFor === undefined) {
      void this.#openSoon(looks.filter((_, index) => sources[index]?.isLocal === true))
    }
    await Promise.all(looks)
    this.#current.remake()
    if (this.#waitFor === undefined) {
      this.#stopLooking()
      this.#firstList.open()
    }
    if (this.#sources.sources().length === 0) this.#firstAgents.open()
  }

  /**
   * Without a wish to wait: graphs of this process are there once they are loaded, and whoever comes before would be
   * told that there are none; what is elsewhere may be away, and is awaited as long as a change is held back.
   */
  async #openSoon(local: readonly Promise<void>[]): Promise<void> {
    const isDue = new Promise<void>((resolve) => {
      this.#stopLooking = this.#clock.after(this.#soonMs, resolve)
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
    const isHeard = (): boolean => this.#closing === undefined && this.#sources.has(source)
    return {
      found: (agent) => {
        if (!isHeard()) return
        const found = this.#known.found(source, agent, this.#clock.now())
        // Runs that begin from now on are those of its new source.
        if (found.type === 'taken') this.#forget([agent.id])
        else if (found.type === 'refused') this.#sources.refuse(source, found.reason)
        else if (found.type !== 'same') this.#current.touch()
      },
      seen: (agentId) => {
        if (isHeard() && this.#known.seen(source, agentId, this.#clock.now())) this.#current.touch()
      },
      unreachable: (agentId, reason) => {
        if (isHeard() && this.#known.unreachable(source, agentId, reason)) this.#current.touch()
      },
      gone: (agentId) => {
        if (isHeard() && this.#known.gone(source, agentId)) this.#forget([agentId])
      },
    }
  }

  async #remove(source: AgentSource): Promise<void> {
    if (!this.#sources.remove(source)) return
    this.#forget(this.#known.removeAllOf(source))
    await this.#sources.close(source)
  }

  /** Agents left. */
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

  /** Until the first list is open, which has a deadline of its own. */
  #lookForFirst(waitFor: WaitForSettings): void {
    this.#stopLooking = this.#clock.after(waitFor.pollMs, () => {
      if (this.#closing !== undefined || this.#firstList.isOpen) return
      this.#current.flush()
      this.#lookForFirst(waitFor)
    })
  }

  async #closeAll(): Promise<void> {
    this.#stopChecking()
    this.#stopLooking()
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

  /** The time begins with the first call. Never rejects. */
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

export interface AgentRegistryOptions extends RegistrySettings {
  readonly sources: readonly AgentSource[]
  readonly tools: PlanOptions
  /** Called with warnings. They hold no text of a user and no credential. */
  readonly onWarning: (message: string, cause?: unknown) => void
  readonly clock: Clock
}

/** A source that leaves, one that comes, or one that comes in place of another. */
export interface SourceReplacement {
  readonly gone?: AgentSource | undefined
  readonly come?: AgentSource | undefined
}

/** Options that may change. */
export type RegistryUpdate = Pick<AgentRegistryOptions, 'tools' | 'ttlMs' | 'checkMs'>

/** What a new plan brought. Health alone is never told. */
export interface PlanChange {
  readonly plan: ToolPlan
  /** `tools/list` says something else now. */
  readonly tools: boolean
  /** `prompts/list` says something else now. */
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
  /** Why it is degraded. */
  readonly reason?: string | undefined
}

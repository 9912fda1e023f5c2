import { mayUse } from '../auth/permissions.ts'
import type { Principal } from '../auth/principal.ts'
import { type Clock, systemClock } from '../clock.ts'
import type { RunnableAgents } from '../runs/runs-options.ts'
import { MemoryValues } from '../store/memory-values.ts'
import type { ToolPlan } from '../tools/tool-plan.ts'
import type { Agent } from './agent.ts'
import type { AgentListener, AgentSource } from './agent-source.ts'
import { Breaker, type RunEnd } from './breaker.ts'
import { withDeadline } from '../deadline.ts'
import { Debouncer } from './debouncer.ts'
import { DepartedTools } from './departed-tools.ts'
import { FirstList } from './first-list.ts'
import { GuardedSource } from './guarded-source.ts'
import type {
  AgentRegistryOptions,
  PlanChange,
  RegistryStatus,
  RegistryUpdate,
} from './agent-registry-options.ts'
import { asSeen, KnownAgents } from './known-agents.ts'
import { PlanMaker } from './plan-maker.ts'
import { PlanOddities } from './plan-oddities.ts'
import { SourceStates } from './source-states.ts'

/** Longer, and whoever waits for a first look goes on without it. */
const FIRST_LOOK_MS = 30_000
const CLOSE_MS = 10_000

/** Every agent of every source: the one place that decides what is there. */
export class AgentRegistry implements RunnableAgents {
  readonly #clock: Clock
  #ttlMs: number
  #checkMs: number
  readonly #minAgents: number | undefined
  readonly #onWarning: (message: string, cause?: unknown) => void
  #plans: PlanMaker
  readonly #debouncer: Debouncer
  readonly #firstList: FirstList
  readonly #sources = new SourceStates()
  readonly #known = new KnownAgents()
  readonly #guarded = new Map<string, GuardedSource>()
  readonly #departed = new DepartedTools()
  readonly #oddities: PlanOddities
  #listeners: readonly ((change: PlanChange) => void)[] = []
  #plan: ToolPlan
  #planning: Promise<void> | undefined
  #isStale = false
  #starting: Promise<void> | undefined
  #stopChecking: () => void = () => undefined
  #closing: Promise<void> | undefined

  /** @throws GatewayError `CONFIG` */
  constructor(options: AgentRegistryOptions = {}) {
    const { clock = systemClock, tools = {}, debounceMs = 250, waitFor } = options
    const { values = new MemoryValues(() => clock.now()), onWarning = () => undefined } = options
    this.#clock = clock
    this.#ttlMs = options.ttlMs ?? 60_000
    this.#checkMs = options.checkMs ?? 10_000
    this.#minAgents = waitFor === undefined ? undefined : (waitFor.minAgents ?? 1)
    this.#onWarning = onWarning
    this.#oddities = new PlanOddities(onWarning)
    this.#plans = new PlanMaker({ values, clock, tools, onWarning })
    this.#plan = this.#plans.empty()
    this.#debouncer = new Debouncer({
      clock,
      quietMs: debounceMs,
      maxMs: 4 * debounceMs,
      onDue: () => void this.#replan(),
    })
    // Without a wish to wait, only as long as a change is held back in any case.
    const timeoutMs = waitFor === undefined ? 4 * debounceMs : (waitFor.timeoutMs ?? 10_000)
    this.#firstList = new FirstList(clock, timeoutMs)
    for (const source of options.sources ?? []) this.#sources.add(source)
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
    await this.#replan()
  }

  /** Its agents leave, and it is closed. Runs that it does now go on. */
  async removeSource(source: AgentSource): Promise<void> {
    if (!this.#sources.remove(source)) return
    this.#forget(this.#known.removeAllOf(source))
    await Promise.all([this.#closeSource(source), this.#replan()])
  }

  /**
   * Other rules, while it runs: what is given takes the place of what was. Resolves with the new plan in force.
   *
   * @throws GatewayError `CONFIG`, and then nothing has changed
   */
  async update({ tools, ttlMs, checkMs }: RegistryUpdate): Promise<void> {
    if (tools !== undefined) this.#plans = this.#plans.with(tools)
    this.#ttlMs = ttlMs ?? this.#ttlMs
    this.#checkMs = checkMs ?? this.#checkMs
    if (tools !== undefined && this.#starting !== undefined) await this.#replan()
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
    return this.#plan
  }

  /** The agent whose tool had this name until it left, by id; `undefined` if there was none, or none for this caller. */
  ownerOf(toolName: string, principal?: Principal): string | undefined {
    const tool = this.#departed.get(toolName)
    if (tool === undefined) return undefined
    return principal === undefined || mayUse(principal, tool) ? tool.agent.id : undefined
  }

  get isListable(): boolean {
    return this.#firstList.isOpen
  }

  /** Resolves when there is a plan worth listing, or the time for it is over. Never rejects. */
  whenListable(): Promise<void> {
    return this.#firstList.wait()
  }

  /** Runs an agent, and leaves it alone while it keeps failing; `undefined`: it left. */
  sourceOf(agentId: string): AgentSource | undefined {
    const known = this.#known.get(agentId)
    if (known === undefined) return undefined
    const guarded = this.#guarded.get(agentId) ?? this.#guard(agentId, known.source)
    this.#guarded.set(agentId, guarded)
    return guarded
  }

  /** Something was wrong with it. Holds until one of its runs ends well. */
  degrade(agentId: string, reason: string): void {
    if (this.#known.fault(agentId, reason)) this.#changed()
  }

  /** Told after a change of what is listed, never for health alone. Returns its own undo. */
  on(_event: 'changed', listener: (change: PlanChange) => void): () => void {
    const entry = (change: PlanChange): void => listener(change) // the same may be added twice
    this.#listeners = [...this.#listeners, entry]
    return () => {
      this.#listeners = this.#listeners.filter((each) => each !== entry)
    }
  }

  status(): RegistryStatus {
    return {
      sources: this.#sources.statuses(),
      agents: this.#known.entries().map((known) => ({
        agent: asSeen(known),
        source: known.source.name,
        seenAt: known.seenAt,
        reason: known.fault,
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
    await Promise.all(this.#sources.sources().map((source) => this.#startSource(source)))
    await this.#replan()
    if (this.#minAgents === undefined) this.#firstList.open()
  }

  async #startSource(source: AgentSource): Promise<void> {
    const started = this.#firstLook(source)
    try {
      const what = `The first look of ${source.name}`
      await withDeadline(started, { clock: this.#clock, ms: FIRST_LOOK_MS, what })
    } catch (error) {
      // What it finds later counts all the same.
      this.#onWarning('A source takes long to start', error)
    }
  }

  /** Never rejects. */
  async #firstLook(source: AgentSource): Promise<void> {
    try {
      await source.start(this.#listenerFor(source))
      this.#sources.update(source, { state: 'started' })
    } catch (error) {
      const reason = error instanceof Error ? error.message : String(error)
      this.#sources.update(source, { state: 'failed', reason })
      this.#onWarning(`${source.name} could not be started: ${reason}`, error)
    }
  }

  #listenerFor(source: AgentSource): AgentListener {
    const isHeard = (): boolean => this.#closing === undefined && this.#sources.has(source)
    return {
      found: (agent) => {
        if (!isHeard()) return
        const found = this.#known.found(source, agent, this.#clock.now())
        if (found.type === 'refused') this.#refuse(source, found.reason)
        else if (found.type !== 'same') this.#changed()
      },
      seen: (agentId) => {
        if (isHeard()) this.#known.seen(source, agentId, this.#clock.now())
      },
      gone: (agentId) => {
        if (isHeard() && this.#known.gone(source, agentId)) this.#forget([agentId])
      },
    }
  }

  #refuse(source: AgentSource, reason: string): void {
    this.#sources.update(source, { reason })
    this.#onWarning(`${source.name}: ${reason}`)
  }

  #guard(agentId: string, source: AgentSource): GuardedSource {
    const breaker = new Breaker({ clock: this.#clock })
    const onEnd = (end: RunEnd): void => {
      // A run may outlive its agent, and another may have its id by then.
      if (this.#closing !== undefined || this.#guarded.get(agentId) !== guarded) return
      if (end === 'worked' && this.#known.fault(agentId, undefined)) this.#changed()
      if (end === 'failed' && !breaker.isClosed) {
        this.degrade(agentId, 'its last runs failed; it is left alone for a while')
      }
    }
    const guarded = new GuardedSource(source, { breaker, onEnd })
    return guarded
  }

  /** Agents left. Their runs go on with the source they have. */
  #forget(agentIds: readonly string[]): void {
    for (const id of agentIds) this.#guarded.delete(id)
    if (agentIds.length > 0) this.#changed()
  }

  #changed(): void {
    if (this.#closing === undefined) this.#debouncer.touch()
  }

  #check(): void {
    this.#stopChecking = this.#clock.after(this.#checkMs, () => {
      if (this.#closing !== undefined) return
      this.#forget(this.#known.expire(this.#clock.now() - this.#ttlMs))
      if (this.#plans.isDue && this.#known.size > 0) this.#changed()
      this.#check()
    })
  }

  /** One at a time; what changes meanwhile makes another. */
  #replan(): Promise<void> {
    this.#isStale = true
    this.#planning ??= this.#makePlans().finally(() => {
      this.#planning = undefined
    })
    return this.#planning
  }

  async #makePlans(): Promise<void> {
    while (this.#isStale && this.#closing === undefined) {
      this.#isStale = false
      this.#debouncer.clear()
      const plan = await this.#plans.make(() => this.agents())
      if (this.#closing !== undefined) return
      this.#adopt(plan)
    }
  }

  #adopt(plan: ToolPlan): void {
    const before = this.#plan
    this.#plan = plan
    this.#departed.update(before, plan)
    this.#oddities.tell(plan)
    if (plan.agents.length >= (this.#minAgents ?? 1)) this.#firstList.open()
    const tools = plan.toolsVersion !== before.toolsVersion
    const prompts = plan.promptsVersion !== before.promptsVersion
    if (!tools && !prompts) return
    for (const listener of this.#listeners) {
      try {
        listener({ plan, tools, prompts })
      } catch (error) {
        this.#onWarning('A listener of changes failed', error)
      }
    }
  }

  async #closeAll(): Promise<void> {
    this.#stopChecking()
    this.#debouncer.clear()
    this.#firstList.open()
    this.#listeners = []
    await Promise.all(this.#sources.sources().map((source) => this.#closeSource(source)))
    await this.#planning
  }

  async #closeSource(source: AgentSource): Promise<void> {
    try {
      const what = `Closing ${source.name}`
      await withDeadline(source.close(), { clock: this.#clock, ms: CLOSE_MS, what })
    } catch (error) {
      this.#onWarning(`${source.name} could not be closed`, error)
    }
  }
}

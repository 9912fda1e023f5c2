import type { Principal } from '../internal/principal.ts'
import { mayUse } from '../internal/principal.ts'
import type { Clock } from '../internal/clock.ts'
import { Debouncer } from '../internal/debouncer.ts'
import type { Values } from '../store/gateway-store.ts'
import type { ToolPlan } from './tool-plan.ts'
import type { Agent } from '../agents/agent.ts'
import type { PlanChange } from './agent-registry-options.ts'
import { DepartedTools } from './departed-tools.ts'
import { PlanMaker } from './plan-maker.ts'
import type { PlanOptions } from './tool-planner.ts'
import { PlanOddities } from './plan-oddities.ts'

export interface CurrentPlanOptions {
  readonly tools: PlanOptions
  readonly values: Values
  readonly clock: Clock
  /** A change is planned after so long without another, and at most four times as long after the first. */
  readonly debounceMs: number
  /** Whoever is there now. */
  readonly agents: () => readonly Agent[]
  /** Told of each plan that comes into force, before those who listen for changes. */
  readonly onPlan: (plan: ToolPlan) => void
  readonly onWarning: (message: string, cause?: unknown) => void
}

/** The plan in force. It is made anew when something changed, one at a time, and a change of its lists is told. */
export class CurrentPlan {
  readonly #options: CurrentPlanOptions
  readonly #debouncer: Debouncer
  readonly #departed = new DepartedTools()
  readonly #oddities: PlanOddities
  #maker: PlanMaker
  #plan: ToolPlan
  #listeners: readonly ((change: PlanChange) => void)[] = []
  #making: Promise<void> | undefined
  #isStale = false
  #isClosed = false

  /** @throws GatewayError `CONFIG` */
  constructor(options: CurrentPlanOptions) {
    const { clock, debounceMs, onWarning } = options
    this.#options = options
    this.#maker = new PlanMaker(options)
    this.#plan = this.#maker.empty()
    this.#oddities = new PlanOddities(onWarning)
    this.#debouncer = new Debouncer({
      clock,
      quietMs: debounceMs,
      maxMs: 4 * debounceMs,
      onDue: () => void this.remake(),
    })
  }

  get plan(): ToolPlan {
    return this.#plan
  }

  /** Whether names are to be told again, so that they stay; or were not told, since the store was away. */
  get isDue(): boolean {
    return this.#maker.isDue
  }

  /** For plans that are made from now on. @throws GatewayError `CONFIG`, and then nothing has changed */
  use(tools: PlanOptions): void {
    this.#maker = this.#maker.with(tools)
  }

  /** Something changed: there will be a new plan soon. */
  touch(): void {
    if (!this.#isClosed) this.#debouncer.touch()
  }

  /** What is held back is planned now. */
  flush(): void {
    if (this.#debouncer.isPending) void this.remake()
  }

  /** Resolves with a new plan in force; what changes meanwhile makes another. Never rejects. */
  remake(): Promise<void> {
    this.#isStale = true
    this.#making ??= this.#make().finally(() => {
      this.#making = undefined
    })
    return this.#making
  }

  /** The agent whose tool had this name until it left, by id; `undefined` if there was none, or none for this caller. */
  ownerOf(toolName: string, principal?: Principal): string | undefined {
    const tool = this.#departed.get(toolName)
    if (tool === undefined) return undefined
    return principal === undefined || mayUse(principal, tool) ? tool.agent.id : undefined
  }

  /** Returns its own undo. */
  onChange(listener: (change: PlanChange) => void): () => void {
    const entry = (change: PlanChange): void => listener(change) // the same may be added twice
    this.#listeners = [...this.#listeners, entry]
    return () => {
      this.#listeners = this.#listeners.filter((each) => each !== entry)
    }
  }

  /** No other plan comes into force, and nothing is told any more. Resolves when none is being made. */
  async close(): Promise<void> {
    this.#isClosed = true
    this.#debouncer.clear()
    this.#listeners = []
    await this.#making
  }

  async #make(): Promise<void> {
    while (this.#isStale && !this.#isClosed) {
      this.#isStale = false
      this.#debouncer.clear()
      const plan = await this.#maker.make(this.#options.agents)
      if (this.#isClosed) return
      this.#adopt(plan)
    }
  }

  #adopt(plan: ToolPlan): void {
    const { onPlan, onWarning } = this.#options
    const before = this.#plan
    this.#plan = plan
    this.#departed.update(before, plan)
    this.#oddities.tell(plan)
    onPlan(plan)
    const tools = plan.toolsVersion !== before.toolsVersion
    const prompts = plan.promptsVersion !== before.promptsVersion
    if (!tools && !prompts) return
    for (const listener of this.#listeners) {
      try {
        listener({ plan, tools, prompts })
      } catch (error) {
        onWarning('A listener of changes failed', error)
      }
    }
  }
}

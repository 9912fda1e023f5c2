import { BoundedMap } from '@x/internal'

import type { Agent } from '../agents/agent.ts'
import type { Clock } from '../internal/clock.ts'
import { Debouncer } from '../internal/timers.ts'
import { mayUse, type Principal } from '../internal/principal.ts'
import type { PlanChange } from './agent-registry.ts'
import { ToolPlanner } from './plan.ts'
import type { PlannedTool, PlanOptions, ToolPlan } from './plan.ts'

export interface CurrentPlanOptions {
  readonly tools: PlanOptions
  readonly clock: Clock
  /** A plan is made after this time without another change, and after four times this time at most. */
  readonly debounceMs: number
  /** The agents that are there now. */
  readonly agents: () => readonly Agent[]
  /** Called with each new plan, before the listeners. */
  readonly onPlan: (plan: ToolPlan) => void
  readonly onWarning: (message: string, cause?: unknown) => void
}

/** Most departed tools, and most warnings, that are remembered. */
const MAX_KEPT = 1000

/** The plan in force. A new plan is made when something changed; listeners are called if its lists differ. */
export class CurrentPlan {
  readonly #options: CurrentPlanOptions
  readonly #debouncer: Debouncer
  /** Tools whose agents left, by their names. */
  readonly #departed = new Map<string, PlannedTool>()
  /** Warnings that were already sent. */
  readonly #warned: Map<string, true> = new BoundedMap(MAX_KEPT)
  #planner: ToolPlanner
  #plan: ToolPlan
  #listeners: readonly ((change: PlanChange) => void)[] = []
  #isClosed = false

  /** @throws GatewayError `CONFIG` */
  constructor(options: CurrentPlanOptions) {
    const { clock, debounceMs } = options
    this.#options = options
    this.#planner = new ToolPlanner(options.tools)
    this.#plan = this.#planner.plan([])
    this.#debouncer = new Debouncer({
      clock,
      quietMs: debounceMs,
      maxMs: 4 * debounceMs,
      onDue: () => this.remake(),
    })
  }

  get plan(): ToolPlan {
    return this.#plan
  }

  /** Sets the options of later plans. @throws GatewayError `CONFIG`, and then nothing has changed */
  use(tools: PlanOptions): void {
    this.#planner = new ToolPlanner(tools)
  }

  /** Something changed: makes a new plan soon. */
  touch(): void {
    if (!this.#isClosed) this.#debouncer.touch()
  }

  /** Makes a new plan now, if one is due later. */
  flush(): void {
    if (this.#debouncer.isPending) this.remake()
  }

  /** Makes a new plan now. */
  remake(): void {
    if (this.#isClosed) return
    this.#debouncer.clear()
    const { agents, onPlan, onWarning } = this.#options
    const before = this.#plan
    const plan = this.#planner.plan(agents())
    this.#plan = plan
    this.#noteDeparted(before, plan)
    this.#warn(plan)
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

  /** Returns the id of the agent whose tool had this name until it left. `undefined` if this caller could not use it. */
  ownerOf(toolName: string, principal?: Principal): string | undefined {
    const tool = this.#departed.get(toolName)
    if (tool === undefined) return undefined
    return principal === undefined || mayUse(principal, tool) ? tool.agent.id : undefined
  }

  /** Returns a function that removes the listener. */
  onChange(listener: (change: PlanChange) => void): () => void {
    const entry = (change: PlanChange): void => listener(change) // the same listener may be added twice
    this.#listeners = [...this.#listeners, entry]
    return () => {
      this.#listeners = this.#listeners.filter((each) => each !== entry)
    }
  }

  /** Makes no more plans, and calls no listener. */
  close(): void {
    this.#isClosed = true
    this.#debouncer.clear()
    this.#listeners = []
  }

  #noteDeparted(before: ToolPlan, after: ToolPlan): void {
    const present = new Set(after.agents.map(({ id }) => id))
    for (const tool of before.tools) {
      if (!present.has(tool.agent.id)) this.#departed.set(tool.name, tool)
    }
    for (const { name } of after.tools) this.#departed.delete(name)
    for (const name of this.#departed.keys()) {
      if (this.#departed.size <= MAX_KEPT) break
      this.#departed.delete(name)
    }
  }

  /** Sends each warning once. */
  #warn({ collisions, dropped, warnings }: ToolPlan): void {
    const messages = [
      ...warnings,
      ...collisions.map(({ wanted, skill, others, given }) => {
        return `The tool of ${skill} is called ${given}, because the name ${wanted} is also wanted by ${others.join(', ') || 'another tool'}`
      }),
      ...dropped
        .filter(({ why }) => why === 'schema')
        .map(({ agentId, skillId, reason }) => `${agentId}/${skillId} is no tool: ${reason}`),
    ]
    for (const message of messages) {
      if (this.#warned.has(message)) continue
      this.#warned.set(message, true)
      this.#options.onWarning(message)
    }
  }
}

import type { Clock } from '../internal/clock.ts'
import type { Values } from '../store/gateway-store.ts'
import { AnnouncedNames, type NamesSnapshot } from './announced-names.ts'
import type { ToolPlan } from './tool-plan.ts'
import { ToolPlanner, type PlanOptions } from './tool-planner.ts'
import type { Agent } from '../agents/agent.ts'
import { withDeadline } from '../internal/deadline.ts'

export interface PlanMakerOptions {
  readonly values: Values
  readonly clock: Clock
  readonly tools: PlanOptions
  readonly onWarning: (message: string, cause?: unknown) => void
}

/** Processes that announce names at the same time take turns; more often than this it is no coincidence. */
const MAX_ATTEMPTS = 16
const STORE_MS = 5000

/** Makes plans whose names all processes agree on. */
export class PlanMaker {
  readonly #planner: ToolPlanner
  readonly #names: AnnouncedNames
  readonly #onWarning: (message: string, cause?: unknown) => void
  readonly #options: PlanMakerOptions
  readonly #clock: Clock
  readonly #renewMs: number
  #snapshot: NamesSnapshot = { names: [], entries: [], version: null }
  #savedAt: number | undefined

  /** @throws GatewayError `CONFIG` */
  constructor(options: PlanMakerOptions) {
    const { values, clock, tools, onWarning } = options
    this.#options = options
    const ttlMs = tools.names.stickyTtlMs
    this.#planner = new ToolPlanner(tools)
    this.#names = new AnnouncedNames({ values, rules: this.#planner.namesVersion, ttlMs, clock })
    this.#onWarning = onWarning
    this.#clock = clock
    this.#renewMs = ttlMs / 4
  }

  /** The same with other options; names that were announced stay, where the new ones leave them. @throws GatewayError `CONFIG` */
  with(tools: PlanOptions): PlanMaker {
    const next = new PlanMaker({ ...this.#options, tools })
    if (next.#planner.namesVersion === this.#planner.namesVersion) next.#snapshot = this.#snapshot
    return next
  }

  /** A plan of nobody. */
  empty(): ToolPlan {
    return this.#planner.plan([]).plan
  }

  /** Whether names are to be told again, so that they stay; or were not told, since the store was away. */
  get isDue(): boolean {
    return this.#savedAt === undefined || this.#clock.now() - this.#savedAt >= this.#renewMs
  }

  /** A plan of whoever is there when it is made. A store that cannot be reached is warned of, and done without. */
  async make(agents: () => readonly Agent[]): Promise<ToolPlan> {
    try {
      for (let attempt = 0; attempt < MAX_ATTEMPTS; attempt++) {
        this.#snapshot = await this.#inTime(this.#names.load())
        const { plan, names } = this.#planner.plan(agents(), this.#snapshot.names)
        if (await this.#inTime(this.#names.save(names, this.#snapshot))) {
          this.#savedAt = this.#clock.now()
          return plan
        }
      }
      this.#onWarning(`The names of tools changed ${MAX_ATTEMPTS} times while they were given`)
    } catch (error) {
      this.#onWarning('The names of tools could not be kept; other processes may differ', error)
    }
    this.#savedAt = undefined
    const { plan, names } = this.#planner.plan(agents(), this.#snapshot.names)
    // What is announced now stays at least here.
    this.#snapshot = { ...this.#snapshot, names: merged(this.#snapshot.names, names) }
    return plan
  }

  #inTime<T>(promise: Promise<T>): Promise<T> {
    return withDeadline(promise, { clock: this.#clock, ms: STORE_MS, what: 'The store' })
  }
}

function merged(
  before: NamesSnapshot['names'],
  now: NamesSnapshot['names'],
): NamesSnapshot['names'] {
  const taken = new Set(now.map(({ name }) => name))
  return [...now, ...before.filter(({ name }) => !taken.has(name))].slice(0, 5000)
}

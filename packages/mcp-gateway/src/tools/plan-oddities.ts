import { BoundedMap } from '@x/internal'
import type { ToolPlan } from './tool-plan.ts'

const MAX_KEPT = 1000

/** Tells once of each thing that is odd about plans: names that collide, schemas that cannot be used. */
export class PlanOddities {
  readonly #told: Map<string, true> = new BoundedMap(MAX_KEPT)
  readonly #onWarning: (message: string) => void

  constructor(onWarning: (message: string) => void) {
    this.#onWarning = onWarning
  }

  tell({ collisions, dropped, warnings }: ToolPlan): void {
    const odd = [
      ...warnings,
      ...collisions.map(
        ({ wanted, owner, other, given }) =>
          `The tool of ${other} is called ${given}: ${wanted} is that of ${owner}`,
      ),
      ...dropped
        .filter(({ why }) => why === 'schema')
        .map(({ agentId, skillId, reason }) => `${agentId}/${skillId} is no tool: ${reason}`),
    ]
    for (const message of odd) {
      if (this.#told.has(message)) continue
      this.#told.set(message, true)
      this.#onWarning(message)
    }
  }
}

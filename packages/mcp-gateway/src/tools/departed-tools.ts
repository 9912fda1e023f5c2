import type { PlannedTool, ToolPlan } from './tool-plan.ts'

const MAX_KEPT = 1000

/** Tools whose agents left, the last of them: a call that comes too late is to be told so. */
export class DepartedTools {
  readonly #all = new Map<string, PlannedTool>()

  get(name: string): PlannedTool | undefined {
    return this.#all.get(name)
  }

  /** Compares what was with what is. */
  update(before: ToolPlan, after: ToolPlan): void {
    const present = new Set(after.agents.map(({ id }) => id))
    for (const tool of before.tools) {
      if (!present.has(tool.agent.id)) this.#all.set(tool.name, tool)
    }
    for (const { name } of after.tools) this.#all.delete(name)
    for (const name of this.#all.keys()) {
      if (this.#all.size <= MAX_KEPT) break
      this.#all.delete(name)
    }
  }
}

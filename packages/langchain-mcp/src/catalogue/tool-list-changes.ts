import { canonicalJson } from '@x/internal'
import type { ToolDefinition } from './tool-source.ts'

/** How a list differs from the one before, by the names on the wire. */
export interface ToolListChange {
  readonly added: readonly string[]
  readonly removed: readonly string[]
  /** Other words, another schema, other annotations. */
  readonly changed: readonly string[]
}

/** `undefined` where the lists say the same, in whatever order. */
function toolListChange(
  before: readonly ToolDefinition[],
  after: readonly ToolDefinition[],
): ToolListChange | undefined {
  if (before === after) return undefined
  const old = new Map(before.map((tool) => [tool.name, tool]))
  const now = new Map(after.map((tool) => [tool.name, tool]))
  const added = [...now.keys()].filter((name) => !old.has(name))
  const removed = [...old.keys()].filter((name) => !now.has(name))
  const changed = [...now].flatMap(([name, tool]) => {
    const known = old.get(name)
    const isOther =
      known !== undefined && known !== tool && signatureOf(known) !== signatureOf(tool)
    return isOther ? [name] : []
  })
  return added.length + removed.length + changed.length === 0
    ? undefined
    : { added, removed, changed }
}

/** The last list of each principal, and how the next one differs. */
export class ToolListChanges {
  readonly #max: number
  readonly #last = new Map<string | undefined, readonly ToolDefinition[]>()

  /** Of at most `max` principals lists are kept. */
  constructor(max: number) {
    this.#max = max
  }

  observe(
    principal: string | undefined,
    tools: readonly ToolDefinition[],
  ): ToolListChange | undefined {
    const before = this.#last.get(principal)
    if (before === tools) return undefined
    this.#last.delete(principal)
    this.#last.set(principal, tools)
    for (const oldest of this.#last.keys()) {
      if (this.#last.size <= this.#max) break
      this.#last.delete(oldest)
    }
    return before === undefined ? undefined : toolListChange(before, tools)
  }
}

/** `_meta` may be another with each list. */
function signatureOf({ _meta, ...tool }: ToolDefinition): string {
  return canonicalJson(tool)
}

import type { Tool } from '@modelcontextprotocol/sdk/types.js'
import { SingleFlight } from '../single-flight.ts'

export interface ToolChanges {
  readonly added: readonly string[]
  readonly removed: readonly string[]
  readonly changed: readonly string[]
}

/**
 * Asks for the list. Calls `onAsked` when the first page is asked for, again if it begins anew: what the
 * server says of changes before that is in the answer.
 */
export type ReadTools = (onAsked: () => void, signal: AbortSignal) => Promise<readonly Tool[]>

/**
 * The server's tools, kept until it says that they changed. One fetch serves all who ask meanwhile; a
 * fetch that fails leaves the old list.
 */
export class ToolList {
  readonly #read: ReadTools
  readonly #onChange: (changes: ToolChanges) => void
  #tools: readonly Tool[] | undefined
  /** How often the server has said that the list changed; and when the list, and that in flight, was asked for. */
  #changes = 0
  #asOf = -1
  #fetch: Fetch | undefined

  constructor(read: ReadTools, onChange: (changes: ToolChanges) => void) {
    this.#read = read
    this.#onChange = onChange
  }

  /** How many tools the last list had. Undefined if there was none yet. */
  get size(): number | undefined {
    return this.#tools?.length
  }

  /** What is known now; nothing is asked. */
  find(name: string): Tool | undefined {
    return this.#tools?.find((tool) => tool.name === name)
  }

  async get(options: { forceRefresh: boolean; signal: AbortSignal }): Promise<readonly Tool[]> {
    const { forceRefresh, signal } = options
    if (!forceRefresh && this.#tools !== undefined && this.#asOf === this.#changes) {
      return this.#tools
    }
    // Joined only if its answer will be good enough: a refresh must see what is true after it was asked for.
    const { asOf } = this.#fetch ?? {}
    const isGood = !forceRefresh && (asOf === undefined || asOf === this.#changes)
    const fetch = (this.#fetch =
      isGood && this.#fetch !== undefined ? this.#fetch : { flight: new SingleFlight() })
    return fetch.flight.join((shared) => this.#refresh(fetch, shared), signal)
  }

  /** The server said that the list changed, or there is a new session. */
  invalidate(): void {
    this.#changes++
  }

  /** Forgets everything; who waits for a fetch gets `reason`. */
  clear(reason: Error): void {
    this.#changes++
    this.#tools = undefined
    void this.#fetch?.flight.abort(reason)
    this.#fetch = undefined
  }

  async #refresh(fetch: Fetch, signal: AbortSignal): Promise<readonly Tool[]> {
    const onAsked = (): void => {
      fetch.asOf = this.#changes
    }
    try {
      const tools = frozen([...(await this.#read(onAsked, signal))])
      // One that was overtaken must not overwrite what came later.
      if (this.#fetch === fetch) this.#keep(tools, fetch.asOf ?? this.#changes)
      return tools
    } finally {
      if (this.#fetch === fetch) this.#fetch = undefined
    }
  }

  #keep(tools: readonly Tool[], asOf: number): void {
    const before = this.#tools
    this.#tools = tools
    this.#asOf = asOf
    const changes = before === undefined ? undefined : changesBetween(before, tools)
    if (changes !== undefined) this.#onChange(changes)
  }
}

interface Fetch {
  readonly flight: SingleFlight<readonly Tool[]>
  asOf?: number
}

/** The list is handed to many: nobody shall change what the others see. */
function frozen<T>(value: T): T {
  if (typeof value === 'object' && value !== null && !Object.isFrozen(value)) {
    Object.freeze(value)
    for (const part of Object.values(value)) frozen(part)
  }
  return value
}

function changesBetween(before: readonly Tool[], after: readonly Tool[]): ToolChanges | undefined {
  const old = new Map(before.map((tool) => [tool.name, JSON.stringify(tool)]))
  const now = new Map(after.map((tool) => [tool.name, JSON.stringify(tool)]))
  const added = [...now.keys()].filter((name) => !old.has(name))
  const removed = [...old.keys()].filter((name) => !now.has(name))
  const changed = [...now].filter(([name, tool]) => old.has(name) && old.get(name) !== tool)
  if (added.length + removed.length + changed.length === 0) return undefined
  return { added, removed, changed: changed.map(([name]) => name) }
}

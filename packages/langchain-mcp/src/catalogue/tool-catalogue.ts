import type { ToolDefinition } from './tool-source.ts'

export interface ToolCatalogueOptions {
  /** How long a list is good, in milliseconds: nobody may be listening for changes. */
  readonly maxAgeMs: number
  /** Of how many principals lists are kept. */
  readonly max: number
}

type ReadCatalogue = () => Promise<readonly ToolDefinition[]>

interface Entry {
  readonly tools: readonly ToolDefinition[]
  readonly readAt: number
}

interface Flight {
  readonly tools: Promise<readonly ToolDefinition[]>
}

/**
 * What one server offers to each principal. A list is read once for all threads, and again when it is
 * old or the server said that it changed. Never one principal's for another.
 */
export class ToolCatalogue {
  readonly #options: ToolCatalogueOptions
  readonly #entries = new Map<string | undefined, Entry>()
  /** Those that are as new as the last change. */
  readonly #flights = new Map<string | undefined, Flight>()
  #changes = 0

  constructor(options: ToolCatalogueOptions) {
    this.#options = options
  }

  /** What is known now, however old; nothing is asked. */
  peek(principal: string | undefined): readonly ToolDefinition[] | undefined {
    return this.#entries.get(principal)?.tools
  }

  /** All who ask meanwhile share one `read`. A read that fails leaves what is known. */
  get(principal: string | undefined, read: ReadCatalogue): Promise<readonly ToolDefinition[]> {
    const known = this.#entries.get(principal)
    if (known !== undefined && performance.now() - known.readAt < this.#options.maxAgeMs) {
      return Promise.resolve(known.tools)
    }
    return (this.#flights.get(principal) ?? this.#start(principal, read)).tools
  }

  /** Every list is read again when it is next asked for; one that is on its way may be too old by then. */
  invalidate(): void {
    this.#changes++
    this.#flights.clear()
    for (const [principal, { tools }] of this.#entries) {
      this.#entries.set(principal, { tools, readAt: Number.NEGATIVE_INFINITY })
    }
  }

  #start(principal: string | undefined, read: ReadCatalogue): Flight {
    const flight: Flight = { tools: this.#read(principal, read) }
    this.#flights.set(principal, flight)
    const land = (): void => {
      if (this.#flights.get(principal) === flight) this.#flights.delete(principal)
    }
    flight.tools.then(land, land)
    return flight
  }

  async #read(
    principal: string | undefined,
    read: ReadCatalogue,
  ): Promise<readonly ToolDefinition[]> {
    const asOf = this.#changes
    const tools = await read()
    if (asOf !== this.#changes) return tools // overtaken: good for who asked, not for who comes
    this.#entries.delete(principal)
    this.#entries.set(principal, { tools, readAt: performance.now() })
    for (const oldest of this.#entries.keys()) {
      if (this.#entries.size <= this.#options.max) break
      this.#entries.delete(oldest)
    }
    return tools
  }
}

import type { JsonRpcRequest } from '../json-rpc.ts'
import type { ToolHeader, ToolHeaderMap } from './tool-headers.ts'
import { bridgeTools, objectValue } from './tool-list.ts'

export interface ToolCatalogOptions {
  /** From the session record. */
  readonly known?: ToolHeaderMap | undefined
  /** Told when tools with headers were learned, with all of them. */
  readonly onLearned: (headers: ToolHeaderMap) => void
  /** One page of `tools/list`, as the server gives it; undefined if it could not be had. */
  readonly readPage: (
    cursor: string | undefined,
    signal: AbortSignal,
  ) => Promise<Readonly<Record<string, unknown>> | undefined>
  /** Told of each tool that is left out, once. */
  readonly onLeftOut: (name: string, reason: string) => void
}

const MAX_PAGES = 64

/** What the wire knows of the server's tools: which arguments become headers. */
export class ToolCatalog {
  readonly #options: ToolCatalogOptions
  readonly #headers: Map<string, readonly ToolHeader[]>
  /** Tools that were listed here, whose output is shown in another form. */
  readonly #wrapped = new Map<string, boolean>()
  readonly #leftOut = new Set<string>()

  constructor(options: ToolCatalogOptions) {
    this.#options = options
    this.#headers = new Map(Object.entries(options.known ?? {}))
  }

  headersOf(tool: unknown): readonly ToolHeader[] {
    return (typeof tool === 'string' ? this.#headers.get(tool) : undefined) ?? []
  }

  /** The result of a request as a client of SDK v1 can read it. */
  bridge(
    { method, params }: Pick<JsonRpcRequest, 'method' | 'params'>,
    result: Readonly<Record<string, unknown>>,
  ): Readonly<Record<string, unknown>> {
    if (method === 'tools/list') return this.#list(result)
    if (method !== 'tools/call' || result['structuredContent'] === undefined) return result
    const isWrapped = this.#wrapped.get(String(params?.['name']))
    const shape = isWrapped === undefined ? undefined : { isWrapped }
    return { ...result, structuredContent: objectValue(result['structuredContent'], shape) }
  }

  /** Reads all tools anew. Returns false if that was not possible. */
  async refresh(signal: AbortSignal): Promise<boolean> {
    let cursor: string | undefined
    for (let page = 0; page < MAX_PAGES; page++) {
      const result = await this.#options.readPage(cursor, signal)
      if (result === undefined) return false
      this.#list(result)
      const next = result['nextCursor']
      if (typeof next !== 'string') return true
      cursor = next
    }
    return true
  }

  #list(result: Readonly<Record<string, unknown>>): Readonly<Record<string, unknown>> {
    if (!Array.isArray(result['tools'])) return result
    const { tools, shapes, leftOut } = bridgeTools(result['tools'])
    let isNew = false
    for (const [name, { headers, isWrapped }] of shapes) {
      this.#wrapped.set(name, isWrapped)
      const before = this.#headers.get(name) ?? []
      if (JSON.stringify(before) !== JSON.stringify(headers)) isNew = true
      this.#headers.set(name, headers)
    }
    if (isNew) this.#options.onLearned(this.#withHeaders())
    for (const { name, reason } of leftOut) {
      if (this.#leftOut.has(name)) continue
      this.#leftOut.add(name)
      this.#options.onLeftOut(name, reason)
    }
    return { ...result, tools }
  }

  #withHeaders(): ToolHeaderMap {
    return Object.fromEntries([...this.#headers].filter(([, headers]) => headers.length > 0))
  }
}

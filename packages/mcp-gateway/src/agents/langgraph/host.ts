import type { BaseStore, MemorySaver } from '@langchain/langgraph'
import { isRunnableGraph, keepsThreadsHere, pregelOf, type RunnableGraph } from './definition.ts'

interface Equipment {
  readonly checkpointer: MemorySaver
  readonly store: BaseStore
}

interface GraphHostOptions {
  /** Several processes answer runs. Then no checkpointer is given, because each thread would be in one of them only. */
  readonly isShared: boolean
  readonly onWarning: (message: string, cause: unknown) => void
}

/** Gives the graphs of a `langgraph.json` what LangGraph's server gives them: a checkpointer, and a store that they share. */
export class GraphHost {
  readonly #options: GraphHostOptions
  #equipment: Promise<Equipment | undefined> | undefined

  constructor(options: GraphHostOptions) {
    this.#options = options
  }

  /**
   * Returns a copy of the graph with what it was compiled without. The graph itself stays as it is, because the program may
   * use it, too.
   *
   * @param isPerRun the graph is made for each run. Its checkpointer in memory would forget its questions, and is replaced
   */
  async equip(graph: RunnableGraph, isPerRun: boolean): Promise<RunnableGraph> {
    const { checkpointer, store } = pregelOf(graph) ?? {}
    const isForgetful = isPerRun && keepsThreadsHere(graph)
    const needsCheckpointer = !this.#options.isShared && (checkpointer === undefined || isForgetful)
    if (!needsCheckpointer && store !== undefined) return graph
    const copy = copyOf(graph)
    const target = pregelOf(copy)
    if (copy === undefined || target === undefined) return graph
    const equipment = await (this.#equipment ??= this.#makeEquipment())
    if (equipment === undefined) return graph
    Object.assign(target, {
      checkpointer: needsCheckpointer ? equipment.checkpointer : checkpointer,
      store: store ?? equipment.store,
    })
    return copy
  }

  async #makeEquipment(): Promise<Equipment | undefined> {
    try {
      const { InMemoryStore, MemorySaver: Saver } = await import('@langchain/langgraph')
      return { checkpointer: new Saver(), store: new InMemoryStore() }
    } catch (error) {
      const text =
        'Graphs get no checkpointer and no store, because the package @langchain/langgraph is not installed beside the gateway: npm install @langchain/langgraph'
      this.#options.onWarning(text, error)
      return undefined
    }
  }
}

function copyOf(graph: RunnableGraph): RunnableGraph | undefined {
  const withConfig: unknown = Reflect.get(graph, 'withConfig')
  const copy: unknown = typeof withConfig === 'function' ? withConfig.call(graph, {}) : undefined
  return isRunnableGraph(copy) ? copy : undefined
}

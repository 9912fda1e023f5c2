import type { interrupt, task } from '@langchain/langgraph'

/** What we use of LangGraph inside a run. */
export interface LangGraphRuntime {
  readonly interrupt: typeof interrupt
  readonly task: typeof task
}

let loading: Promise<LangGraphRuntime | undefined> | undefined

/**
 * LangGraph is loaded by the first call in a graph, not by the import of this package: whoever uses the
 * tools without a graph need not have it. Undefined where it is not installed.
 */
export function loadLangGraph(): Promise<LangGraphRuntime | undefined> {
  loading ??= import('@langchain/langgraph').then(
    (langgraph) => ({ interrupt: langgraph.interrupt, task: langgraph.task }),
    () => undefined,
  )
  return loading
}

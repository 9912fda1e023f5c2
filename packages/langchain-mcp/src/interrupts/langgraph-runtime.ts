import type { ToolRunnableConfig } from '@langchain/core/tools'
import type { GraphInterrupt, interrupt, task } from '@langchain/langgraph'

/** What we use of LangGraph inside a run. */
export interface LangGraphRuntime {
  readonly interrupt: typeof interrupt
  readonly task: typeof task
  readonly GraphInterrupt: typeof GraphInterrupt
}

let loading: Promise<LangGraphRuntime | undefined> | undefined

/**
 * LangGraph is loaded by the first call in a graph, not by the import of this package: whoever uses the
 * tools without a graph need not have it. Undefined where it is not installed.
 */
export function loadLangGraph(): Promise<LangGraphRuntime | undefined> {
  loading ??= import('@langchain/langgraph').then(
    (langgraph) => ({
      interrupt: langgraph.interrupt,
      task: langgraph.task,
      GraphInterrupt: langgraph.GraphInterrupt,
    }),
    () => undefined,
  )
  return loading
}

/**
 * Ends the run of a graph with an error, past the `ToolNode` around the call, which would make a message for
 * the model of it. Outside a graph it is just thrown.
 *
 * The error is that of a task beside the call's own; the task of the call stops like one that is
 * interrupted, so that it leaves nothing in the checkpoint and is executed again when the thread goes on.
 */
export async function failRun(
  error: unknown,
  { configurable = {} }: ToolRunnableConfig,
): Promise<never> {
  const isInGraph = typeof configurable['__pregel_call'] === 'function'
  const graph = isInGraph ? await loadLangGraph() : undefined
  if (graph === undefined) throw error
  const fail = graph.task('mcp:failed', () => {
    throw error
  })
  try {
    await fail()
  } catch {
    // LangGraph ends the run with this error.
  }
  throw new graph.GraphInterrupt()
}

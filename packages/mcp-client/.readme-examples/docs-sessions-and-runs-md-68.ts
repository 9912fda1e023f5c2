import { runIdOf, runInSessionScope } from '@x/mcp-client'

interface Graph {
  invoke(input: unknown, config: { configurable: { thread_id: string } }): Promise<unknown>
}

/** Runs `graph` until it stops to ask. With `new Command({ resume })` it continues in the same sessions. */
export function turn(graph: Graph, input: unknown, thread_id: string): Promise<unknown> {
  const id = runIdOf(thread_id)
  return runInSessionScope(() => graph.invoke(input, { configurable: { thread_id } }), { id })
}
export {}

import { AsyncLocalStorageProviderSingleton } from '@langchain/core/singletons'
import type { RunnableConfig } from '@langchain/core/runnables'
import { isRecord } from '@x/internal'
import { currentRun, type CurrentRun } from '@x/mcp-client'

/** The agent's input, for what is configured to come from it. */
export type InputResolver = (config: RunnableConfig) => unknown

/**
 * The default: the state of the graph as the running task sees it, which holds what the graph was given
 * under the names of its state schema. Outside of a graph there is none.
 */
export function graphInput(config: RunnableConfig): unknown {
  // Tool nodes hand the state over; elsewhere it is where LangGraph's own `getCurrentTaskInput` finds it.
  if ('state' in config && isRecord(config.state)) return config.state
  const scratchpad: unknown = config.configurable?.['__pregel_scratchpad']
  return isRecord(scratchpad) ? scratchpad['currentTaskInput'] : undefined
}

const inputs = new WeakMap<CurrentRun, Map<InputResolver, unknown>>()

/** The input for one call. Inside `runInSessionScope` a resolver is asked once per run. */
export async function inputOf(config: RunnableConfig, resolver: InputResolver): Promise<unknown> {
  const run = resolver === graphInput ? undefined : currentRun()
  if (run === undefined) return resolver(config)
  const known = inputs.get(run) ?? new Map<InputResolver, unknown>()
  inputs.set(run, known)
  if (!known.has(resolver)) known.set(resolver, resolver(config))
  try {
    return await known.get(resolver)
  } catch (error) {
    known.delete(resolver)
    throw error
  }
}

/** The input that can be told without waiting, where a graph is running: for the schema that its model is shown. */
export function inputAtHand(resolver: InputResolver): { readonly input: unknown } | undefined {
  const given: unknown = AsyncLocalStorageProviderSingleton.getRunnableConfig()
  if (!isRecord(given) || !isRecord(given['configurable'])) return undefined
  const config: RunnableConfig = given
  const input = resolver(config)
  if (isRecord(input) && typeof input['then'] === 'function') {
    void Promise.resolve(input).catch(() => {}) // whoever calls the tool is told
    return undefined
  }
  return input === undefined ? undefined : { input }
}

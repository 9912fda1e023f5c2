/**
 * Whether a LangGraph graph has stopped to be continued later: told by a result or a chunk of a stream
 * that holds `__interrupt__`, also as the last part of a tuple, or by the error that a node is left with.
 */
export function isLangGraphInterrupt(outcome: unknown): boolean {
  if (outcome instanceof Error) return INTERRUPTS.has(outcome.name)
  const value: unknown = Array.isArray(outcome) ? outcome.at(-1) : outcome
  if (typeof value !== 'object' || value === null) return false
  const interrupts: unknown = Reflect.get(value, '__interrupt__')
  return Array.isArray(interrupts) && interrupts.length > 0
}

const INTERRUPTS = new Set(['GraphInterrupt', 'NodeInterrupt'])

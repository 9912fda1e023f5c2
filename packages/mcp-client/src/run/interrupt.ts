/**
 * Whether a LangGraph graph has stopped to be continued later, at an `interrupt()` or at a breakpoint. It
 * tells that by `__interrupt__`: in the result of `invoke()`; in a chunk of a stream of updates or values,
 * also in tuples with mode and namespace; in what such a chunk comes in among `streamEvents()`; or by the
 * error that a node, or a sub-graph in it, is left with.
 *
 * A stream of messages alone, of custom data or of bytes tells nothing of it.
 */
export function isLangGraphInterrupt(outcome: unknown): boolean {
  if (outcome instanceof Error) return INTERRUPTS.has(outcome.name)
  const parts: readonly unknown[] = Array.isArray(outcome) ? outcome : [outcome]
  return parts.some((part) => ENVELOPES.some((path) => isStopped(at(part, path))))
}

const INTERRUPTS = new Set(['GraphInterrupt', 'NodeInterrupt'])

/** None, an event of `streamEvents()` v1 and v2, and one of v3. */
const ENVELOPES: readonly (readonly string[])[] = [[], ['data', 'chunk'], ['params', 'data']]

/** The list is empty at a breakpoint. */
function isStopped(value: unknown): boolean {
  return Array.isArray(at(value, ['__interrupt__']))
}

function at(value: unknown, path: readonly string[]): unknown {
  return path.reduce<unknown>(
    (inner, key) => (isObject(inner) ? Reflect.get(inner, key) : undefined),
    value,
  )
}

function isObject(value: unknown): value is object {
  return typeof value === 'object' && value !== null
}

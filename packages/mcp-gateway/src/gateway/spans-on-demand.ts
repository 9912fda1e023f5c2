import { isRecord } from '@x/internal'
import { callSpans } from './call-spans.ts'
import type { GatewayObserver } from '../internal/observer.ts'

/**
 * `callSpans()` for a process that may have an SDK of OpenTelemetry or not: nothing is loaded until one has
 * registered itself, before the gateway (`node --import`) or with an agent.
 *
 * @param load @default callSpans()
 */
export async function spansOnDemand(load: typeof callSpans = callSpans): Promise<GatewayObserver> {
  let spans: GatewayObserver | undefined
  let loading: Promise<void> | undefined
  const begin = async (): Promise<void> => {
    spans = await load()
  }
  if (isTraced()) await (loading = begin())
  return {
    callStarted: (call) => {
      // Calls that come before it is loaded have no span.
      if (loading === undefined && isTraced()) loading = begin()
      return spans?.callStarted?.(call)
    },
    activate: (call, run) => {
      if (spans?.activate) spans.activate(call, run)
      else run()
    },
    callEnded: (call, end) => spans?.callEnded?.(call, end),
  }
}

/** The API keeps in one place, for all copies of its version 1, what an SDK gave it. */
function isTraced(): boolean {
  const api: unknown = Reflect.get(globalThis, Symbol.for('opentelemetry.js.api.1'))
  return isRecord(api) && api['trace'] !== undefined
}

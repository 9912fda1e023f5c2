import { Runtime, type RuntimeEdges } from '../src/gateway/runtime.ts'
import type { GatewayOptions } from '../src/options.ts'
import type { EventLogs, GatewayStore } from '../src/store/gateway-store.ts'
import { MemoryGatewayStore } from '../src/store/memory-store.ts'
import { AgentsAtHand, asking, echo, endless } from './agents-at-hand.ts'
import { ManualClock } from './manual-clock.ts'
import type { Fetch } from './task-requests.ts'

export interface TwoReplicas extends AsyncDisposable {
  readonly a: Fetch
  /** Another process with the same store. */
  readonly b: Fetch
  readonly assemblies: readonly [Runtime, Runtime]
  readonly agents: AgentsAtHand
  readonly clock: ManualClock
  readonly store: GatewayStore
  readonly warnings: readonly string[]
}

/** Returns the store with other methods of its logs. */
export function withLogs<Store extends Pick<GatewayStore, 'logs'>>(
  store: Store,
  methods: Partial<EventLogs>,
): Store {
  const { logs } = store
  return {
    ...store,
    logs: {
      open: (...log) => logs.open(...log),
      append: (...event) => logs.append(...event),
      find: (eventId) => logs.find(eventId),
      read: (...place) => logs.read(...place),
      tail: (...tail) => logs.tail(...tail),
      delete: (log) => logs.delete(log),
      ...methods,
    },
  }
}

/** Starts two gateways in this process. Like two processes, they share a store only. */
export function twoReplicas(
  options: Partial<GatewayOptions> = {},
  wrap: (store: GatewayStore) => GatewayStore = (store) => store,
  edges: RuntimeEdges = {},
): TwoReplicas {
  const clock = new ManualClock()
  const memory = new MemoryGatewayStore({ now: () => clock.now() })
  const { records, logs, blobs, rates } = memory
  const store = wrap({
    records,
    logs,
    blobs,
    rates,
    isShared: true,
    isDurable: true,
    isReady: () => memory.isReady(),
    close: () => memory.close(),
  })
  const agents = new AgentsAtHand({ asking, echo, endless })
  const warnings: string[] = []
  const make = (): Runtime =>
    new Runtime(
      {
        sources: [agents],
        clock,
        store,
        stateKey: 'the same in all processes, and long enough',
        log: false,
        observer: { warned: (message) => void warnings.push(message) },
        ...options,
      },
      edges,
    )
  const [a, b] = [make(), make()]
  return {
    a: (request) => a.fetch(request),
    b: (request) => b.fetch(request),
    assemblies: [a, b],
    agents,
    clock,
    store,
    warnings,
    [Symbol.asyncDispose]: async () => {
      await Promise.all([a.close(), b.close()])
      await memory.close()
    },
  }
}

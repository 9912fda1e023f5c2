import { setTimeout as sleep } from 'node:timers/promises'

import type { AgentSource } from '../src/agents/agent.ts'
import { GatewayError } from '../src/errors.ts'
import { Runtime } from '../src/gateway/runtime.ts'
import type { TaskPolicy } from '../src/options.ts'
import type { GatewayStore, Records } from '../src/store/gateway-store.ts'
import type { ManualClock } from './manual-clock.ts'
import { call, get, type Fetch, type Json } from './task-requests.ts'

/** A gateway in this process that a test can kill, as SIGKILL ends a process. */
export interface KillableGateway extends AsyncDisposable {
  readonly fetch: Fetch
  /** From now on, it does not reach the store. Its lease has ended. */
  kill(): Promise<void>
  /** Ends its lease, so that others think for a moment that it is dead, as after a freeze. */
  endLease(): Promise<void>
}

/**
 * Starts a gateway whose calls are all tasks, unless `tasks` says otherwise.
 *
 * @param makeSource gets a signal that aborts when the gateway dies
 */
export function startKillableGateway(
  store: GatewayStore,
  makeSource: (dying: AbortSignal) => AgentSource,
  { tasks = 'always', clock }: { readonly tasks?: TaskPolicy; readonly clock?: ManualClock } = {},
): KillableGateway {
  const dying = new AbortController()
  const leases = new Set<string>()
  const alive = (): Records => {
    if (dying.signal.aborted) throw new GatewayError('UNAVAILABLE', 'The process is dead')
    return store.records
  }
  const records: Records = {
    get: async (key) => alive().get(key),
    put: async (key, ...entry) => {
      if (key.startsWith('process:')) leases.add(key)
      return alive().put(key, ...entry)
    },
    touch: async (...record) => alive().touch(...record),
    take: async (key) => alive().take(key),
    delete: async (...record) => !dying.signal.aborted && store.records.delete(...record),
    list: async (...keys) => alive().list(...keys),
    count: async (prefix) => alive().count(prefix),
  }
  const { blobs, logs, rates, isDurable, isShared } = store
  const parts = { blobs, logs, rates, isDurable, isShared, records }
  const gateway = new Runtime(
    {
      log: false,
      clock,
      store: { ...parts, isReady: () => store.isReady(), close: async () => {} },
      stateKey: 'the same in all processes, and long enough',
      sources: [killable(makeSource(dying.signal), dying.signal)],
      tools: { tasks },
      http: { shutdownGraceMs: 10 },
    },
    { debounceMs: 1, stopGraceMs: 10 },
  )
  const endLease = async (): Promise<void> => {
    for (const key of leases) await store.records.delete(key)
  }
  return {
    fetch: (request) => gateway.fetch(request),
    kill: () => {
      dying.abort()
      return endLease()
    },
    endLease,
    [Symbol.asyncDispose]: async () => {
      const closed = gateway.close()
      await clock?.advance(600_000)
      await closed
    },
  }
}

/** Returns the source. When the gateway dies, its runs hang. */
function killable(source: AgentSource, dying: AbortSignal): AgentSource {
  return {
    name: source.name,
    start: (listener) => source.start(listener),
    close: () => source.close(),
    forget: async (...run) => source.forget?.(...run),
    async *run(agentCall) {
      for await (const update of source.run(agentCall)) {
        if (dying.aborted) await new Promise(() => {})
        yield update
      }
    },
  }
}

/** Begins a task. The gateway may not have found the agent yet. */
export async function begunTask({ fetch }: KillableGateway, tool: string): Promise<unknown> {
  for (;;) {
    const { result } = await call(fetch, tool)
    if (result?.['resultType'] === 'task') return result['taskId']
    await sleep(25)
  }
}

/** Polls until a task does not work any more. */
export async function settledTask(
  { fetch }: KillableGateway,
  taskId: unknown,
): Promise<Json | undefined> {
  for (;;) {
    const { result, error } = await get(fetch, taskId)
    if (error || result?.['status'] !== 'working') return result ?? error
    await sleep(25)
  }
}

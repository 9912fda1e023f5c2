import type { Call, Holdings, Outcome, Settlement } from './protocol.ts'

/** A call that the driver sent to an agent. */
export interface CallRecord {
  readonly call: Call
  readonly agent: string
  readonly kind: string
  /** Milliseconds on the clock of the run. */
  readonly startedAt: number
  readonly settlements: Settlement[]
  /** The agent was killed before the call settled. */
  killed: boolean
  /** Made in the last round, when no fault was left: it must succeed. */
  readonly mustSucceed: boolean
}

/** A tool that started for a call. */
export interface Execution {
  readonly key?: string | undefined
  readonly principal?: string | undefined
}

/** One HTTP exchange of a client with a server. */
export interface ExchangeRecord {
  readonly server: string
  readonly at: number
  readonly httpMethod: string
  readonly rpcMethod?: string | undefined
  readonly key?: string | undefined
  readonly principal?: string | undefined
  readonly sessionId?: string | undefined
  readonly assignedSessionId?: string | undefined
  readonly status?: number | undefined
  /** The client got the whole answer. */
  readonly complete: boolean
  /** The server got the whole request. */
  readonly delivered: boolean
  /** Name of the fault that was injected. */
  readonly fault?: string | undefined
}

/** What an agent process held when it started, and after it closed all clients at the end. */
interface AgentEnd {
  readonly name: string
  readonly start: Holdings
  readonly end: Holdings | undefined
}

/** All that is known of a run when it has ended. */
export interface RunRecord {
  readonly calls: ReadonlyMap<string, CallRecord>
  readonly executions: readonly Execution[]
  readonly exchanges: readonly ExchangeRecord[]
  /** Sessions that legacy servers still have. */
  readonly sessions: readonly { readonly server: string; readonly id: string }[]
  /** Principals whose agent keeps its sessions for the next process. */
  readonly durable: ReadonlySet<string>
  readonly kills: readonly { readonly agent: string; readonly at: number }[]
  readonly restarts: readonly { readonly server: string; readonly at: number }[]
  readonly agents: readonly AgentEnd[]
  /** Connections that are still open, by server. */
  readonly sockets: Readonly<Record<string, number>>
  readonly processes: number
  /** Processes that ended without being told to. */
  readonly crashes: readonly string[]
  readonly seconds: number
}

export interface Violation {
  /** What must hold. */
  readonly check: string
  readonly what: string
  /** Key of the call, where it is about one. */
  readonly key?: string
}

/** Time that a settlement may be late, beside the measured delay of the agent's event loop. */
export const SLACK_MS = 1000
/** Growth of an agent's heap that counts as a leak. Code that is compiled on the way takes a part. */
export const HEAP_GROWTH_BYTES: number = 24 * 2 ** 20

const times = (count: number): string => `${count} ${count === 1 ? 'time' : 'times'}`

type Check = (run: RunRecord) => readonly Omit<Violation, 'check'>[]

/** Each check: what must hold, and a pure function that returns what does not. */
const checks: Readonly<Record<string, Check>> = {
  'each call settles once': (run) =>
    eachCall(run, ({ settlements, killed }) => {
      if (settlements.length === 1 || (killed && settlements.length === 0)) return undefined
      return settlements.length === 0 ? 'never settled' : `settled ${times(settlements.length)}`
    }),

  'each call settles within its deadline': (run) =>
    eachCall(run, ({ call, settlements: [settled] }) => {
      if (!settled || settled.ms - settled.lagMs <= call.deadlineMs + SLACK_MS) return undefined
      const lag = Math.round(settled.lagMs)
      return `settled after ${Math.round(settled.ms)} ms (event loop late by ${lag} ms), deadline ${call.deadlineMs} ms`
    }),

  'executions match the outcome': (run) => {
    const counts = executionsByKey(run)
    const strangers = [...counts.keys()].filter((key) => !run.calls.has(key))
    return [
      ...eachCall(run, ({ call, settlements: [settled] }) => {
        const count = counts.get(call.key) ?? 0
        const outcome = settled?.outcome ?? 'no outcome'
        const least = outcome === 'executed' ? 1 : 0
        const most = outcome === 'not-executed' ? 0 : 1
        if (count >= least && count <= most) return undefined
        return `executed ${times(count)}, reported as ${outcome}`
      }),
      ...strangers.map((key) => ({ key, what: 'executed, but no agent made this call' })),
    ]
  },

  'each answer belongs to its call and principal': (run) =>
    eachCall(run, ({ call, settlements: [settled] }) => {
      if (settled?.outcome !== 'executed') return undefined
      const { answer, error } = settled
      if (!answer)
        return error === undefined ? 'succeeded without the answer of the tool' : undefined
      if (answer.key === call.key && answer.principal === call.principal) return undefined
      return `got the answer of ${answer.key} for ${answer.principal}, is a call of ${call.principal}`
    }),

  'each execution is for the principal of the call': (run) =>
    run.executions.flatMap(({ key = '', principal }) => {
      const expected = run.calls.get(key)?.call.principal
      if (expected === undefined || principal === expected) return []
      return [{ key, what: `executed for ${principal}, is a call of ${expected}` }]
    }),

  'progress reaches its own call only': (run) =>
    eachCall(run, ({ call, settlements }) => {
      const other = settlements
        .flatMap(({ progressKeys }) => progressKeys)
        .find((key) => key !== call.key && run.calls.has(key))
      return other === undefined ? undefined : `got progress of ${other}`
    }),

  'each session serves one principal': (run) => {
    const users = new Map<string, Map<string, string>>()
    for (const exchange of run.exchanges) {
      const { server, sessionId, assignedSessionId, principal = 'nobody', at } = exchange
      const id = sessionId ?? assignedSessionId
      if (id === undefined) continue
      const uses = users.get(`${server} ${id}`) ?? new Map<string, string>()
      users.set(`${server} ${id}`, uses)
      const method = exchange.rpcMethod ?? exchange.httpMethod
      if (!uses.has(principal)) uses.set(principal, `${method} at ${Math.round(at)} ms`)
    }
    return [...users]
      .filter(([, uses]) => uses.size > 1)
      .map(([, uses]) => ({
        what: [...uses].map(([principal, use]) => `used by ${principal} (${use})`).join(', '),
      }))
  },

  'sessions are ended': (run) =>
    leftSessions(run).map(({ server, id, owner }) => ({
      what: `session ${shortened(id)} of ${owner} is still open on ${server}`,
    })),

  'no connection stays open': (run) =>
    Object.entries(run.sockets)
      .filter(([, count]) => count > 0)
      .map(([server, count]) => ({ what: `${server} still has ${count} open connections` })),

  'agents release what they hold': (run) =>
    run.agents.flatMap(({ name, start, end }) => {
      if (!end) return [{ what: `${name} did not close` }]
      return Object.entries(end.resources)
        .filter(([kind, count]) => count > (start.resources[kind] ?? 0))
        .map(([kind, count]) => ({ what: `${name} still holds ${count} ${kind}` }))
    }),

  'heaps return to their size': (run) =>
    run.agents.flatMap(({ name, start, end }) => {
      const growth = (end?.heapBytes ?? 0) - start.heapBytes
      if (growth <= HEAP_GROWTH_BYTES) return []
      return [{ what: `the heap of ${name} grew by ${Math.round(growth / 2 ** 20)} MiB` }]
    }),

  'processes end when they are told to, and only then': (run) => [
    ...run.crashes.map((what) => ({ what })),
    ...(run.processes > 0 ? [{ what: `${run.processes} child processes are left` }] : []),
  ],

  'calls succeed when the faults are over': (run) =>
    eachCall(run, ({ mustSucceed, settlements: [settled] }) => {
      if (!mustSucceed || settled?.outcome === 'executed') return undefined
      return `ended as ${settled?.outcome ?? 'never settled'}: ${settled?.error ?? ''}`
    }),
}

/** Runs all checks. */
export function violationsOf(run: RunRecord): readonly Violation[] {
  return Object.entries(checks).flatMap(([name, check]) =>
    check(run).map((violation) => ({ check: name, ...violation })),
  )
}

function eachCall(
  run: RunRecord,
  problem: (record: CallRecord) => string | undefined,
): { key: string; what: string }[] {
  return [...run.calls].flatMap(([key, record]) => {
    const what = problem(record)
    return what === undefined ? [] : [{ key, what }]
  })
}

function executionsByKey(run: RunRecord): Map<string, number> {
  const counts = new Map<string, number>()
  for (const { key } of run.executions) {
    if (key !== undefined) counts.set(key, (counts.get(key) ?? 0) + 1)
  }
  return counts
}

/**
 * Sessions that nobody ended although somebody should have. A session may be left if
 * - its id did not reach the client (the answer to `initialize` was not complete),
 * - its owner was killed after the last use of the session,
 * - the request that should have ended it was hit by a fault or a server that was away,
 * - a fault answered in its name, so that the client took it for lost,
 * - or its owner keeps it for the next process: one session for each server and principal.
 */
function leftSessions(
  run: Pick<RunRecord, 'sessions' | 'exchanges' | 'kills' | 'durable' | 'agents' | 'calls'>,
): { server: string; id: string; owner: string }[] {
  const bySession = new Map<string, ExchangeRecord[]>(
    run.sessions.map(({ server, id }) => [`${server} ${id}`, []]),
  )
  for (const exchange of run.exchanges) {
    const id = exchange.sessionId ?? exchange.assignedSessionId
    bySession.get(`${exchange.server} ${id}`)?.push(exchange)
  }
  const agentOf = new Map([...run.calls.values()].map(({ call, agent }) => [call.principal, agent]))
  const kept = new Set<string>()
  return run.sessions.flatMap(({ server, id }) => {
    const uses = bySession.get(`${server} ${id}`) ?? []
    const owner = uses.find(({ principal }) => principal !== undefined)?.principal ?? 'nobody'
    const opened = uses.filter(({ assignedSessionId }) => assignedSessionId === id)
    if (!opened.some(({ complete }) => complete)) return []
    const last = Math.max(...uses.map(({ at }) => at))
    const agent = agentOf.get(owner)
    if (run.kills.some((kill) => kill.agent === agent && kill.at >= last)) return []
    const failedEnd = uses.some(
      ({ httpMethod, complete, status = 0 }) =>
        httpMethod === 'DELETE' && (!complete || status >= 400),
    )
    const answeredFor = uses.some(({ fault, delivered }) => fault !== undefined && !delivered)
    if (failedEnd || answeredFor) return []
    const place = `${server} ${owner}`
    if (run.durable.has(owner) && !kept.has(place)) {
      kept.add(place)
      return []
    }
    return [{ server, id, owner }]
  })
}

/** What happened to a call, for people: where it was made, how it settled, and its exchanges with their faults. */
export function historyOf(run: RunRecord, key: string): readonly string[] {
  const record = run.calls.get(key)
  if (!record) return []
  const { call, agent, kind, settlements, killed, startedAt } = record
  const executions = run.executions.filter((one) => one.key === key)
  const exchanges = run.exchanges.filter((one) => one.key === key)
  return [
    `${agent} (${kind}) called ${call.server} for ${call.principal} at ${Math.round(startedAt)} ms`,
    ...settlements.map(
      ({ outcome, ms, error = '' }) =>
        `${outcome} after ${Math.round(ms)} ms ${error.slice(0, 300)}`,
    ),
    ...(killed ? ['its agent was killed'] : []),
    ...exchanges.map(
      ({ at, status = 'no status', fault = 'no fault', delivered, complete }) =>
        `exchange at ${Math.round(at)} ms: ${status}, ${fault}, ` +
        `${delivered ? 'delivered' : 'not delivered'}, answer ${complete ? 'complete' : 'incomplete'}`,
    ),
    `executed ${times(executions.length)}`,
  ]
}

/** Names of all checks. */
export const checkNames: readonly string[] = Object.keys(checks)

/** Figures of a run. Times are in milliseconds. */
export interface Figures {
  readonly calls: number
  readonly callsPerSecond: number
  readonly outcomes: Readonly<Record<Outcome | 'killed', number>>
  readonly faults: Readonly<Record<string, number>>
  /** Calls reported as unknown although the server never received the request. */
  readonly needlessUnknowns: number
  /** Their part of all calls reported as unknown. */
  readonly needlessUnknownRate: number
  readonly latency: { readonly p50: number; readonly p95: number; readonly max: number }
  /** From a restart of a server to the first call that it answered. */
  readonly recovery: { readonly p50: number; readonly max: number; readonly restarts: number }
  readonly sessionsOpened: number
  readonly handshakes: number
}

export function figuresOf(run: RunRecord): Figures {
  const outcomes = { executed: 0, 'not-executed': 0, unknown: 0, failed: 0, killed: 0 }
  const latencies: number[] = []
  const unknown: string[] = []
  const goodCalls = new Map<string, number[]>()
  for (const { call, startedAt, settlements, killed } of run.calls.values()) {
    const [settled] = settlements
    if (!settled) {
      if (killed) outcomes.killed++
      continue
    }
    outcomes[settled.outcome]++
    latencies.push(settled.ms)
    if (settled.outcome === 'unknown') unknown.push(call.key)
    if (settled.outcome !== 'executed') continue
    const ends = goodCalls.get(call.server) ?? []
    ends.push(startedAt + settled.ms)
    goodCalls.set(call.server, ends)
  }
  const delivered = new Set(run.exchanges.filter((one) => one.delivered).map(({ key }) => key))
  const needless = unknown.filter((key) => !delivered.has(key)).length
  const faults: Record<string, number> = {}
  for (const { fault } of run.exchanges) {
    if (fault !== undefined) faults[fault] = (faults[fault] ?? 0) + 1
  }
  const recoveries = run.restarts.flatMap(({ server, at }) => {
    const first = Math.min(...(goodCalls.get(server) ?? []).filter((end) => end > at))
    return Number.isFinite(first) ? [first - at] : []
  })
  return {
    calls: run.calls.size,
    callsPerSecond: Math.round(run.calls.size / run.seconds),
    outcomes,
    faults,
    needlessUnknowns: needless,
    needlessUnknownRate: unknown.length === 0 ? 0 : needless / unknown.length,
    latency: {
      p50: quantile(latencies, 0.5),
      p95: quantile(latencies, 0.95),
      max: quantile(latencies, 1),
    },
    recovery: {
      p50: quantile(recoveries, 0.5),
      max: quantile(recoveries, 1),
      restarts: run.restarts.length,
    },
    sessionsOpened: run.exchanges.filter((one) => one.assignedSessionId !== undefined).length,
    handshakes: run.exchanges.filter((one) => one.rpcMethod === 'initialize').length,
  }
}

function quantile(values: readonly number[], part: number): number {
  const sorted = values.toSorted((a, b) => a - b)
  return Math.round(sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * part))] ?? 0)
}

/** First 4 characters and the length, as everywhere a session id is shown. */
function shortened(id: string): string {
  return `${id.slice(0, 4)}… (${id.length})`
}

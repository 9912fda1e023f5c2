import type { CallRecord, ExchangeRecord, RunRecord } from './run-record.ts'

export interface Violation {
  /** Name of the check. */
  readonly check: string
  readonly what: string
  /** Key of the call, if the violation is about one. */
  readonly key?: string
}

/** Time that a call may settle late, in addition to the delay of the event loop of its agent. */
export const SLACK_MS = 1000
/** Growth of an agent's heap that is allowed. Compiled code needs memory, too. */
export const HEAP_GROWTH_BYTES: number = 24 * 2 ** 20

/** Number of exchanges of a session that are shown with a violation. */
const SHOWN_EXCHANGES = 6

const times = (count: number): string => `${count} ${count === 1 ? 'time' : 'times'}`

type Check = (run: RunRecord) => readonly Omit<Violation, 'check'>[]

/** Name of each check, and the function that finds its violations. */
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
    const executions = Map.groupBy(run.executions, ({ key }) => key ?? 'a call without a key')
    const strangers = [...executions.keys()].filter((key) => !run.calls.has(key))
    return [
      ...eachCall(run, ({ call, settlements: [settled] }) => {
        const count = executions.get(call.key)?.length ?? 0
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
      const { answer } = settled
      if (!answer) return 'succeeded without the answer of the tool'
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

  'each session serves one principal': (run) =>
    [...Map.groupBy(run.exchanges, sessionOf)].flatMap(([session, exchanges]) => {
      const users = Map.groupBy(exchanges, ({ principal }) => principal)
      if (session === undefined || users.size < 2) return []
      const uses = [...users].map(([user, [first]]) => `${user}: ${first && exchangeText(first)}`)
      return [{ what: `used by several principals, first as\n    ${uses.join('\n    ')}` }]
    }),

  'sessions are ended': leftSessions,

  'no connection stays open': (run) =>
    Object.entries(run.sockets)
      .filter(([, count]) => count > 0)
      .map(([server, count]) => ({ what: `${server} still has ${count} open connections` })),

  'agents release what they hold': (run) =>
    run.agents.flatMap(({ name, holdings }) => {
      if (!holdings) return [{ what: `${name} did not close` }]
      return Object.entries(holdings.resources).map(([kind, count]) => ({
        what: `${name} still holds ${count} ${kind} more than at its start`,
      }))
    }),

  'heaps return to their size': (run) =>
    run.agents.flatMap(({ name, holdings }) => {
      const growth = holdings?.heapBytes ?? 0
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

/** Server and id of the session that the exchange uses or opens. */
function sessionOf({ server, sessionId, assignedSessionId }: ExchangeRecord): string | undefined {
  const id = sessionId ?? assignedSessionId
  return id === undefined ? undefined : `${server} ${id}`
}

/** The client received the whole answer. */
function isComplete({ end, status }: ExchangeRecord): boolean {
  return end === 'complete' && status !== undefined
}

/**
 * Open sessions that their agents had to end. A session may stay open if
 * - its id did not reach the client (the answer to `initialize` was not complete),
 * - its owner was killed after the last use of the session,
 * - the request that should have ended it failed,
 * - a fault answered in the name of the server, so that the client believed the session was lost,
 * - or its owner keeps it for the next process: one session for each server and principal.
 */
function leftSessions(run: RunRecord): { what: string }[] {
  const bySession = Map.groupBy(run.exchanges, sessionOf)
  const agentOf = new Map([...run.calls.values()].map(({ call, agent }) => [call.principal, agent]))
  const kept = new Set<string>()
  // The newest first: a durable agent keeps that one.
  return run.sessions.toReversed().flatMap(({ server, id }) => {
    const uses = bySession.get(`${server} ${id}`) ?? []
    const owner = uses.find(({ principal }) => principal !== undefined)?.principal ?? 'nobody'
    const opened = uses.filter(({ assignedSessionId }) => assignedSessionId === id)
    if (!opened.some(isComplete)) return []
    const last = Math.max(...uses.map(({ at }) => at))
    const agent = agentOf.get(owner)
    if (run.kills.some(({ name, at }) => name === agent && at >= last)) return []
    const failedEnd = uses.some(
      (use) => use.httpMethod === 'DELETE' && (!isComplete(use) || (use.status ?? 0) >= 400),
    )
    const answeredFor = uses.some(
      ({ fault = 'none', delivered }) =>
        fault !== 'none' && (delivered === 'none' || /^(answer|html)-after$/.test(fault)),
    )
    if (failedEnd || answeredFor) return []
    const place = `${server} ${owner}`
    if (run.durable.has(owner) && !kept.has(place)) {
      kept.add(place)
      return []
    }
    const what = [
      `session ${id.slice(0, 4)}… (${id.length}) of ${owner} is still open on ${server}`,
      ...uses.slice(-SHOWN_EXCHANGES).map(exchangeText),
    ]
    return [{ what: what.join('\n    ') }]
  })
}

/** Describes a call in lines of text: its agent, its outcome, and its exchanges with their faults. */
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
    ...exchanges.map(exchangeText),
    `executed ${times(executions.length)}`,
  ]
}

function exchangeText(exchange: ExchangeRecord): string {
  const { at, status = 'no status', fault = 'no fault', delivered, end = 'none' } = exchange
  const method = exchange.rpcMethod ?? exchange.httpMethod
  return `${method} at ${Math.round(at)} ms: ${status}, ${fault}, delivered: ${delivered}, end: ${end}`
}

/** Names of all checks. */
export const checkNames: readonly string[] = Object.keys(checks)

/** Figures of a run by name. Times are in milliseconds. */
export type Figures = Readonly<Record<string, number | Readonly<Record<string, number>>>>

export function figuresOf(run: RunRecord): Figures {
  const calls = [...run.calls.values()]
  const settled = calls.flatMap(({ settlements }) => settlements.slice(0, 1))
  const good = calls.flatMap(({ call: { server }, startedAt, settlements: [first] }) =>
    first?.outcome === 'executed' ? [{ server, at: startedAt + first.ms }] : [],
  )
  const recoveries = run.restarts.flatMap(({ server, at }) => {
    const ends = good.filter((one) => one.server === server && one.at > at).map((one) => one.at)
    return ends.length === 0 ? [] : [Math.min(...ends) - at]
  })
  return {
    calls: calls.length,
    'calls per second': Math.round(calls.length / run.seconds),
    outcomes: countsOf([
      ...settled.map(({ outcome }) => outcome),
      ...calls.filter((one) => one.killed && one.settlements.length === 0).map(() => 'killed'),
    ]),
    'unknown calls that no server received': unreceivedUnknowns(run),
    'time of a call': quantiles(settled.map(({ ms }) => ms)),
    'delay of the event loop during a call': quantiles(settled.map(({ lagMs }) => lagMs)),
    'time from a restart to the first good call': quantiles(recoveries),
    'sessions opened': run.exchanges.filter((one) => one.assignedSessionId !== undefined).length,
    handshakes: run.exchanges.filter((one) => one.rpcMethod === 'initialize').length,
    'faults of the proxies': countsOf(run.exchanges.flatMap(({ fault }) => fault ?? [])),
    'faults of the driver': countsOf(run.driverFaults),
  }
}

/**
 * Number of calls that are reported as unknown although no server received the whole request:
 * - `misled`: the proxy answered in the name of the server, so the client had to believe that answer,
 * - `lost`: the connection was reset or stalled when the request was on the network,
 * - `needless`: all others. The client could have known that nothing was executed.
 */
function unreceivedUnknowns(run: RunRecord): Record<'misled' | 'lost' | 'needless', number> {
  const keysOf = (matches: (exchange: ExchangeRecord) => boolean): ReadonlySet<unknown> =>
    new Set(run.exchanges.filter(matches).map(({ key }) => key))
  const received = keysOf(({ delivered }) => delivered === 'whole')
  const answered = keysOf(({ fault, status }) => fault !== undefined && status !== undefined)
  const sent = keysOf(() => true)
  const counts = { misled: 0, lost: 0, needless: 0 }
  for (const [key, { settlements }] of run.calls) {
    if (settlements[0]?.outcome !== 'unknown' || received.has(key)) continue
    counts[answered.has(key) ? 'misled' : sent.has(key) ? 'lost' : 'needless']++
  }
  return counts
}

function countsOf(names: readonly string[]): Record<string, number> {
  const counts: Record<string, number> = {}
  for (const name of names) counts[name] = (counts[name] ?? 0) + 1
  return counts
}

function quantiles(values: readonly number[]): Record<'p50' | 'p95' | 'max' | 'of', number> {
  const sorted = values.toSorted((a, b) => a - b)
  const at = (part: number): number =>
    Math.round(sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * part))] ?? 0)
  return { p50: at(0.5), p95: at(0.95), max: at(1), of: sorted.length }
}

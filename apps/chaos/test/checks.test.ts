import { expect, test } from 'vitest'
import { figuresOf, HEAP_GROWTH_BYTES, historyOf, SLACK_MS, violationsOf } from '../src/checks.ts'
import type { Settlement } from '../src/agent.ts'
import { RunRecord } from '../src/run-record.ts'
import type { CallRecord, ExchangeRecord } from '../src/run-record.ts'

const ada = 'ada-of-agent-1'
const bob = 'bob-of-agent-1'

/** A member that is `undefined` is left out. */
type Changes<T> = { readonly [Name in keyof T]?: T[Name] | undefined }

const settled = (changes: Changes<Settlement> = {}): Settlement =>
  ({
    key: 'call-1',
    outcome: 'executed',
    ms: 100,
    lagMs: 0,
    answer: { key: 'call-1', principal: ada },
    progressKeys: ['call-1'],
    ...changes,
  }) as Settlement

/** `call-1` of Ada on `shop`, settled as given. */
const callRecord = (
  settlements: readonly Settlement[] = [settled()],
  changes: Partial<CallRecord> = {},
): CallRecord => ({
  call: { key: 'call-1', server: 'shop', principal: ada, tool: 'pay', deadlineMs: 1000 },
  agent: 'agent-1',
  kind: 'client',
  startedAt: 0,
  settlements: [...settlements],
  killed: false,
  mustSucceed: false,
  ...changes,
})

const exchange = (changes: Partial<ExchangeRecord> = {}): ExchangeRecord => ({
  server: 'shop',
  at: 10,
  httpMethod: 'POST',
  rpcMethod: undefined,
  key: undefined,
  principal: ada,
  sessionId: undefined,
  assignedSessionId: undefined,
  fault: undefined,
  status: 200,
  end: 'complete',
  delivered: 'whole',
  ...changes,
})

/** A run with one good call of Ada, in which every check holds. */
const run = (changes: Partial<RunRecord> = {}): RunRecord =>
  Object.assign(new RunRecord(), {
    calls: new Map([['call-1', callRecord()]]),
    executions: [{ key: 'call-1', principal: ada }],
    exchanges: [exchange({ key: 'call-1', sessionId: 'session-1' })],
    sockets: { shop: 0 },
    seconds: 1,
    ...changes,
  })

const withCall = (record: CallRecord, executions: number): RunRecord =>
  run({
    calls: new Map([['call-1', record]]),
    executions: Array.from({ length: executions }, () => ({ key: 'call-1', principal: ada })),
  })

const brokenIn = (record: RunRecord): readonly string[] =>
  violationsOf(record).map(({ check }) => check)

test('accepts a run in which everything holds', () => {
  expect(violationsOf(run())).toEqual([])
})

const unknown = settled({ outcome: 'unknown', answer: undefined })
const opened = exchange({ assignedSessionId: 'session-1', rpcMethod: 'initialize' })
const left = { sessions: [{ server: 'shop', id: 'session-1' }], exchanges: [opened] }

test.each<[string, RunRecord, string]>([
  ['a call that never settles', withCall(callRecord([]), 0), 'each call settles once'],
  [
    'a call that settles twice',
    withCall(callRecord([settled(), settled()]), 1),
    'each call settles once',
  ],
  [
    'a late call',
    withCall(callRecord([settled({ ms: 1000 + SLACK_MS + 1 })]), 1),
    'each call settles within its deadline',
  ],
  ['a success without execution', withCall(callRecord(), 0), 'executions match the outcome'],
  ['a success that was executed twice', withCall(callRecord(), 2), 'executions match the outcome'],
  [
    'an execution of a call that is reported as not executed',
    withCall(callRecord([settled({ outcome: 'not-executed', answer: undefined })]), 1),
    'executions match the outcome',
  ],
  [
    'two executions of an unknown call',
    withCall(callRecord([unknown]), 2),
    'executions match the outcome',
  ],
  [
    'two executions of a failed call',
    withCall(callRecord([{ ...unknown, outcome: 'failed' }]), 2),
    'executions match the outcome',
  ],
  [
    'two executions of a call whose agent was killed',
    withCall(callRecord([], { killed: true }), 2),
    'executions match the outcome',
  ],
  [
    'an execution that nobody asked for',
    run({ executions: [...run().executions, { key: 'call-9', principal: ada }] }),
    'executions match the outcome',
  ],
  [
    'an execution without the key of a call',
    run({ executions: [...run().executions, { key: undefined, principal: ada }] }),
    'executions match the outcome',
  ],
  [
    'an answer of another call',
    withCall(callRecord([settled({ answer: { key: 'call-2', principal: ada } })]), 1),
    'each answer belongs to its call and principal',
  ],
  [
    'an answer for another principal',
    withCall(callRecord([settled({ answer: { key: 'call-1', principal: bob } })]), 1),
    'each answer belongs to its call and principal',
  ],
  [
    'a success without an answer',
    withCall(callRecord([settled({ answer: undefined })]), 1),
    'each answer belongs to its call and principal',
  ],
  [
    'an execution for another principal',
    run({ executions: [{ key: 'call-1', principal: bob }] }),
    'each execution is for the principal of the call',
  ],
  [
    'progress of another call',
    run({
      calls: new Map([
        ['call-1', callRecord([settled({ progressKeys: ['call-1', 'call-2'] })])],
        ['call-2', callRecord([], { killed: true })],
      ]),
    }),
    'progress reaches its own call only',
  ],
  [
    'a session of two principals',
    run({
      exchanges: [exchange({ sessionId: 's' }), exchange({ sessionId: 's', principal: bob })],
    }),
    'each session serves one principal',
  ],
  ['a session that is left', run(left), 'sessions are ended'],
  [
    'a session that is left although its owner was killed before its last use',
    run({
      ...left,
      exchanges: [opened, exchange({ at: 50, sessionId: 'session-1' })],
      kills: [{ name: 'agent-1', at: 20 }],
    }),
    'sessions are ended',
  ],
  [
    'a second session that an agent keeps for the next process',
    run({
      sessions: ['session-1', 'session-2'].map((id) => ({ server: 'shop', id })),
      exchanges: [opened, { ...opened, assignedSessionId: 'session-2' }],
      durable: new Set([ada]),
    }),
    'sessions are ended',
  ],
  ['an open connection', run({ sockets: { shop: 1 } }), 'no connection stays open'],
  [
    'an agent that does not close',
    run({ agents: [{ name: 'agent-1', holdings: undefined }] }),
    'agents release what they hold',
  ],
  [
    'an agent that keeps a socket',
    run({
      agents: [{ name: 'agent-1', holdings: { heapBytes: 0, resources: { TCPSocketWrap: 1 } } }],
    }),
    'agents release what they hold',
  ],
  [
    'a heap that grows',
    run({
      agents: [{ name: 'agent-1', holdings: { heapBytes: HEAP_GROWTH_BYTES + 1, resources: {} } }],
    }),
    'heaps return to their size',
  ],
  [
    'a process that is left',
    run({ processes: 1 }),
    'processes end when they are told to, and only then',
  ],
  [
    'a process that crashes',
    run({ crashes: ['agent-1 ended with 1'] }),
    'processes end when they are told to, and only then',
  ],
  [
    'a failure after the faults',
    withCall(callRecord([unknown], { mustSucceed: true }), 0),
    'calls succeed when the faults are over',
  ],
])('finds %s', (_title, record, check) => {
  expect(brokenIn(record)).toEqual([check])
})

test.each<[string, RunRecord]>([
  [
    'a call that is late because the machine is busy',
    withCall(callRecord([settled({ ms: 5000, lagMs: 4000 })]), 1),
  ],
  ['an unknown call that was executed once', withCall(callRecord([unknown]), 1)],
  ['an unknown call that was not executed', withCall(callRecord([unknown]), 0)],
  ['a call whose agent was killed', withCall(callRecord([], { killed: true }), 1)],
  [
    'a session whose id did not reach the client',
    run({ ...left, exchanges: [{ ...opened, end: 'cut' }] }),
  ],
  [
    'a session whose owner was killed after its last use',
    run({ ...left, kills: [{ name: 'agent-1', at: 20 }] }),
  ],
  [
    'a session whose end was hit by a fault',
    run({
      ...left,
      exchanges: [opened, exchange({ httpMethod: 'DELETE', sessionId: 'session-1', end: 'cut' })],
    }),
  ],
  [
    'a session in whose name a fault answered',
    run({
      ...left,
      exchanges: [
        opened,
        exchange({ sessionId: 'session-1', status: 404, fault: 'answer-404', delivered: 'none' }),
      ],
    }),
  ],
  [
    'a session in whose name a fault replaced an answer of the server',
    run({
      ...left,
      exchanges: [opened, exchange({ sessionId: 'session-1', status: 404, fault: 'answer-after' })],
    }),
  ],
  ['a session that is kept for the next process', run({ ...left, durable: new Set([ada]) })],
])('accepts %s', (_title, record) => {
  expect(violationsOf(record)).toEqual([])
})

test.each<[string, Partial<ExchangeRecord> | undefined, object]>([
  ['misled', { delivered: 'none', fault: 'html-instead', status: 502 }, { misled: 1 }],
  ['lost', { delivered: 'none', fault: 'stall-before', status: undefined }, { lost: 1 }],
  ['lost', { delivered: 'partial', fault: 'reset-request', status: undefined }, { lost: 1 }],
  ['needless', undefined, { needless: 1 }],
  ['none of them', { delivered: 'whole', fault: 'answer-after', status: 504 }, {}],
])('counts an unknown call as %s for the exchange %o', (_title, made, counts) => {
  const exchanges = made ? [exchange({ key: 'call-1', ...made })] : []
  const figures = figuresOf(Object.assign(withCall(callRecord([unknown]), 0), { exchanges }))
  expect(figures['unknown calls that no server received']).toEqual({
    misled: 0,
    lost: 0,
    needless: 0,
    ...counts,
  })
})

test('counts outcomes and faults, and measures the time of recovery', () => {
  const record = run({
    exchanges: [exchange({ key: 'call-1', fault: 'split' })],
    restarts: [{ server: 'shop', at: 60 }],
    driverFaults: ['agent killed', 'agent killed'],
  })
  expect(figuresOf(record)).toMatchObject({
    calls: 1,
    outcomes: { executed: 1 },
    'faults of the proxies': { split: 1 },
    'faults of the driver': { 'agent killed': 2 },
    'time from a restart to the first good call': { p50: 40, max: 40, of: 1 },
  })
})

test('tells the history of a call with the faults of its exchanges', () => {
  const record = run({ exchanges: [exchange({ key: 'call-1', fault: 'reset-after' })] })
  expect(historyOf(record, 'call-1').join('\n')).toMatch(
    /agent-1 \(client\) called shop.*executed after 100 ms.*reset-after.*executed 1 time/s,
  )
})

import { setTimeout as sleep } from 'node:timers/promises'
import { Agent } from '@x/chaos/processes'
import type { Call, Settlement } from '@x/chaos/protocol'
import { seededRandom, startLegacyServer, startModernServer } from '@x/mcp-testing'
import type { CallLedger, CannedAnswer, ServerFault, TestTool } from '@x/mcp-testing'

/** Era of the protocol, which decides about the server. */
export type Era = 'legacy' | 'modern'

/** A client of the comparison. */
interface Contender {
  readonly name: string
  /** Eras that it speaks with these options. */
  readonly eras: readonly Era[]
  readonly program: URL
  /** Tells the program which client it is. */
  readonly kind: string
}

const BOTH = ['legacy', 'modern'] as const
const LEGACY = ['legacy'] as const
const OURS = new URL('../../../chaos/src/agent-process.ts', import.meta.url)
const PEERS = new URL('peer-process.ts', import.meta.url)

const CONTENDERS: readonly Contender[] = [
  { name: '@x/mcp-client', eras: BOTH, program: OURS, kind: 'client' },
  { name: '@x/langchain-mcp', eras: BOTH, program: OURS, kind: 'tools' },
  { name: 'SDK v1 on our transport', eras: BOTH, program: OURS, kind: 'sdk' },
  { name: 'SDK v1', eras: LEGACY, program: PEERS, kind: 'sdk-v1' },
  { name: 'SDK v1, new after 404', eras: LEGACY, program: PEERS, kind: 'sdk-v1-404' },
  { name: 'SDK v2', eras: LEGACY, program: PEERS, kind: 'sdk-v2' },
  { name: 'SDK v2, new after 404', eras: LEGACY, program: PEERS, kind: 'sdk-v2-404' },
  { name: 'SDK v2, mode auto', eras: ['modern'], program: PEERS, kind: 'sdk-v2-auto' },
  { name: '@langchain/mcp-adapters', eras: LEGACY, program: PEERS, kind: 'adapters' },
  { name: '@ai-sdk/mcp', eras: BOTH, program: PEERS, kind: 'ai-sdk' },
  { name: '@ai-sdk/mcp, maxRetries 2', eras: BOTH, program: PEERS, kind: 'ai-sdk-retries' },
  { name: '@mastra/mcp', eras: BOTH, program: PEERS, kind: 'mastra' },
  { name: '@mastra/mcp, reconnectServer', eras: BOTH, program: PEERS, kind: 'mastra-reconnects' },
  { name: 'mcp-use 1', eras: LEGACY, program: PEERS, kind: 'mcp-use' },
]

export interface CompareOptions {
  readonly seed: number
  /** Duration of the faults for each contender. */
  readonly seconds: number
  readonly eras: readonly Era[]
  readonly progress: (text: string) => void
}

/** Times from a disruption to the first good call, one for each disruption and principal. */
interface Recovery {
  readonly medianMs: number | undefined
  readonly maxMs: number | undefined
  /** Disruptions after which no call of the principal was good any more. */
  readonly never: number
  readonly of: number
}

/** What became of the calls of one contender. README.md explains the columns. */
export interface ComparedRow {
  readonly contender: string
  readonly era: Era
  readonly calls: number
  readonly goodPercent: number
  readonly doubled: number
  readonly lost: number
  readonly hung: number
  readonly wrong: number
  readonly falseClaims: number
  readonly unknown: number
  readonly recovery: Recovery
  readonly sessionsLeft: number
  readonly handshakes: number
  readonly listenStreams: number
  /** HTTP requests of all kinds. */
  readonly requestsPerCall: number
  readonly callsPerSecond: number
  /** Calls that were not good before the first fault. More than 0 makes the row invalid. */
  readonly badWithoutFaults: number
  /** How the process ended, if it ended by itself. */
  readonly crash: string | undefined
}

const PRINCIPALS = ['ada', 'grace', 'linus', 'margaret'] as const
const DEADLINE_MS = 2000
/** A call may settle so much later than its deadline. */
const SLACK_MS = 500
const CALLS_WITHOUT_FAULTS = 2000
const AT_ONCE = 8
const CALL_EVERY_MS = 15
const FAULT_EVERY_MS = 150
const DISRUPTION_EVERY_MS = 1500

/** Returns what the server knows of the call, so that a wrong answer shows. */
const pay: TestTool = {
  name: 'pay',
  description: 'Pays once for each call.',
  inputSchema: { type: 'object', properties: { key: { type: 'string' } }, required: ['key'] },
  annotations: { readOnlyHint: false, idempotentHint: false },
  async run({ key }, { principal }) {
    await sleep(2)
    return { structuredContent: { key, principal } }
  },
}

const html = (status: number): CannedAnswer => ({
  status,
  headers: { 'content-type': 'text/html' },
  body: '<html><title>Please try again</title></html>',
})

/** Faults of one exchange; those with `answer` come after the execution. */
const FAULTS: readonly [ServerFault, ...ServerFault[]] = [
  { instead: 'reset' },
  { instead: 'hang' },
  { instead: html(502) },
  { instead: { status: 503, body: 'busy' } },
  { instead: { status: 429, headers: { 'retry-after': '1' }, body: 'slow down' } },
  { instead: html(404) },
  { answer: 'reset' },
  { answer: 'cut' },
  { answer: 'hang' },
  { answer: html(504) },
  { answer: html(200) },
  { answer: 'twice' },
  { answer: 'other-id' },
  { answer: 'id-of-another-call' },
  { method: 'initialize', instead: { status: 503, body: 'busy' } },
]

/** How the server refuses sessions after a disruption: the forms of the reference servers. */
const LOSS_FORMS = ['404-32001', '404-32001', '400-no-valid'] as const

type Step =
  | { readonly atMs: number; readonly call: Call }
  | { readonly atMs: number; readonly fault: ServerFault }
  | { readonly atMs: number; readonly listenStream: 'close-at-once' | 'open' }
  | {
      readonly atMs: number
      readonly disrupt: 'forget' | 'restart'
      readonly lossForm: (typeof LOSS_FORMS)[number]
    }

/** Same steps for each contender: what happens, and when. */
function stepsFrom({ seed, seconds }: CompareOptions, era: Era): readonly Step[] {
  const random = seededRandom(seed)
  const pick = <T>(from: readonly [T, ...T[]]): T =>
    from[Math.floor(random() * from.length)] ?? from[0]
  const times = (every: number, until: number): number[] =>
    Array.from({ length: Math.floor(until / every) }, (_, index) => (index + random()) * every)
  const endMs = seconds * 1000
  const lastMs = endMs - DISRUPTION_EVERY_MS // time to recover from the last disruption
  const firstDisruptionMs = endMs / 2 // before it, clients that never recover are compared, too
  return [
    ...times(CALL_EVERY_MS, endMs).map((atMs, index) => ({
      atMs,
      call: callOf(`f${index}`, pick(PRINCIPALS)),
    })),
    ...times(FAULT_EVERY_MS, lastMs).map((atMs) => ({ atMs, fault: pick(FAULTS) })),
    ...times(DISRUPTION_EVERY_MS, lastMs - firstDisruptionMs).map((afterMs, index) => ({
      atMs: firstDisruptionMs + afterMs,
      disrupt: era === 'modern' || index % 2 === 1 ? ('restart' as const) : ('forget' as const),
      lossForm: pick(LOSS_FORMS),
    })),
    { atMs: 0, listenStream: 'close-at-once' as const },
    { atMs: firstDisruptionMs, listenStream: 'open' as const },
  ].toSorted((a, b) => a.atMs - b.atMs)
}

function callOf(key: string, principal: string): Call {
  return { key, server: 'shop', principal, tool: pay.name, deadlineMs: DEADLINE_MS }
}

/** Runs all contenders, one after the other. */
export async function compare(options: CompareOptions): Promise<readonly ComparedRow[]> {
  const rows: ComparedRow[] = []
  for (const era of options.eras) {
    const steps = stepsFrom(options, era)
    for (const contender of CONTENDERS.filter(({ eras }) => eras.includes(era))) {
      options.progress(`${contender.name} (${era})`)
      rows.push(await rowOf(contender, era, steps))
    }
  }
  return rows
}

async function rowOf(contender: Contender, era: Era, steps: readonly Step[]): Promise<ComparedRow> {
  await using server =
    era === 'legacy'
      ? await startLegacyServer({ tools: [pay] })
      : await startModernServer({ tools: [pay] })
  const { ledger } = server
  const spec = {
    name: contender.name,
    servers: { shop: server.url },
    principals: PRINCIPALS,
    seed: 1,
    deadlineMs: DEADLINE_MS,
    kind: contender.kind,
  }
  const crashes: string[] = []
  const agent = new Agent(spec, { entry: contender.program, crashes })
  await agent.start().catch(() => {}) // the row tells of the crash

  const plain = await runPlain(agent)
  const badWithoutFaults = plain.calls.filter((call) => !isGood(call, ledger)).length
  await agent.close()
  const sessionsLeft = new Set(sessionsOf(server))
  const requestsBefore = server.received.length

  const startedAt = performance.now()
  const calls: MadeCall[] = []
  const disruptions: number[] = []
  for (const step of steps) {
    await sleep(Math.max(0, startedAt + step.atMs - performance.now()))
    if ('call' in step) calls.push(makeCall(agent, step.call))
    else if ('fault' in step) server.inject(step.fault)
    else if ('listenStream' in step) {
      if ('listenStream' in server) server.listenStream = step.listenStream
    } else {
      if ('lossForm' in server) server.lossForm = step.lossForm
      if (step.disrupt === 'forget' && 'forgetSessions' in server) server.forgetSessions()
      else await server.restart()
      disruptions.push(performance.now())
    }
  }
  await Promise.race([
    Promise.all(calls.map(({ settled }) => settled)),
    sleep(DEADLINE_MS + 2 * SLACK_MS),
  ])
  await agent.close()
  for (const id of sessionsOf(server)) sessionsLeft.add(id)
  await agent.kill()
  const requests = server.received.slice(requestsBefore)

  const count = (test: (call: MadeCall, executions: number) => boolean): number =>
    calls.filter((call) => test(call, ledger.executions({ key: call.call.key }))).length
  const failed = ({ settlement }: MadeCall): boolean =>
    settlement !== undefined && settlement.outcome !== 'executed'
  return {
    contender: contender.name,
    era,
    calls: calls.length,
    goodPercent: (100 * count((call) => isGood(call, ledger))) / calls.length,
    doubled: count((_call, executions) => executions > 1),
    lost: count((call, executions) => failed(call) && executions === 0),
    hung: count(
      ({ settlement: end }) => end === undefined || end.ms - end.lagMs > DEADLINE_MS + SLACK_MS,
    ),
    wrong: count(
      ({ call, settlement: end }) => end?.answer !== undefined && !isAnswerOf(call, end),
    ),
    falseClaims: count(
      ({ settlement: end }, executions) => end?.outcome === 'not-executed' && executions > 0,
    ),
    unknown: count((call) => failed(call) && call.settlement?.outcome !== 'not-executed'),
    recovery: recoveryOf(calls, disruptions, ledger),
    sessionsLeft: sessionsLeft.size,
    handshakes: requests.filter(({ rpcMethod }) => rpcMethod === 'initialize').length,
    listenStreams: requests.filter(({ httpMethod }) => httpMethod === 'GET').length,
    requestsPerCall: requests.length / calls.length,
    callsPerSecond: plain.callsPerSecond,
    badWithoutFaults,
    crash: crashes[0],
  }
}

/** The gate: without faults all calls of all contenders must be good. */
async function runPlain(
  agent: Agent,
): Promise<{ calls: readonly MadeCall[]; callsPerSecond: number }> {
  const calls: MadeCall[] = []
  const burst = async (count: number): Promise<void> => {
    let left = count
    const worker = async (): Promise<void> => {
      while (left-- > 0) {
        const call = callOf(`p${calls.length}`, PRINCIPALS[calls.length % PRINCIPALS.length] ?? '')
        const made = makeCall(agent, call)
        calls.push(made)
        await Promise.race([made.settled, sleep(DEADLINE_MS + SLACK_MS)])
      }
    }
    await Promise.all(Array.from({ length: AT_ONCE }, worker))
  }
  await burst(CALLS_WITHOUT_FAULTS / 10) // opens connections and warms the code up
  const startedAt = performance.now()
  await burst(CALLS_WITHOUT_FAULTS)
  return { calls, callsPerSecond: (1000 * CALLS_WITHOUT_FAULTS) / (performance.now() - startedAt) }
}

function sessionsOf(server: object): readonly string[] {
  return 'sessions' in server && Array.isArray(server.sessions) ? server.sessions : []
}

interface MadeCall {
  readonly call: Call
  readonly startedAt: number
  settled: Promise<void>
  settledAt?: number
  settlement?: Settlement | undefined
}

function makeCall(agent: Agent, call: Call): MadeCall {
  const startedAt = performance.now()
  const settlements: Settlement[] = []
  const about = { agent: '', kind: '', killed: false, mustSucceed: false }
  const made: MadeCall = { call, startedAt, settled: Promise.resolve() }
  const settle = async (): Promise<void> => {
    await agent.call({ call, startedAt, settlements, ...about })
    made.settlement = settlements[0]
    made.settledAt = performance.now()
  }
  made.settled = settle()
  return made
}

function isAnswerOf({ key, principal }: Call, { answer }: Settlement): boolean {
  return answer?.key === key && answer.principal === principal
}

function isGood({ call, settlement }: MadeCall, ledger: CallLedger): boolean {
  return (
    settlement?.outcome === 'executed' &&
    isAnswerOf(call, settlement) &&
    ledger.executions({ key: call.key }) === 1
  )
}

/** From the first call of each principal after each disruption to its first good answer. */
function recoveryOf(
  calls: readonly MadeCall[],
  disruptions: readonly number[],
  ledger: CallLedger,
): Recovery {
  const times = disruptions.flatMap((at) =>
    PRINCIPALS.map((principal) => {
      const later = calls.filter((one) => one.call.principal === principal && one.startedAt >= at)
      const ends = later.filter((one) => isGood(one, ledger)).map(({ settledAt = 0 }) => settledAt)
      return Math.min(...ends) - (later[0]?.startedAt ?? at)
    }),
  )
  const found = times.filter(Number.isFinite).toSorted((a, b) => a - b)
  return {
    medianMs: found[Math.floor(found.length / 2)],
    maxMs: found.at(-1),
    never: times.length - found.length,
    of: times.length,
  }
}

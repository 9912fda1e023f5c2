import { setTimeout as sleep } from 'node:timers/promises'
import type { Call, Settlement } from '@x/chaos/agent'
import { Agent } from '@x/chaos/processes'
import { RunRecord } from '@x/chaos/run-record'
import type { CallRecord } from '@x/chaos/run-record'
import { seededRandom, startLegacyServer, startModernServer } from '@x/mcp-testing'
import type { CallLedger, CannedAnswer, ServerFault, TestTool } from '@x/mcp-testing'

/** Era of the server. */
type Era = 'legacy' | 'modern'

/** A client of the comparison. */
interface Contender {
  readonly name: string
  /** Eras that the client supports with these options. */
  readonly eras: readonly Era[]
  readonly program: URL
  /** Name of the client in the program. */
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
  /** Duration of the faults for each client. */
  readonly minutes: number
  readonly era: Era | 'both'
}

/** Figures of one client in one era. README.md explains the columns. */
export type ComparedRow = Awaited<ReturnType<typeof rowOf>>

const PRINCIPALS = ['ada', 'grace', 'linus', 'margaret'] as const
const DEADLINE_MS = 2000
/** Time after the deadline until an unsettled call counts as hung. */
const SLACK_MS = 500
const CALLS_WITHOUT_FAULTS = 2000
const AT_ONCE = 8
const CALL_EVERY_MS = 15
const FAULT_EVERY_MS = 150
const DISRUPTION_EVERY_MS = 1500

/** Returns key and principal as the server saw them, so that a wrong answer is found. */
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

/** Faults of one exchange. With `instead` the tool does not run; with `answer` it has run before. */
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

/** Answers of the reference servers to the id of a session that they have lost. */
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

/** Calls, faults and disruptions with their times. They are the same for each client. */
function stepsFrom({ seed, minutes }: CompareOptions, era: Era): readonly Step[] {
  const random = seededRandom(seed)
  const pick = <T>(from: readonly [T, ...T[]]): T =>
    from[Math.floor(random() * from.length)] ?? from[0]
  const times = (every: number, until: number): number[] =>
    Array.from({ length: Math.floor(until / every) }, (_, index) => (index + random()) * every)
  const endMs = minutes * 60_000
  const lastMs = endMs - DISRUPTION_EVERY_MS // time to recover from the last disruption
  const firstDisruptionMs = endMs / 2 // the first half compares clients that never recover, too
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

/** Runs all clients, one after the other. Writes their names to standard error. */
export async function compare(options: CompareOptions): Promise<readonly ComparedRow[]> {
  const rows: ComparedRow[] = []
  for (const era of options.era === 'both' ? BOTH : [options.era]) {
    const steps = stepsFrom(options, era)
    for (const contender of CONTENDERS.filter(({ eras }) => eras.includes(era))) {
      process.stderr.write(`${contender.name} (${era})\n`)
      rows.push(await rowOf(contender, era, steps))
    }
  }
  return rows
}

async function rowOf(contender: Contender, era: Era, steps: readonly Step[]) {
  await using server =
    era === 'legacy'
      ? await startLegacyServer({ tools: [pay] })
      : await startModernServer({ tools: [pay] })
  const { ledger } = server
  const { name, kind, program } = contender
  const servers = { shop: server.url }
  const spec = { name, kind, servers, principals: PRINCIPALS, deadlineMs: DEADLINE_MS }
  const run = new RunRecord()
  const agent = new Agent(spec, program, run)
  await agent.start().catch(() => {}) // the crash is in the row

  const callsPerSecond = await callWithoutFaults(agent)
  const badWithoutFaults = [...run.calls.values()].filter((one) => !isGood(one, ledger)).length
  await agent.close()
  const sessionsLeft = new Set(sessionsOf(server))
  const requestsBefore = server.received.length

  run.calls.clear()
  const disruptions: number[] = []
  const settled: Promise<unknown>[] = []
  const startedAt = performance.now()
  for (const step of steps) {
    await sleep(Math.max(0, startedAt + step.atMs - performance.now()))
    if ('call' in step) settled.push(agent.call(step.call))
    else if ('fault' in step) server.inject(step.fault)
    else if ('listenStream' in step) {
      if ('listenStream' in server) server.listenStream = step.listenStream
    } else {
      if ('lossForm' in server) server.lossForm = step.lossForm
      if (step.disrupt === 'forget' && 'forgetSessions' in server) server.forgetSessions()
      else await server.restart()
      disruptions.push(run.now())
    }
  }
  await Promise.race([Promise.all(settled), sleep(DEADLINE_MS + 2 * SLACK_MS)])
  await agent.close()
  for (const id of sessionsOf(server)) sessionsLeft.add(id)
  await agent.kill()
  const requests = server.received.slice(requestsBefore)

  const calls = [...run.calls.values()].map((record) => ({
    ...record,
    end: record.settlements[0],
    isFailed: (record.settlements[0]?.outcome ?? 'executed') !== 'executed',
    isGood: isGood(record, ledger),
    executions: ledger.executions({ key: record.call.key }),
  }))
  const count = (matches: (call: (typeof calls)[number]) => boolean): number =>
    calls.filter(matches).length
  return {
    contender: name,
    era,
    calls: calls.length,
    goodPercent: (100 * count((one) => one.isGood)) / calls.length,
    doubled: count(({ executions }) => executions > 1),
    lost: count(({ isFailed, executions }) => isFailed && executions === 0),
    hung: count(({ end }) => end === undefined || end.ms - end.lagMs > DEADLINE_MS + SLACK_MS),
    wrong: count(({ call, end }) => end?.answer !== undefined && !isAnswerOf(call, end)),
    falseClaims: count(({ end, executions }) => end?.outcome === 'not-executed' && executions > 0),
    unknown: count(({ isFailed, end }) => isFailed && end?.outcome !== 'not-executed'),
    recovery: recoveryFrom(
      disruptions,
      calls.map((one) => ({ ...one, endedAt: one.startedAt + (one.end?.ms ?? 0) })),
    ),
    sessionsLeft: sessionsLeft.size,
    handshakes: requests.filter(({ rpcMethod }) => rpcMethod === 'initialize').length,
    listenStreams: requests.filter(({ httpMethod }) => httpMethod === 'GET').length,
    requestsPerCall: requests.length / calls.length,
    callsPerSecond,
    badWithoutFaults,
    /** Exit code and standard error of the process, if it crashed. */
    crash: run.crashes[0],
  }
}

/** Without faults, all calls of all clients must be good. Returns the number of calls per second. */
async function callWithoutFaults(agent: Agent): Promise<number> {
  let made = 0
  const callUntil = async (count: number): Promise<void> => {
    const caller = async (): Promise<void> => {
      while (made < count) {
        const call = callOf(`p${made}`, PRINCIPALS[made % PRINCIPALS.length] ?? '')
        made++
        await Promise.race([agent.call(call), sleep(DEADLINE_MS + SLACK_MS)])
      }
    }
    await Promise.all(Array.from({ length: AT_ONCE }, caller))
  }
  const warmUp = CALLS_WITHOUT_FAULTS / 10 // opens connections, and lets the code be compiled
  await callUntil(warmUp)
  const startedAt = performance.now()
  await callUntil(warmUp + CALLS_WITHOUT_FAULTS)
  return (1000 * CALLS_WITHOUT_FAULTS) / (performance.now() - startedAt)
}

function sessionsOf(server: object): readonly string[] {
  return 'sessions' in server && Array.isArray(server.sessions) ? server.sessions : []
}

function isAnswerOf({ key, principal }: Call, { answer }: Settlement): boolean {
  return answer?.key === key && answer.principal === principal
}

function isGood({ call, settlements: [end] }: CallRecord, ledger: CallLedger): boolean {
  if (end?.outcome !== 'executed' || !isAnswerOf(call, end)) return false
  return ledger.executions({ key: call.key }) === 1
}

/**
 * Times from the first call of each principal after each disruption to its first good answer. `never`
 * counts the disruptions after which the principal got no good answer.
 */
function recoveryFrom(
  disruptions: readonly number[],
  calls: readonly (CallRecord & { readonly isGood: boolean; readonly endedAt: number })[],
): { medianMs: number | undefined; maxMs: number | undefined; never: number; of: number } {
  const times = disruptions.flatMap((at) =>
    PRINCIPALS.map((principal) => {
      const later = calls.filter((one) => one.call.principal === principal && one.startedAt >= at)
      const ends = later.filter((one) => one.isGood).map(({ endedAt }) => endedAt)
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

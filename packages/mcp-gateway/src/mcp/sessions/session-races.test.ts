import { queryObjects } from 'node:v8'

import { seededRandom } from '@x/mcp-testing'
import { afterEach, expect, test, vi } from 'vitest'

import { settled } from '../../../test/manual-clock.ts'
import { promptCrypto } from '../../../test/prompt-crypto.ts'
import { RACING_AGENTS, racingAgents } from '../../../test/racing-agents.ts'
import { RacingClient } from '../../../test/racing-client.ts'
import { inSession, post, URL_OF_TESTS } from '../../../test/rpc-requests.ts'
import { SlowStore } from '../../../test/slow-store.ts'
import { oneOf, turns } from '../../../test/turns.ts'
import { twoReplicas, type TwoReplicas } from '../../../test/two-replicas.ts'
import { HeldRequest } from './held-request.ts'
import { PostExchange } from './post-exchange.ts'
import { SessionTransport } from './session-transport.ts'

const GRACE_MS = 10_000
const POSTS = 6
/** Of streams that were read to their end, at each of two processes. */
const KEPT_STREAMS = 2 * 8
/** The store was away; a question was answered that nobody asks any more. */
const TOLERATED = /Events of sessions cannot be kept now|unknown message ID/

/** `SEED=7` runs one again, `SEEDS=5000` more of them. */
function seeds(): readonly number[] {
  const { SEED, SEEDS = 120 } = process.env
  if (SEED !== undefined) return [Number(SEED)]
  return Array.from({ length: Number(SEEDS) }, (_, n) => n + 1)
}

interface World {
  readonly random: () => number
  readonly store: SlowStore
  readonly replicas: TwoReplicas
  readonly headers: Readonly<Record<string, string>>
}

/** Two processes, and a session of a client that can be asked, and wants to hear of everything. */
async function worldOf(random: () => number): Promise<World> {
  const store = new SlowStore(random)
  const agents = racingAgents(random)
  const options = {
    sources: [agents],
    sessions: { disconnectGraceMs: GRACE_MS, eventStore: { enabled: random() < 0.85 } },
    streaming: { channel: oneOf(random, ['progress', 'log', 'both'] as const) },
    runs: { idleTimeoutMs: 0 },
  }
  const replicas = { ...twoReplicas(options, (each) => store.wrap(each)), agents }
  const params = {
    protocolVersion: '2025-11-25',
    capabilities: { elicitation: {} },
    clientInfo: { name: 'test', version: '1.0.0' },
  }
  const message = { jsonrpc: '2.0', id: 0, method: 'initialize', params }
  const response = await replicas.a(post(message))
  await response.text()
  const headers = inSession(response.headers.get('mcp-session-id') ?? '')
  await replicas.a(post({ jsonrpc: '2.0', method: 'notifications/initialized' }, headers))
  const level = { ...message, method: 'logging/setLevel', params: { level: 'debug' } }
  // At both, as a cancellation could overtake the call that makes one of them go on with the session.
  for (const each of [replicas.a, replicas.b]) await (await each(post(level, headers))).text()
  return { random, store, replicas, headers }
}

interface Call {
  readonly id: number
  readonly name: (typeof RACING_AGENTS)[number]
  /** Of no other call. */
  readonly text: string
  isCancelled: boolean
}

interface Race {
  readonly calls: readonly Call[]
  readonly client: RacingClient
  readonly done: Promise<unknown>
}

/** One POST of the session, and what its client does meanwhile. */
function begin({ random, replicas, store, headers }: World, ids: readonly number[]): Race {
  const processes = [replicas.a, replicas.b]
  const calls = ids.map((id): Call => {
    return { id, name: oneOf(random, RACING_AGENTS), text: `text ${id}`, isCancelled: false }
  })
  const messages = calls.map(({ id, name, text }) => {
    const meta = random() < 0.4 ? { _meta: { progressToken: id } } : {}
    const params = { name, arguments: { message: text }, ...meta }
    return { jsonrpc: '2.0', id, method: 'tools/call', params }
  })
  const isBatch = calls.length > 1
  const client = new RacingClient({
    random,
    processes,
    headers: isBatch ? { ...headers, 'mcp-protocol-version': '2025-03-26' } : headers,
    leaving: oneOf(random, [0, 0.3, 0.9]),
    isCurious: store.failing === 0 && random() < 0.3,
  })
  const cancel = async (call: Call): Promise<void> => {
    call.isCancelled = true
    const params = { requestId: call.id }
    const message = { jsonrpc: '2.0', method: 'notifications/cancelled', params }
    await turns(random, 10)
    await oneOf(random, processes)(post(message, headers))
    if (call.name !== 'endless') return
    // One that overtook its call was not heard.
    for (let left = 20; left > 0; left--) await settled()
    await oneOf(random, processes)(post(message, headers))
  }
  const cancelling = calls
    .filter(({ name }) => name === 'endless' || random() < 0.2)
    .map((call) => cancel(call))
  const [first = {}] = messages
  const racing = client.race(isBatch ? messages : first)
  return { calls, client, done: Promise.all([racing, ...cancelling]) }
}

async function end({ random, replicas, headers }: World): Promise<void> {
  await turns(random, 15)
  const init = { method: 'DELETE', headers: { host: 'localhost', ...headers } }
  const fetch = oneOf(random, [replicas.a, replicas.b])
  await (await fetch(new Request(URL_OF_TESTS, init))).text()
}

/** @returns whether it comes to an end, though the clock goes on only where nothing happens any more */
async function inTime({ replicas }: World, work: Promise<unknown>): Promise<boolean> {
  const done = work.then(() => true as const)
  for (let n = 0; n < 80; n++) {
    for (let turn = 0; turn < 20; turn++) {
      if (await Promise.race([done, settled()])) return true
    }
    if (n > 20) await replicas.clock.advance(GRACE_MS / 4)
  }
  return false
}

/** @param isFailing a client that comes back may be told that its answer was lost, also where it has it */
function checkAnswers(
  { replicas }: World,
  { calls, client }: Race,
  { isEnded, isFailing }: { readonly isEnded: boolean; readonly isFailing: boolean },
): void {
  for (const { id, text, isCancelled } of calls) {
    const runs = replicas.agents.calls.filter(
      ({ input, resume }) => !resume && input.kind === 'message' && input.text === text,
    ).length
    const all = client.answers.get(id) ?? []
    const answers = isFailing && all.length > 1 ? all.filter(({ error }) => !error) : all
    const isExcused = isCancelled || isEnded || isFailing || client.isLost
    const [answer] = answers
    expect(runs).toBeLessThanOrEqual(client.status === 404 ? 0 : 1)
    expect(answers.length).toBeLessThanOrEqual(1)
    if (answer && !answer.error) {
      expect(runs).toBe(1)
      expect(JSON.stringify(answer)).toContain(`"${text}"`)
    }
    if (!isExcused) expect(answer).toHaveProperty('result')
  }
}

/** What the SDK remembers of requests. */
function keptBySdk(transport: object): unknown[] {
  const names = ['_streamMapping', '_requestToStreamMapping', '_requestResponseMap']
  return names.flatMap((name) => [
    ...(Reflect.get(transport, name) as ReadonlyMap<unknown, unknown>),
  ])
}

/** One session, and all that happens in it. */
async function run(seed: number, transports: readonly SessionTransport[]): Promise<void> {
  const random = seededRandom(seed)
  const world = await worldOf(random)
  const { replicas, store } = world
  store.slowness = oneOf(random, [0, 0, 1, 3])
  store.failing = random() < 0.15 ? 0.15 : 0
  const ending = { isEnded: random() < 0.2, isFailing: store.failing > 0 }
  const races: Race[] = []
  for (let id = 1; races.length < POSTS; id += 2) {
    races.push(begin(world, random() < 0.15 ? [id, id + 1] : [id]))
    await turns(random, 3)
  }
  const work = Promise.all(races.map(({ done }) => done))
  try {
    expect(await inTime(world, ending.isEnded ? Promise.all([work, end(world)]) : work)).toBe(true)
    for (const race of races) checkAnswers(world, race, ending)
  } catch (error) {
    const seen = races.map(({ calls, client }) => ({ calls, seen: client.seen }))
    throw new Error(JSON.stringify(seen), { cause: error })
  }
  store.slowness = 0
  for (const { client } of races) client.close()
  await replicas.clock.advance(3 * GRACE_MS)
  expect(ending.isEnded ? [] : transports.flatMap(keptBySdk)).toEqual([])
  const isLeft = races.some(({ client }) => client.seen.some((each) => each.startsWith('leaves')))
  // A stream that was left is kept for as long as the log is.
  const streams = ending.isEnded ? 0 : isLeft ? Infinity : KEPT_STREAMS
  expect(store.streams.size).toBeLessThanOrEqual(streams)
  expect(await inTime(world, Promise.resolve(replicas[Symbol.asyncDispose]()))).toBe(true)
  expect(replicas.clock.pending).toBe(0)
  expect(replicas.warnings.filter((warning) => !TOLERATED.test(warning))).toEqual([])
  replicas.agents.calls.splice(0) // what agents of a test hold is not to be counted
}

afterEach(() => {
  vi.restoreAllMocks()
})

test('of calls that race in sessions each is run and answered once, and nothing is left', async () => {
  promptCrypto()
  const timers = vi.spyOn(globalThis, 'setInterval')
  const started = vi.spyOn(SessionTransport.prototype, 'start')
  const transports = started.mock.contexts as SessionTransport[]
  const failures: string[] = []
  for (const seed of seeds()) {
    try {
      await run(seed, transports)
    } catch (error) {
      const cause = error instanceof Error && error.cause
      failures.push(`seed ${seed}: ${String(cause || error)} ${cause ? String(error) : ''}`)
    }
    transports.splice(0)
  }
  expect(failures).toEqual([])
  for (const { value } of timers.mock.results) expect(value).toMatchObject({ _destroyed: true })
  await settled()
  expect(queryObjects(PostExchange, { format: 'count' })).toBe(0)
  expect(queryObjects(HeldRequest, { format: 'count' })).toBe(0)
}, 60_000)

import { queryObjects } from 'node:v8'

import { seededRandom } from '@x/mcp-testing'
import { expect, test } from 'vitest'

import { settled } from '../../test/manual-clock.ts'
import { RacingClient } from '../../test/racing-client.ts'
import { get, inSession, openSession, post, URL_OF_TESTS } from '../../test/rpc-requests.ts'
import {
  sessionWorld,
  turnsPass,
  type Fetch,
  type SessionWorld,
  type Tool,
} from '../../test/session-world.ts'
import { SlowStore } from '../../test/slow-store.ts'
import { oneOf, turns } from '../../test/turns.ts'
import { CallStream } from './session-calls.ts'
import { LiveSession } from './sessions.ts'

/** Tools of a race. The last one runs until it is cancelled. */
const TOOLS = ['quick', 'late', 'talking', 'asking', 'endless'] as const
const POSTS = 6
/** Logs that two processes keep after they were read to their end. */
const KEPT_LOGS = 2 * 8
const TOLERATED = /Events of sessions cannot be stored/

/** `SEED=7` repeats one run, `SEEDS=5000` makes more of them. */
function seeds(): readonly number[] {
  const { SEED, SEEDS = 120 } = process.env
  if (SEED !== undefined) return [Number(SEED)]
  return Array.from({ length: Number(SEEDS) }, (_, n) => n + 1)
}

/** Tools that answer with their text after some turns, and stop when they are cancelled. */
function racingTools(random: () => number): Readonly<Record<string, Tool>> {
  const unlessStopped = (signal: AbortSignal, waiting: Promise<unknown>): Promise<unknown> =>
    Promise.race([
      waiting,
      new Promise((_, reject) => {
        signal.addEventListener('abort', () => reject(signal.reason))
      }),
    ])
  const pause = ({ signal }: Parameters<Tool>[0], most: number): Promise<unknown> =>
    unlessStopped(signal, turns(random, most))
  const params = {
    message: 'Sure?',
    mode: 'form',
    requestedSchema: { type: 'object', properties: {} },
  } as const
  return {
    quick: (_, text) => text,
    late: async (context, text) => (await pause(context, 12), text),
    talking: async (context, text) => {
      for (let n = 1; n <= 3; n++) {
        if (random() < 0.5) await context.progress?.({ progress: n, message: `still ${n}` })
        else void context.log('info', `still ${n}`)
        if (random() < 0.6) await pause(context, 5)
      }
      return text
    },
    asking: async (context, text) => {
      if (random() < 0.5) await pause(context, 5)
      await context.ask({ q: { method: 'elicitation/create', params } })
      return text
    },
    endless: async (context, text) => {
      await unlessStopped(context.signal, new Promise(() => undefined))
      return text
    },
  }
}

interface World {
  readonly random: () => number
  readonly store: SlowStore
  readonly sessions: SessionWorld
  readonly fetches: readonly [Fetch, Fetch]
  readonly headers: Readonly<Record<string, string>>
}

async function worldOf(random: () => number): Promise<World> {
  const store = new SlowStore(random)
  const sessions = sessionWorld({
    tools: racingTools(random),
    settings: {
      events: random() < 0.85 ? { maxEvents: 1000, ttlMs: 300_000 } : undefined,
    },
    wrap: (each) => store.wrapSessions(each),
  })
  const capabilities = { elicitation: {} }
  const headers = inSession(await openSession(sessions.a, {}, { capabilities }))
  // Both load the session: a cancellation could overtake a call that waits for it.
  const ping = { jsonrpc: '2.0', id: 0, method: 'ping' }
  for (const fetch of [sessions.a, sessions.b]) await (await fetch(post(ping, headers))).text()
  return { random, store, sessions, fetches: [sessions.a, sessions.b], headers }
}

interface Call {
  readonly id: number
  readonly name: (typeof TOOLS)[number]
  /** Text that no other call has. */
  readonly text: string
  isCancelled: boolean
}

interface Race {
  readonly call: Call
  readonly client: RacingClient
  readonly done: Promise<unknown>
}

/** One call of the session, and the client that reads its answer. */
function begin({ random, fetches, store, headers }: World, id: number): Race {
  const name = oneOf(random, TOOLS)
  const call: Call = { id, name, text: `text ${id}`, isCancelled: false }
  const meta = random() < 0.4 ? { _meta: { progressToken: id } } : {}
  const params = { name, arguments: { message: call.text }, ...meta }
  const client = new RacingClient({
    random,
    processes: fetches,
    headers,
    leaving: oneOf(random, [0, 0.3, 0.9]),
    isCurious: store.failing === 0 && random() < 0.3,
  })
  const cancel = async (): Promise<void> => {
    call.isCancelled = true
    const method = 'notifications/cancelled'
    const message = { jsonrpc: '2.0', method, params: { requestId: id } }
    await turns(random, 10)
    await oneOf(random, fetches)(post(message, headers))
    if (name !== 'endless') return
    // A cancellation that arrives before its call has no effect.
    for (let left = 20; left > 0; left--) await settled()
    await oneOf(random, fetches)(post(message, headers))
  }
  const cancelling = name === 'endless' || random() < 0.2 ? cancel() : undefined
  const racing = client.race({ jsonrpc: '2.0', id, method: 'tools/call', params })
  return { call, client, done: Promise.all([racing, cancelling]) }
}

/** A client that listens now and then, sometimes on two streams at once. */
async function listen({ random, fetches, headers, sessions }: World): Promise<void> {
  for (let n = 0; n < 3; n++) {
    await turns(random, 6)
    const response = await oneOf(random, fetches)(get(headers))
    void oneOf(random, sessions.processes).changes.publish({ type: 'tools' })
    await turns(random, 6)
    if (random() < 0.8) await response.body?.cancel()
  }
}

async function end({ random, fetches, headers }: World): Promise<void> {
  await turns(random, 15)
  const init = { method: 'DELETE', headers: { host: 'localhost', ...headers } }
  await (await oneOf(random, fetches)(new Request(URL_OF_TESTS, init))).text()
}

/** @returns whether the work ends. The clock moves only when nothing else happens */
async function inTime({ sessions }: World, work: Promise<unknown>): Promise<boolean> {
  const done = work.then(() => true as const)
  for (let n = 0; n < 80; n++) {
    for (let turn = 0; turn < 20; turn++) {
      if (await Promise.race([done, settled()])) return true
    }
    if (n > 20) await sessions.clock.advance(2500)
  }
  return false
}

/** @param isFailing a client that comes back may get an error for an answer that it has already */
function checkAnswers(
  { sessions }: World,
  { call: { id, text, isCancelled }, client }: Race,
  { isEnded, isFailing }: { readonly isEnded: boolean; readonly isFailing: boolean },
): void {
  const runs = sessions.runs.filter((each) => each === text).length
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

/** Runs the races of one session. */
async function run(seed: number): Promise<void> {
  const random = seededRandom(seed)
  const world = await worldOf(random)
  const { sessions, store } = world
  store.slowness = oneOf(random, [0, 0, 1, 3])
  store.failing = random() < 0.15 ? 0.15 : 0
  const ending = { isEnded: random() < 0.2, isFailing: store.failing > 0 }
  const races: Race[] = []
  const listening = random() < 0.3 ? listen(world) : undefined
  for (let id = 1; races.length < POSTS; id++) {
    races.push(begin(world, id))
    await turns(random, 3)
  }
  const work = Promise.all([listening, ...races.map(({ done }) => done)])
  try {
    expect(await inTime(world, ending.isEnded ? Promise.all([work, end(world)]) : work)).toBe(true)
    for (const race of races) checkAnswers(world, race, ending)
  } catch (error) {
    const seen = races.map(({ call, client }) => ({ call, seen: client.seen }))
    throw new Error(JSON.stringify(seen), { cause: error })
  }
  store.slowness = 0
  for (const { client } of races) client.close()
  await sessions.clock.advance(30_000)
  await turnsPass(20)
  const isLeft = races.some(({ client }) => client.seen.some((each) => each.startsWith('leaves')))
  // Logs that were not read to their end are kept until the store drops them.
  const logs = isLeft ? Infinity : ending.isEnded ? 0 : KEPT_LOGS
  expect(store.streams.size).toBeLessThanOrEqual(logs)
  expect(await inTime(world, Promise.resolve(sessions[Symbol.asyncDispose]()))).toBe(true)
  expect(sessions.clock.pending).toBe(0)
  expect(sessions.warnings.filter((warning) => !TOLERATED.test(warning))).toEqual([])
}

test('runs and answers racing calls of a session once each, and leaves nothing behind', async () => {
  const failures: string[] = []
  const sessions = queryObjects(LiveSession, { format: 'count' }) // the prototypes of subclasses
  for (const seed of seeds()) {
    try {
      await run(seed)
    } catch (error) {
      const cause = error instanceof Error && error.cause
      failures.push(`seed ${seed}: ${String(cause || error)} ${cause ? String(error) : ''}`)
    }
  }
  expect(failures).toEqual([])
  await settled()
  expect(queryObjects(CallStream, { format: 'count' })).toBe(0)
  expect(queryObjects(LiveSession, { format: 'count' })).toBe(sessions)
})

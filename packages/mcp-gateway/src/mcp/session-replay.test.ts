import { deferred } from '@x/mcp-testing'
import { describe, expect, test } from 'vitest'

import {
  eventsOf,
  get,
  inSession,
  openSession,
  post,
  URL_OF_TESTS,
  type ReadEvent,
} from '../../test/rpc-requests.ts'
import {
  sessionWorld,
  turnsPass,
  type Fetch,
  type SessionWorld,
  type SessionWorldOptions,
  type Tool,
} from '../../test/session-world.ts'
import { withLogs } from '../../test/two-replicas.ts'
import { GatewayError } from '../errors.ts'
import type { LoggedEvent } from '../store/gateway-store.ts'
import type { SessionStore } from './sessions.ts'

const call = (id: number, name: string): object => ({
  jsonrpc: '2.0',
  id,
  method: 'tools/call',
  params: { name, arguments: { message: name }, _meta: { progressToken: id } },
})

const cancel = (requestId: number): object => ({
  jsonrpc: '2.0',
  method: 'notifications/cancelled',
  params: { requestId },
})

const back = (id: string, lastEventId: string): Request =>
  get(inSession(id, { 'last-event-id': lastEventId }))

/** Reads until the first message of the call, and leaves. @returns the id of the last event */
async function leave(response: Response): Promise<string> {
  let last = ''
  for await (const { id, data } of eventsOf(response)) {
    last = id ?? last
    if (data.includes('begun')) break
  }
  return last
}

function dataOf(text: string): unknown[] {
  const lines = text.split('\n').filter((line) => line.startsWith('data: {'))
  return lines.map((line) => JSON.parse(line.slice(6)) as unknown)
}

interface Slow {
  readonly w: SessionWorld
  readonly session: string
  readonly finish: () => void
  readonly say: (text: string) => Promise<void>
  readonly signals: AbortSignal[]
}

/** A world with a tool that sends messages and ends when the test says so. */
async function slowWorld(options: SessionWorldOptions = {}): Promise<Slow & AsyncDisposable> {
  const finish = deferred<string>()
  const signals: AbortSignal[] = []
  const said: ((text: string) => Promise<void>)[] = []
  const slow: Tool = async (context) => {
    signals.push(context.signal)
    let progress = 0
    const say = async (message: string): Promise<void> => {
      await context.progress?.({ progress: ++progress, message })
    }
    said.push(say)
    await say('begun')
    return Promise.race([
      finish.promise,
      new Promise<never>((_, reject) => {
        context.signal.addEventListener('abort', () => reject(context.signal.reason))
      }),
    ])
  }
  const world = sessionWorld({ ...options, tools: { slow, quick: () => 'done', ...options.tools } })
  return {
    w: world,
    session: await openSession(world.a),
    finish: () => finish.resolve('finished'),
    say: async (text) => {
      for (const say of said) await say(text)
    },
    signals,
    [Symbol.asyncDispose]: () => world[Symbol.asyncDispose](),
  }
}

/** A world with such a call, whose client has left its stream. */
async function leftCall(options: SessionWorldOptions = {}) {
  const slow = await slowWorld(options)
  const { w, session } = slow
  const last = await leave(await w.a(post(call(1, 'slow'), inSession(session))))
  return { ...slow, last }
}

const PROCESSES: readonly (readonly [string, (w: SessionWorld) => Fetch])[] = [
  ['the process of the call', (w) => w.a],
  ['another process', (w) => w.b],
]

describe.each(PROCESSES)('a client that comes back to %s', (_, at) => {
  test('reads what it missed and what comes later, once each, and keeps its call', async () => {
    await using s = await leftCall()
    const { w, session, last } = s
    await s.say('one')
    await w.clock.advance(9000)
    const again = await at(w)(back(session, last))
    expect(again.status).toBe(200)
    const text = again.text()
    await s.say('two')
    await w.clock.advance(60_000)
    expect(s.signals[0]?.aborted).toBe(false)
    s.finish()
    expect(dataOf(await text)).toMatchObject([
      { params: { message: 'one' } },
      { params: { message: 'two' } },
      { id: 1, result: { content: [{ text: 'finished' }] } },
    ])
    expect(w.runs).toEqual(['slow'])
    expect(w.warnings).toEqual([])
  })

  test('reads an answer that came while it was away', async () => {
    await using s = await slowWorld()
    const { w, session } = s
    const { value } = await eventsOf(await w.a(post(call(1, 'slow'), inSession(session)))).next()
    s.finish()
    await w.clock.advance(60_000)
    const text = await (await at(w)(back(session, (value as ReadEvent).id ?? ''))).text()
    expect(dataOf(text)).toMatchObject([{ params: { message: 'begun' } }, { id: 1, result: {} }])
    expect(text).not.toContain('data: {}')
  })

  test('finds its silent call again after longer than a log is kept', async () => {
    await using s = await leftCall({ settings: { events: { maxEvents: 1000, ttlMs: 30_000 } } })
    const { w, session, last } = s
    await w.clock.advance(100_000)
    await (await at(w)(back(session, last))).body?.cancel()
    await w.clock.advance(100_000)
    expect(s.signals[0]?.aborted).toBe(false)
    const text = (await at(w)(back(session, last))).text()
    s.finish()
    expect(dataOf(await text)).toMatchObject([{ id: 1, result: {} }])
    expect(await text).not.toContain('data: {}')
  })

  test('cancels it at the other process', async () => {
    await using s = await leftCall()
    const { w, session, last } = s
    const text = (await at(w)(back(session, last))).text()
    await w.b(post(cancel(1), inSession(session)))
    expect(dataOf(await text)).toEqual([])
    expect(s.signals[0]?.aborted).toBe(true)
    expect((await at(w)(back(session, last))).status).toBe(405)
  })

  test('gets 405 if it has the whole stream', async () => {
    await using s = await slowWorld()
    const { w, session } = s
    const events: ReadEvent[] = []
    const response = await w.a(post(call(1, 'slow'), inSession(session)))
    s.finish()
    for await (const event of eventsOf(response)) events.push(event)
    const again = await at(w)(back(session, events.at(-1)?.id ?? ''))
    expect(again.status).toBe(405)
    expect(again.headers.get('allow')).toBe('POST, DELETE')
  })

  test('gets 400 if events were dropped', async () => {
    await using s = await leftCall()
    const { w, session, last } = s
    const { log = '' } = (await w.store.logs.find(last)) ?? {}
    await w.store.logs.delete(log)
    expect((await at(w)(back(session, last))).status).toBe(400)
    s.finish()
  })

  test('can come back after an event that its connected client got after that', async () => {
    await using s = await slowWorld()
    const { w, session } = s
    const events = eventsOf(await w.a(post(call(1, 'slow'), inSession(session))))
    const { value } = await events.next()
    const { log = '' } = (await w.store.logs.find((value as ReadEvent).id ?? '')) ?? {}
    await w.store.logs.delete(log)
    await s.say('more')
    let last = ''
    for await (const { id, data } of events) {
      last = id ?? last
      if (data.includes('more')) break
    }
    s.finish()
    expect(dataOf(await (await at(w)(back(session, last))).text())).toMatchObject([{ id: 1 }])
  })

  test('gets the answer of a call that sent more progress than a log holds, and sees that it goes on', async () => {
    await using s = await leftCall({ settings: { events: { maxEvents: 100, ttlMs: 300_000 } } })
    const { w, session, last } = s
    for (let n = 0; n < 200; n++) await s.say(`early ${n}`)
    const text = (await at(w)(back(session, last))).text()
    for (let n = 0; n < 200; n++) {
      await w.clock.advance(15_000)
      await s.say(`late ${n}`)
    }
    const again = (await at(w)(back(session, last))).text()
    s.finish()
    const read = dataOf(await again)
    expect([dataOf(await text).length, read.length]).toEqual([69, 70])
    expect(read.at(0)).toMatchObject({ params: { message: 'early 0' } })
    expect(read.at(-2)).toMatchObject({ params: { message: 'late 19' } })
    expect(read.at(-1)).toMatchObject({ id: 1, result: { content: [{ text: 'finished' }] } })
  })

  test('is not given events of another session, or of another principal', async () => {
    await using s = await leftCall()
    const { w, session, last } = s
    const other = await openSession(w.a)
    expect((await at(w)(back(other, last))).status).toBe(400)
    const headers = { 'last-event-id': last, authorization: 'bob' }
    expect((await at(w)(get(inSession(session, headers)))).status).toBe(404)
    expect(s.signals[0]?.aborted).toBe(false)
    s.finish()
  })

  test('is served twice with one Last-Event-ID: the first stream ends, and the second one has everything', async () => {
    await using s = await leftCall()
    const { w, session, last } = s
    const [one, two] = await Promise.all([at(w)(back(session, last)), at(w)(back(session, last))])
    const texts = Promise.all([one.text(), two.text()])
    await turnsPass()
    s.finish()
    const answers = (await texts).map((text) => dataOf(text))
    expect(answers.filter((each) => each.length > 0)).toHaveLength(1)
    expect(answers.flat()).toMatchObject([{ id: 1, result: {} }])
    await w.clock.advance(60_000)
    expect(s.signals[0]?.aborted).toBe(false)
  })

  test('is served after an attempt at which the store was away', async () => {
    let isAway = false
    const wrap = (store: SessionStore): SessionStore =>
      withLogs(store, {
        read: async (...place) => {
          if (isAway) throw new GatewayError('UNAVAILABLE', 'The store is away')
          return store.logs.read(...place)
        },
      })
    await using s = await leftCall({ wrap })
    const { w, session, last } = s
    isAway = true
    expect((await at(w)(back(session, last))).status).toBe(503)
    isAway = false
    const text = (await at(w)(back(session, last))).text()
    s.finish()
    expect(dataOf(await text)).toMatchObject([{ id: 1, result: {} }])
  })

  test('reads an answer once that was stored twice, because the store did not say that it has it', async () => {
    let failures = 0
    const wrap = (store: SessionStore): SessionStore =>
      withLogs(store, {
        append: async (log, event, options) => {
          const id = await store.logs.append(log, event, options)
          if (options.isLast && failures++ === 0) {
            throw new GatewayError('UNAVAILABLE', 'No reply in time')
          }
          return id
        },
      })
    await using s = await leftCall({ wrap })
    const { w, session, last } = s
    s.finish()
    await w.clock.advance(1000)
    expect(failures).toBe(2)
    expect(dataOf(await (await at(w)(back(session, last))).text())).toHaveLength(1)
  })

  test('sees its stream end with the session', async () => {
    await using s = await leftCall()
    const { w, session, last } = s
    const text = (await at(w)(back(session, last))).text()
    await w.a(new Request(URL_OF_TESTS, { method: 'DELETE', headers: inSession(session) }))
    expect(dataOf(await text)).toEqual([])
    expect(s.signals[0]?.aborted).toBe(true)
    await w.clock.advance(60_000)
    expect((await at(w)(back(session, last))).status).toBe(404)
  })

  test('finds the answers of the last eight streams that were read to their end', async () => {
    const tools = { later: async () => (await turnsPass(2), 'done') }
    await using s = await slowWorld({ tools })
    const { w, session } = s
    const ids: string[] = []
    for (let id = 1; id <= 10; id++) {
      const { value } = await (async () => {
        const events = eventsOf(await w.a(post(call(id, 'later'), inSession(session))))
        const begin = await events.next()
        while (!(await events.next()).done);
        return begin
      })()
      ids.push((value as ReadEvent).id ?? '')
    }
    const statuses = []
    for (const id of ids) statuses.push((await at(w)(back(session, id))).status)
    expect(statuses).toEqual([400, 400, 200, 200, 200, 200, 200, 200, 200, 200])
  })
})

describe('several processes', () => {
  test('give a client that moves between them everything once', async () => {
    await using s = await leftCall()
    const { w, session, last } = s
    for (const fetch of [w.b, w.a]) await (await fetch(back(session, last))).body?.cancel()
    const again = (await w.b(back(session, last))).text()
    s.finish()
    expect(dataOf(await again)).toMatchObject([{ id: 1, result: {} }])
  })

  test('end the stream of a client that came back before its loss was noticed', async () => {
    await using s = await slowWorld()
    const { w, session } = s
    const events = eventsOf(await w.a(post(call(1, 'slow'), inSession(session))))
    let last = ''
    for (;;) {
      const { value } = await events.next()
      last = (value as ReadEvent).id ?? last
      if ((value as ReadEvent).data.includes('begun')) break
    }
    const again = (await w.a(back(session, last))).text()
    expect((await events.next()).done).toBe(true)
    s.finish()
    expect(dataOf(await again)).toMatchObject([{ id: 1, result: {} }])
  })

  test('tell a client within 5 seconds that the process of its call has died', async () => {
    await using s = await leftCall()
    const { w, session, last } = s
    const text = (await w.b(back(session, last))).text()
    await w.clock.advance(10_000)
    await w.processes[0].kill()
    await w.clock.advance(5000)
    expect(dataOf(await text)).toMatchObject([
      { id: 1, error: { code: -32_000, data: { reason: 'outcome_unknown' } } },
    ])
    const later = await w.b(back(session, last))
    expect(await later.text()).toContain('It is not known how far the call came')
    expect(w.runs).toEqual(['slow'])
  })

  test('give a client the answer that a process stored before it died', async () => {
    await using s = await leftCall()
    const { w, session, last } = s
    s.finish()
    await turnsPass()
    await w.processes[0].kill()
    const text = await (await w.b(back(session, last))).text()
    expect(dataOf(text)).toMatchObject([{ id: 1, result: {} }])
  })

  test('give a reader the answer of a process that died before the tail of the log brought it', async () => {
    const wrap = (store: SessionStore): SessionStore =>
      withLogs(store, {
        tail: (log, after, listener) => {
          const onEvent = (event: LoggedEvent): void => {
            if (!JSON.stringify(event).includes('finished')) listener.onEvent(event)
          }
          return store.logs.tail(log, after, { ...listener, onEvent })
        },
      })
    await using s = await leftCall({ wrap })
    const { w, session, last } = s
    const text = (await w.b(back(session, last))).text()
    await turnsPass()
    s.finish()
    await turnsPass()
    await w.processes[0].kill()
    await w.clock.advance(5000)
    expect(dataOf(await text)).toMatchObject([{ id: 1, result: {} }])
  })

  test('keep sessions and finished calls of a process that stops', async () => {
    await using s = await leftCall()
    const { w, session, last } = s
    s.finish()
    await turnsPass()
    await w.processes[0].http.close()
    expect(dataOf(await (await w.b(back(session, last))).text())).toMatchObject([{ id: 1 }])
  })

  test('tell a client that the process of its call has stopped', async () => {
    await using s = await leftCall()
    const { w, session, last } = s
    await w.processes[0].http.close()
    await w.processes[0].kill()
    const text = await (await w.b(back(session, last))).text()
    expect(dataOf(text)).toMatchObject([{ id: 1, error: { data: { reason: 'outcome_unknown' } } }])
  })

  test('leave nothing behind', async () => {
    const logs = new Set<string>()
    const wrap = (store: SessionStore): SessionStore =>
      withLogs(store, {
        open: (log, ...rest) => (logs.add(log), store.logs.open(log, ...rest)),
        delete: (log) => (logs.delete(log), store.logs.delete(log)),
      })
    const s = await leftCall({ wrap })
    const { w, session, last } = s
    await (await w.b(back(session, last))).body?.cancel()
    const listening = await w.b(get(inSession(session)))
    await w.a(new Request(URL_OF_TESTS, { method: 'DELETE', headers: inSession(session) }))
    await listening.text()
    expect(logs.size).toBe(0)
    await s[Symbol.asyncDispose]()
    expect(w.clock.pending).toBe(0)
  })
})

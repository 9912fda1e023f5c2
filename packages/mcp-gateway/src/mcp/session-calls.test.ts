import { deferred } from '@x/mcp-testing'
import { afterEach, describe, expect, test } from 'vitest'

import {
  eventsOf,
  get,
  initialize,
  inSession,
  openSession,
  post,
  type ReadEvent,
} from '../../test/rpc-requests.ts'
import { sessionWorld, turnsPass, type Fetch, type Tool } from '../../test/session-world.ts'
import { withLogs } from '../../test/two-replicas.ts'
import { GatewayError } from '../errors.ts'
import type { RequestContext } from './request-context.ts'
import type { SessionStore } from './sessions.ts'

const call = (id: number, name: string, meta?: object): object => ({
  jsonrpc: '2.0',
  id,
  method: 'tools/call',
  params: { name, arguments: { message: name }, ...(meta && { _meta: meta }) },
})

const cancel = (requestId: number): object => ({
  jsonrpc: '2.0',
  method: 'notifications/cancelled',
  params: { requestId },
})

/** A tool that runs until it is cancelled. @returns the signals of its calls */
function endless(): { readonly tool: Tool; readonly signals: AbortSignal[] } {
  const signals: AbortSignal[] = []
  const tool: Tool = ({ signal }) => {
    signals.push(signal)
    return new Promise((_, reject) => {
      signal.addEventListener('abort', () => reject(signal.reason))
    })
  }
  return { tool, signals }
}

async function first(response: Response): Promise<{
  readonly event: ReadEvent | undefined
  readonly events: AsyncGenerator<ReadEvent>
}> {
  const events = eventsOf(response)
  const { value } = await events.next()
  return { event: value as ReadEvent | undefined, events }
}

async function rest(events: AsyncGenerator<ReadEvent>): Promise<readonly ReadEvent[]> {
  const all: ReadEvent[] = []
  for await (const event of events) all.push(event)
  return all
}

const messagesOf = (events: readonly ReadEvent[]): unknown[] =>
  events.filter(({ data }) => data !== '').map(({ data }) => JSON.parse(data) as unknown)

/** Returns a store whose logs call a function before they append an event. */
function withAppend(before: (event: unknown) => Promise<unknown> | undefined) {
  return (store: SessionStore): SessionStore => {
    const { logs } = store
    return withLogs(store, {
      open: async (log, header, limits) => {
        await before(header)
        return logs.open(log, header, limits)
      },
      append: async (log, event, options) => {
        await before(event)
        return logs.append(log, event, options)
      },
    })
  }
}

describe('an answer', () => {
  test('is JSON if it comes in the turn of the request', async () => {
    await using w = sessionWorld({ tools: { quick: () => 'done' } })
    const response = await w.a(post(call(1, 'quick'), inSession(await openSession(w.a))))
    expect(response.headers.get('content-type')).toBe('application/json')
    expect(await response.json()).toEqual({
      jsonrpc: '2.0',
      id: 1,
      result: { content: [{ type: 'text', text: 'done' }] },
    })
  })

  test('comes on a stream that can be resumed if it takes longer, and the call runs once', async () => {
    const finish = deferred<string>()
    await using w = sessionWorld({ tools: { slow: () => finish.promise } })
    const headers = inSession(await openSession(w.a))
    const response = await w.a(post(call(1, 'slow'), headers))
    expect(Object.fromEntries(response.headers)).toMatchObject({
      'content-type': 'text/event-stream',
      'mcp-session-id': headers['mcp-session-id'],
    })
    const { event, events } = await first(response)
    expect(event).toMatchObject({ id: expect.stringMatching(/^[0-9a-f]{32}\./), data: '' })
    finish.resolve('late')
    expect(messagesOf(await rest(events))).toMatchObject([
      { id: 1, result: { content: [{ text: 'late' }] } },
    ])
    expect(w.runs).toEqual(['slow'])
  })

  test('says how soon a client may reconnect, but not to clients of revisions that would read it as a message', async () => {
    const finish = deferred<string>()
    await using w = sessionWorld({
      tools: { slow: () => finish.promise },
      settings: { retryMs: 700 },
    })
    const id = await openSession(w.a)
    const texts = [inSession(id), inSession(id, { 'mcp-protocol-version': '2025-03-26' })].map(
      async (headers, at) => (await w.a(post(call(at, 'slow'), headers))).text(),
    )
    await turnsPass()
    finish.resolve('late')
    expect((await texts[0])?.split('\n').slice(1, 3)).toEqual(['retry: 700', 'data: '])
    expect((await texts[1])?.startsWith('event: message\nid: ')).toBe(true)
  })

  test('comes on a stream after other messages, in order', async () => {
    const tools: Record<string, Tool> = {
      talking: (context) => {
        void context.progress?.({ progress: 1, message: 'one' })
        void context.log('info', 'two')
        return 'done'
      },
    }
    await using w = sessionWorld({ tools })
    const headers = inSession(await openSession(w.a))
    const response = await w.a(post(call(1, 'talking', { progressToken: 'p' }), headers))
    expect(messagesOf(await rest(eventsOf(response)))).toMatchObject([
      {
        method: 'notifications/progress',
        params: { progressToken: 'p', progress: 1, message: 'one' },
      },
      { method: 'notifications/message', params: { level: 'info', data: 'two' } },
      { id: 1, result: {} },
    ])
  })

  test('of resources/read is JSON however long it takes', async () => {
    const finish = deferred<string>()
    await using w = sessionWorld({ tools: { file: () => finish.promise } })
    const headers = inSession(await openSession(w.a))
    const params = { name: 'file', uri: 'file:///a' }
    const reading = w.a(post({ jsonrpc: '2.0', id: 1, method: 'resources/read', params }, headers))
    await turnsPass()
    finish.resolve('content')
    expect((await reading).headers.get('content-type')).toBe('application/json')
  })

  test('that JSON cannot express is an error, at once and on a stream', async () => {
    const many = { toJSON: () => 1n } as unknown as string
    const tools: Record<string, Tool> = {
      now: () => many,
      later: async () => (await turnsPass(3), many),
    }
    await using w = sessionWorld({ tools })
    const headers = inSession(await openSession(w.a))
    const now = await w.a(post(call(1, 'now'), headers))
    expect(await now.json()).toMatchObject({ id: 1, error: { code: -32_603 } })
    const later = await w.a(post(call(2, 'later'), headers))
    expect(messagesOf(await rest(eventsOf(later)))).toMatchObject([
      { id: 2, error: { code: -32_603 } },
    ])
  })

  test('of a handler that throws shows no detail, and is reported', async () => {
    const tools: Record<string, Tool> = {
      broken: () => {
        throw new Error('password=1234')
      },
    }
    await using w = sessionWorld({ tools })
    const headers = inSession(await openSession(w.a))
    const text = await (await w.a(post(call(1, 'broken'), headers))).text()
    expect(JSON.parse(text)).toMatchObject({ error: { code: -32_603, message: 'Internal error' } })
    expect(w.warnings).toEqual(['A request "tools/call" could not be served'])
    const unknown = await w.a(post({ jsonrpc: '2.0', id: 2, method: 'no/such' }, headers))
    expect(unknown.status).toBe(200)
    expect(await unknown.json()).toMatchObject({ id: 2, error: { code: -32_601 } })
    const ping = await w.a(post({ jsonrpc: '2.0', id: 3, method: 'ping' }, headers))
    expect(await ping.json()).toEqual({ jsonrpc: '2.0', id: 3, result: {} })
  })

  test('frees its id, as a cancellation does', async () => {
    const { tool } = endless()
    await using w = sessionWorld({ tools: { quick: () => 'done', endless: tool } })
    const headers = inSession(await openSession(w.a))
    for (let n = 0; n < 2; n++)
      expect((await w.a(post(call(1, 'quick'), headers))).status).toBe(200)
    const running = await w.a(post(call(1, 'endless'), headers))
    expect((await w.a(post(call(1, 'quick'), headers))).status).toBe(400)
    await w.a(post(cancel(1), headers))
    await running.text()
    expect((await w.a(post(call(1, 'quick'), headers))).status).toBe(200)
    expect(w.runs).toEqual(['quick', 'quick', 'endless', 'quick'])
  })
})

describe('progress and logs', () => {
  test('are sent to clients that asked for progress, and by the level of the session', async () => {
    const tools: Record<string, Tool> = {
      talking: (context) => {
        expect(context.progress).toBeUndefined()
        return 'done'
      },
    }
    const logging: Tool = async (context) => {
      await context.log('info', 'quiet')
      await context.log('error', 'loud')
      return 'done'
    }
    await using w = sessionWorld({ tools: { ...tools, logging } })
    const headers = inSession(await openSession(w.a))
    expect(await (await w.a(post(call(1, 'talking'), headers))).text()).toContain('done')
    const params = { level: 'warning' }
    await w.a(post({ jsonrpc: '2.0', id: 2, method: 'logging/setLevel', params }, headers))
    const text = await (await w.b(post(call(3, 'logging'), headers))).text()
    expect(text).toContain('loud')
    expect(text).not.toContain('quiet')
  })
})

describe('a cancelled request', () => {
  test.each([
    ['with events', 'a', {}],
    ['without events', 'a', { settings: { events: undefined } }],
    ['by way of another process', 'b', {}],
  ] as const)(
    'aborts its handler, and its stream ends without an answer: %s',
    async (_, at, options) => {
      const { tool, signals } = endless()
      await using w = sessionWorld({ tools: { endless: tool }, ...options })
      const headers = inSession(await openSession(w.a))
      const text = (await w.a(post(call(1, 'endless'), headers))).text()
      expect((await w[at](post(cancel(1), headers))).status).toBe(202)
      expect(await text).not.toContain('"id":1')
      expect(signals[0]?.aborted).toBe(true)
      expect(w.warnings).toEqual([])
    },
  )

  test('gets an empty stream, not an error, if nothing was sent', async () => {
    const { tool, signals } = endless()
    await using w = sessionWorld({ tools: { 'resources/read': tool } })
    const headers = inSession(await openSession(w.a))
    const answering = w.a(post({ jsonrpc: '2.0', id: 1, method: 'resources/read' }, headers))
    await turnsPass()
    await w.a(post(cancel(1), headers))
    const response = await answering
    expect([response.status, await response.text()]).toEqual([200, ''])
    expect(signals[0]?.aborted).toBe(true)
  })

  test('of another session is not touched', async () => {
    const { tool, signals } = endless()
    await using w = sessionWorld({ tools: { endless: tool } })
    const ours = inSession(await openSession(w.a))
    const theirs = inSession(await openSession(w.a))
    const response = await w.a(post(call(1, 'endless'), theirs))
    for (const fetch of [w.a, w.b]) await fetch(post(cancel(1), ours))
    expect(signals[0]?.aborted).toBe(false)
    await response.body?.cancel()
  })

  test('gets no answer that was made while it was cancelled, and an answer that is being stored arrives', async () => {
    const [stored, isStoring] = [deferred(), deferred()]
    const wrap = withAppend((event) => {
      if (!JSON.stringify(event).includes('finished')) return undefined
      isStoring.resolve()
      return stored.promise
    })
    const slow: Tool = async () => (await turnsPass(3), 'finished')
    await using w = sessionWorld({ tools: { slow }, wrap })
    const headers = inSession(await openSession(w.a))
    const response = await w.a(post(call(1, 'slow'), headers))
    await isStoring.promise
    await w.a(post(cancel(1), headers))
    stored.resolve()
    expect(messagesOf(await rest(eventsOf(response)))).toMatchObject([{ id: 1, result: {} }])
  })
})

describe('a store that is away', () => {
  let isAway = false
  afterEach(() => void (isAway = false))
  const away = withAppend(() => {
    return isAway ? Promise.reject(new GatewayError('UNAVAILABLE', 'The store is away')) : undefined
  })

  test('does not stop a call: its client gets events without ids at once, and the answer once more if it lost it', async () => {
    const finish = deferred<string>()
    await using w = sessionWorld({
      tools: { slow: () => finish.promise },
      wrap: away,
      isShared: false,
    })
    const headers = inSession(await openSession(w.a))
    const { event, events } = await first(await w.a(post(call(1, 'slow'), headers)))
    isAway = true
    finish.resolve('finished')
    const [answer] = await rest(events)
    expect(answer).toMatchObject({ id: undefined, data: expect.stringContaining('finished') })
    expect(w.warnings).toHaveLength(1)
    isAway = false
    await w.clock.advance(1000)
    const again = await w.a(get({ ...headers, 'last-event-id': event?.id ?? '' }))
    expect(messagesOf(await rest(eventsOf(again)))).toMatchObject([{ id: 1, result: {} }])
  })

  test('for too long takes the answer of a client that is away, which is told so', async () => {
    const finish = deferred<string>()
    await using w = sessionWorld({ tools: { slow: () => finish.promise }, wrap: away })
    const headers = inSession(await openSession(w.a))
    const { event, events } = await first(await w.a(post(call(1, 'slow'), headers)))
    await events.return(undefined)
    const again = await w.b(get({ ...headers, 'last-event-id': event?.id ?? '' }))
    isAway = true
    finish.resolve('finished')
    await w.clock.advance(60_000)
    expect(messagesOf(await rest(eventsOf(again)))).toEqual([])
    isAway = false
    const third = await w.a(get({ ...headers, 'last-event-id': event?.id ?? '' }))
    expect(third.status).toBe(400)
  })

  test.each(['a', 'b'] as const)(
    'takes only progress from a client that came back to process %s',
    async (at) => {
      const [speak, finish] = [deferred(), deferred<string>()]
      const talking: Tool = async (context) => {
        await speak.promise
        await context.progress?.({ progress: 1, message: 'lost' })
        isAway = false
        await context.progress?.({ progress: 2, message: 'found' })
        isAway = true
        return finish.promise
      }
      await using w = sessionWorld({ tools: { talking }, wrap: away })
      const headers = inSession(await openSession(w.a))
      const talk = post(call(1, 'talking', { progressToken: 1 }), headers)
      const { event, events } = await first(await w.a(talk))
      await events.return(undefined)
      const again = await w[at](get({ ...headers, 'last-event-id': event?.id ?? '' }))
      isAway = true
      speak.resolve()
      await turnsPass()
      finish.resolve('finished')
      await w.clock.advance(10_000)
      isAway = false
      await w.clock.advance(1000)
      expect(messagesOf(await rest(eventsOf(again)))).toMatchObject([
        { params: { message: 'found' } },
        { id: 1, result: { content: [{ text: 'finished' }] } },
      ])
    },
  )

  test('cancels a call that began meanwhile when its client leaves: it cannot come back', async () => {
    const { tool, signals } = endless()
    await using w = sessionWorld({ tools: { endless: tool }, wrap: away })
    const headers = inSession(await openSession(w.a))
    isAway = true
    const response = await w.a(post(call(1, 'endless'), headers))
    await turnsPass()
    expect(signals[0]?.aborted).toBe(false)
    await response.body?.cancel()
    await turnsPass()
    expect(signals[0]?.aborted).toBe(true)
  })

  test('that is slow does not hold back the head of the response', async () => {
    const [finish, opened] = [deferred<string>(), deferred()]
    const wrap = withAppend(() => opened.promise)
    await using w = sessionWorld({ tools: { slow: () => finish.promise }, wrap, isShared: false })
    const headers = inSession(await openSession(w.a))
    const response = await w.a(post(call(1, 'slow'), headers))
    expect(response.status).toBe(200)
    finish.resolve('finished')
    opened.resolve()
    expect(await response.text()).toContain('finished')
  })

  test('that is slow keeps no log of a session that ended meanwhile', async () => {
    const opened = deferred()
    const deleted: string[] = []
    const wrap = (store: SessionStore): SessionStore => {
      const slow = withAppend(() => opened.promise)(store)
      return withLogs(slow, {
        delete: (log) => (deleted.push(log), store.logs.delete(log)),
      })
    }
    const { tool } = endless()
    await using w = sessionWorld({ tools: { endless: tool }, wrap, isShared: false })
    const headers = inSession(await openSession(w.a))
    const response = await w.a(post(call(1, 'endless'), headers))
    await w.a(new Request('http://localhost/mcp', { method: 'DELETE', headers }))
    expect(await response.text()).toBe('')
    deleted.splice(0)
    opened.resolve()
    await turnsPass()
    expect(deleted).toHaveLength(1)
  })
})

describe('a question', () => {
  const elicit = {
    method: 'elicitation/create',
    params: { message: 'Sure?', mode: 'form', requestedSchema: { type: 'object', properties: {} } },
  } as const
  const asking = async (context: RequestContext): Promise<string> =>
    JSON.stringify(await context.ask({ q: elicit }))

  /** @returns the id of the question, and the rest of the stream */
  async function asked(response: Response) {
    const events = eventsOf(response)
    for (;;) {
      const { value, done } = await events.next()
      if (done) throw new Error('The stream ended without a question')
      if (value.data === '') continue
      const message = JSON.parse(value.data) as { id: string; method: string; params: object }
      return { message, id: message.id, events, lastEventId: value.id ?? '' }
    }
  }

  const accepted = (id: string): object => ({
    jsonrpc: '2.0',
    id,
    result: { action: 'accept', content: { a: 'b' } },
  })

  test.each([
    ['the same process', (w: { a: Fetch; b: Fetch }) => w.a],
    ['another process', (w: { a: Fetch; b: Fetch }) => w.b],
  ])('is answered at %s', async (_, at) => {
    await using w = sessionWorld({ tools: { asking } })
    const headers = inSession(await openSession(w.a))
    const { message, id, events } = await asked(await w.a(post(call(1, 'asking'), headers)))
    expect(message).toMatchObject({
      ...elicit,
      params: { ...elicit.params, _meta: { progressToken: id } },
    })
    expect(id.split('.')[0]).toBe(w.processes[0].lease.id)
    expect((await at(w)(post(accepted(id), headers))).status).toBe(202)
    const [answer] = messagesOf(await rest(events))
    expect(JSON.stringify(answer)).toContain(String.raw`{\"q\":{\"action\":\"accept\"`)
    expect(w.warnings).toEqual([])
  })

  test('cannot be answered by the client of another session, at any process', async () => {
    await using w = sessionWorld({ tools: { asking } })
    const ours = inSession(await openSession(w.a))
    const theirs = inSession(await openSession(w.a))
    const { id, events } = await asked(await w.a(post(call(1, 'asking'), theirs)))
    for (const fetch of [w.a, w.b]) await fetch(post(accepted(id), ours))
    await turnsPass()
    expect((await w.a(post(accepted(id), theirs))).status).toBe(202)
    expect(messagesOf(await rest(events))).toMatchObject([{ id: 1, result: {} }])
  })

  test('waits for a store that is away, and fails if its client is away as well', async () => {
    const ask = [deferred(), deferred()]
    let isAway = false
    const wrap = withAppend((event) => {
      const isLost = isAway && !JSON.stringify(event).includes('"result"')
      return isLost ? Promise.reject(new GatewayError('UNAVAILABLE', 'Away')) : undefined
    })
    const twice: Tool = async (context) => {
      await ask[0]?.promise
      const one = await asking(context)
      await ask[1]?.promise
      const two = await asking(context).catch((error: unknown) => String(error))
      return `${one} ${two}`
    }
    await using w = sessionWorld({ tools: { twice }, wrap })
    const headers = inSession(await openSession(w.a))
    const { event, events } = await first(await w.a(post(call(1, 'twice'), headers)))
    await events.return(undefined)
    isAway = true
    ask[0]?.resolve()
    await w.clock.advance(10_000)
    isAway = false
    await w.clock.advance(1000)
    const again = await w.a(get({ ...headers, 'last-event-id': event?.id ?? '' }))
    const { id, events: later, lastEventId } = await asked(again)
    await later.return(undefined)
    await w.a(post(accepted(id), headers))
    isAway = true
    ask[1]?.resolve()
    await w.clock.advance(120_000)
    const third = await w.a(get({ ...headers, 'last-event-id': lastEventId }))
    const text = JSON.stringify(messagesOf(await rest(eventsOf(third))))
    expect(text).toMatch(/accept.*UNAVAILABLE|accept.*Away/)
  })

  test('is answered once, however often the client answers', async () => {
    await using w = sessionWorld({ tools: { asking } })
    const headers = inSession(await openSession(w.a))
    const { id, events } = await asked(await w.a(post(call(1, 'asking'), headers)))
    const answers = await Promise.all(
      [w.a, w.b, w.a].map((fetch) => fetch(post(accepted(id), headers))),
    )
    expect(answers.map(({ status }) => status)).toEqual([202, 202, 202])
    expect(messagesOf(await rest(events))).toHaveLength(1)
    expect(w.warnings).toEqual([])
  })

  test('ends after its time, which progress of the client extends, and is withdrawn', async () => {
    await using w = sessionWorld({ tools: { asking }, questionTimeoutMs: 30_000 })
    const headers = inSession(await openSession(w.a))
    const { id, events } = await asked(await w.a(post(call(1, 'asking'), headers)))
    const params = { progressToken: id, progress: 1 }
    for (const fetch of [w.a, w.b]) {
      await w.clock.advance(20_000)
      await fetch(post({ jsonrpc: '2.0', method: 'notifications/progress', params }, headers))
    }
    await w.clock.advance(29_999)
    expect(w.warnings).toEqual([])
    await w.clock.advance(1)
    expect(messagesOf(await rest(events))).toMatchObject([
      { method: 'notifications/cancelled', params: { requestId: id } },
      { id: 1, error: { code: -32_603 } },
    ])
  })

  test('is withdrawn with its call', async () => {
    await using w = sessionWorld({ tools: { asking } })
    const headers = inSession(await openSession(w.a))
    const { id, events } = await asked(await w.a(post(call(1, 'asking'), headers)))
    await w.a(post(cancel(1), headers))
    expect(messagesOf(await rest(events))).toMatchObject([
      { method: 'notifications/cancelled', params: { requestId: id } },
    ])
    expect((await w.a(post(accepted(id), headers))).status).toBe(202)
  })

  test.each([
    ['refused by the client', { error: { code: -1, message: 'No' } }, 'No'],
    ['answered with nonsense', { result: { action: 'maybe' } }, 'malformed'],
  ])('fails if it is %s', async (_, answer, text) => {
    const catching: Tool = async (context) => {
      try {
        return await asking(context)
      } catch (error) {
        return String(error)
      }
    }
    await using w = sessionWorld({ tools: { asking: catching } })
    const headers = inSession(await openSession(w.a))
    const { id, events } = await asked(await w.a(post(call(1, 'asking'), headers)))
    await w.a(post({ jsonrpc: '2.0', id, ...answer }, headers))
    expect(JSON.stringify(messagesOf(await rest(events)))).toContain(text)
  })

  test('of a process that was killed is refused, with the advice to call again', async () => {
    await using w = sessionWorld({ tools: { asking } })
    const headers = inSession(await openSession(w.a))
    const { id, events } = await asked(await w.a(post(call(1, 'asking'), headers)))
    await w.processes[0].kill()
    const refused = await w.b(post(accepted(id), headers))
    expect(refused.status).toBe(400)
    expect(await refused.text()).toContain('call again')
    await events.return(undefined)
  })

  test('is one of several, which are answered in any order', async () => {
    const both: Tool = async (context) =>
      Object.keys((await context.ask({ x: elicit, y: elicit })) ?? {}).join()
    await using w = sessionWorld({ tools: { both } })
    const headers = inSession(await openSession(w.a))
    const one = await asked(await w.a(post(call(1, 'both'), headers)))
    const { value } = await one.events.next()
    const other = JSON.parse((value as ReadEvent).data) as { id: string }
    for (const id of [other.id, one.id]) await w.b(post(accepted(id), headers))
    expect(JSON.stringify(messagesOf(await rest(one.events)))).toContain('x,y')
  })
})

test('serves a client that sends its first request before notifications/initialized', async () => {
  await using w = sessionWorld({ tools: { quick: () => 'done' } })
  const id = (await w.a(initialize())).headers.get('mcp-session-id') ?? ''
  expect((await w.b(post(call(1, 'quick'), inSession(id)))).status).toBe(200)
})

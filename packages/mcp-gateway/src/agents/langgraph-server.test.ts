import type { IncomingMessage, ServerResponse } from 'node:http'
import { deferred, startTestServer } from '@x/mcp-testing'
import { describe, expect, test } from 'vitest'
import { ManualClock, settled } from '../../test/manual-clock.ts'
import { support } from '../../test/remote-langgraph.ts'
import { agentCallOf, principalNamed } from '../../test/scripted-source.ts'
import type { Agent, AgentCall, AgentUpdate } from './agent.ts'
import { langGraphServerSource } from './langgraph-server.ts'
import type { LangGraphServerSourceOptions } from './langgraph-server.ts'

interface Received {
  readonly line: string
  readonly headers: IncomingMessage['headers']
  readonly body: unknown
}

type Answer = (request: Received, response: ServerResponse) => void

function json(value: unknown): Answer {
  return (_, response) => {
    response.setHeader('content-type', 'application/json')
    response.end(JSON.stringify(value))
  }
}

function events(...list: readonly (readonly [event: string, data: unknown])[]): Answer {
  return (_, response) => {
    response.setHeader('content-type', 'text/event-stream')
    response.setHeader('content-location', '/threads/t1/runs/r1')
    for (const [event, data] of list) {
      response.write(`event: ${event}\ndata: ${JSON.stringify(data)}\n\n`)
    }
    response.end()
  }
}

/** Speaks as much of a LangGraph server's HTTP as a source needs. */
async function startLangGraphServer(answers: Readonly<Record<string, Answer>> = {}) {
  const received: Received[] = []
  const routes: Record<string, Answer> = {
    'POST /assistants/search': json([support]),
    'GET /assistants/a1/schemas': json({ input_schema: { properties: { messages: {} } } }),
    'POST /threads': json({ thread_id: 't1' }),
    'DELETE /threads/t1': (_, response) => void response.writeHead(204).end(),
    'POST /threads/t1/runs/r1/cancel': (_, response) => void response.writeHead(204).end(),
    ...answers,
  }
  const handle = async (request: IncomingMessage, response: ServerResponse): Promise<void> => {
    const chunks: Buffer[] = []
    for await (const chunk of request) chunks.push(chunk as Buffer)
    const text = Buffer.concat(chunks).toString()
    const line = `${request.method} ${request.url?.split('?')[0]}`
    const one = { line, headers: request.headers, body: text === '' ? undefined : JSON.parse(text) }
    received.push(one)
    const answer = routes[line]
    if (answer === undefined) response.writeHead(404).end()
    else answer(one, response)
  }
  const server = await startTestServer((request, response) => void handle(request, response), '')
  return {
    url: server.url,
    received,
    routes,
    lines: () => received.map(({ line }) => line),
    [Symbol.asyncDispose]: () => server[Symbol.asyncDispose](),
  }
}

async function started(url: string, options: Omit<LangGraphServerSourceOptions, 'url'> = {}) {
  const told: string[] = []
  const agents: Agent[] = []
  const warnings: string[] = []
  const source = langGraphServerSource({ url, ...options })
  await source.start({
    found: (agent) => {
      agents.push(agent)
      told.push(`found ${agent.name}`)
    },
    seen: () => told.push('seen'),
    gone: () => told.push('gone'),
    unreachable: () => told.push('unreachable'),
    warned: (message) => warnings.push(message),
  })
  const [agent] = agents
  const end = (): Promise<void> => source.close()
  return { source, agents, told, warnings, agentId: agent?.id ?? '', [Symbol.asyncDispose]: end }
}

function callOf(agentId: string, over: Partial<AgentCall> = {}): AgentCall {
  const principal = { ...principalNamed('ada'), claims: { token: 'secret' } }
  return agentCallOf({ agentId, skillId: agentId, principal, ...over })
}

async function all(updates: AsyncIterable<AgentUpdate>): Promise<readonly AgentUpdate[]> {
  const list: AgentUpdate[] = []
  for await (const update of updates) list.push(update)
  return list
}

const STREAM = 'POST /threads/t1/runs/stream'
const STATE = 'GET /threads/t1/state'
const hello = {
  messages: [
    { type: 'human', content: 'Hi' },
    { type: 'ai', content: 'Hello' },
  ],
}

test('reports new, changed and removed assistants as agents', async () => {
  await using world = await startLangGraphServer()
  const clock = new ManualClock()
  const { source, agents, told } = await started(world.url, { clock })
  expect(agents).toMatchObject([{ name: 'support', description: 'Answers questions', skills: [] }])
  const next = async (): Promise<void> => {
    const asked = world.received.length
    await clock.advance(20_000)
    while (world.received.length === asked || clock.pending === 0) {
      await settled()
    }
  }
  await next()
  world.routes['POST /assistants/search'] = json([{ ...support, version: 2 }])
  await next()
  world.routes['POST /assistants/search'] = (_, response) => void response.writeHead(500).end()
  await next()
  world.routes['POST /assistants/search'] = json([])
  await next()
  expect(told).toEqual(['found support', 'seen', 'found support', 'unreachable', 'gone'])
  await source.close()
  expect(clock.pending).toBe(0)
})

test('gives assistants ids that can be part of a scope', async () => {
  await using world = await startLangGraphServer()
  await using at = await started(world.url)
  expect(at.agentId).toBe(`langgraph-server:${world.url.replace(/\/$/, '')}/a1`)
  expect(`agent:${at.agentId}:call`).toMatch(/^[\x21\x23-\x5B\x5D-\x7E]+$/) // RFC 6749, 3.3
})

test('offers an assistant with a message if its schema cannot be read, and reads it less and less', async () => {
  const other = { ...support, assistant_id: 'a2', name: 'other' }
  await using world = await startLangGraphServer({
    'POST /assistants/search': json([other, support]),
    'GET /assistants/a2/schemas': (_, response) => void response.writeHead(500).end(),
  })
  const clock = new ManualClock()
  await using at = await started(world.url, { clock })
  expect(at.agents.map(({ name }) => name).toSorted()).toEqual(['other', 'support'])
  expect(at.agents.map(({ skills }) => skills)).toEqual([[], []])
  expect(at.warnings).toEqual([expect.stringContaining('so its tool takes a message')])
  const SCHEMA = 'GET /assistants/a2/schemas'
  const reads = (): number => world.lines().filter((line) => line === SCHEMA).length
  const next = async (): Promise<number> => {
    const searches = (): number => world.lines().filter((line) => line === 'GET /info').length
    const known = searches()
    await clock.advance(20_000)
    while (searches() === known || clock.pending === 0) await settled()
    return reads()
  }
  const counts: number[] = []
  for (let search = 1; search <= 9; search += 1) counts.push(await next())
  // After 60, and 120 s more.
  expect(counts).toEqual([1, 1, 2, 2, 2, 2, 2, 2, 3])
  world.routes[SCHEMA] = json({ input_schema: { properties: { city: { type: 'string' } } } })
  for (let search = 1; search <= 12; search += 1) await next()
  expect(reads()).toBe(4)
  expect(at.agents.at(-1)).toMatchObject({
    name: 'other',
    skills: [{ inputSchema: { properties: { city: { type: 'string' } } } }],
  })
})

test('offers an assistant with a message if its schema is slow', async () => {
  const slow = { ...support, assistant_id: 'a2', name: 'slow' }
  await using world = await startLangGraphServer({
    'POST /assistants/search': json([slow, support]),
    'GET /assistants/a2/schemas': () => undefined, // never answers
  })
  await using at = await started(world.url, { timeoutMs: 1000 })
  expect(at.agents.map(({ name }) => name)).toContain('slow')
})

test.each([
  ['a server in Python', { version: '0.4.20' }, true],
  ['a server of langgraph-cli 1', { version: '1.5.1', context: 'js' }, true],
  ['a server of langgraph-cli 2', { version: '2.0.0', context: 'js' }, false],
  ['a server that does not say what it is', undefined, false],
])('asks %s for streams of subgraphs only if they work', async (_, info, expected) => {
  await using world = await startLangGraphServer({
    [STREAM]: events(['values', hello]),
    ...(info && { 'GET /info': json(info) }),
  })
  await using at = await started(world.url)
  await all(at.source.run(callOf(at.agentId)))
  const sent = world.received.find(({ line }) => line === STREAM)
  expect(sent?.body).toMatchObject({ stream_subgraphs: expected })
})

test('reads files that arrive as the JSON of bytes', async () => {
  const bytes = new Uint8Array([0, 137, 255])
  const forms = [Object.assign({}, bytes), Buffer.from(bytes).toJSON(), [...bytes]]
  const file = { mimeType: 'application/pdf' }
  const content = forms.map((data) => ({ type: 'file', ...file, data }))
  await using world = await startLangGraphServer({
    [STREAM]: events(
      ...forms.map((data) => ['custom', { type: 'artifact', name: 'a', ...file, data }] as const),
      ['custom', { type: 'artifact', name: 'no bytes', data: { 0: 1, 2: 3 } }],
      ['values', { messages: [{ type: 'ai', content }] }],
    ),
  })
  await using at = await started(world.url)
  const updates = await all(at.source.run(callOf(at.agentId)))
  const data = updates.flatMap((update) => (update.type === 'file' ? [update.file.data] : []))
  expect(data.map((each) => Buffer.from(each as Uint8Array))).toEqual(
    Array.from({ length: 6 }, () => Buffer.from(bytes)),
  )
})

test('streams the text of a run, ends with the answer, and deletes the thread', async () => {
  await using world = await startLangGraphServer({
    [STREAM]: events(
      ['metadata', { run_id: 'r1' }],
      ['messages', [{ type: 'AIMessageChunk', content: 'Hel' }, {}]],
      ['messages|sub:1', [{ type: 'AIMessageChunk', content: 'lo' }, {}]],
      ['updates', { answer: {} }],
      ['values|sub:1', { messages: [{ type: 'ai', content: 'of a part' }] }],
      ['values', hello],
    ),
  })
  await using at = await started(world.url)
  const updates = await all(
    at.source.run(callOf(at.agentId, { trace: { traceparent: '00-1-2-01' } })),
  )
  expect(updates).toEqual([
    { type: 'text', text: 'Hel' },
    { type: 'text', text: 'lo' },
    { type: 'status', text: 'Done: answer' },
    { type: 'done', text: 'Hello', structured: undefined },
  ])
  expect(world.lines().slice(3)).toEqual(['POST /threads', STREAM, 'DELETE /threads/t1'])
  const sent = world.received.find(({ line }) => line === STREAM)
  expect(sent?.body).toMatchObject({
    assistant_id: 'a1',
    input: { messages: [{ role: 'user', content: 'Hi' }] },
    on_disconnect: 'cancel',
    config: { configurable: { principal: { id: 'ada' } } },
  })
  expect(JSON.stringify(sent?.body)).not.toContain('secret')
  expect(sent?.headers['traceparent']).toBe('00-1-2-01')
})

test('calls the function for credentials before each request', async () => {
  await using world = await startLangGraphServer({ [STREAM]: events(['values', hello]) })
  let asked = 0
  const headers = async () => ({ authorization: `Bearer ${++asked}` })
  await using at = await started(world.url, { headers })
  await all(at.source.run(callOf(at.agentId)))
  expect(world.lines().at(-1)).toBe('DELETE /threads/t1')
  const used = world.received.map((each) => each.headers['authorization'])
  expect(new Set(used)).toEqual(new Set(used.map((_, index) => `Bearer ${index + 1}`)))
})

test('sends no request without credentials, and only warns if a clean-up fails', async () => {
  await using world = await startLangGraphServer()
  const headers = (): never => {
    throw new Error('no token')
  }
  await using at = await started(world.url, { headers })
  await at.source.forget?.('a1', { thread: 't1', interrupts: [] })
  await at.source.forgetThread?.('a1', 't1')
  expect(at.told).toEqual([])
  expect(world.lines()).toEqual([])
  expect(at.warnings).toEqual([
    expect.stringContaining('cannot be reached'),
    expect.stringContaining('could not delete a thread or cancel a run'),
    expect.stringContaining('could not delete a thread or cancel a run'),
  ])
})

test('keeps the thread of a run that asks, and continues it with the answer', async () => {
  const interrupts = [{ id: 'f3fc6cde1fe7734b6705036f31d3bd04', value: 'Which size?' }]
  await using world = await startLangGraphServer({
    [STREAM]: events(['values', { __interrupt__: interrupts }]),
  })
  await using at = await started(world.url)
  const [asked] = await all(at.source.run(callOf(at.agentId)))
  expect(asked).toMatchObject({ type: 'asked', questions: [{ message: 'Which size?' }] })
  expect(world.lines()).not.toContain('DELETE /threads/t1')
  if (asked?.type !== 'asked') return
  world.routes[STREAM] = events(['values', hello])
  world.routes[STATE] = json({ values: {}, next: ['ask'], tasks: [{ interrupts }] })
  const answers = { 0: { action: 'accept', content: { answer: 'L' } } } as const
  const end = await all(
    at.source.run(callOf(at.agentId, { resume: { state: asked.state, answers } })),
  )
  expect(end).toMatchObject([{ type: 'done', text: 'Hello' }])
  expect(world.received.findLast(({ line }) => line === STREAM)?.body).toMatchObject({
    command: { resume: { f3fc6cde1fe7734b6705036f31d3bd04: 'L' } },
  })
  expect(world.lines().at(-1)).toBe('DELETE /threads/t1')
  await at.source.forget?.(at.agentId, asked.state)
  expect(world.lines().at(-1)).toBe('DELETE /threads/t1')
})

test.each([
  ['a breakpoint of LangGraph for Python', { next: ['tools'], tasks: [] }, 'before "tools"'],
  ['a breakpoint of a thread that cannot be read', undefined, 'at a breakpoint'],
])('asks to continue at %s', async (_kind, state, place) => {
  await using world = await startLangGraphServer({
    [STREAM]: events(['values', hello], ['updates', { __interrupt__: [] }]),
    ...(state && { 'GET /threads/t1/state': json(state) }),
  })
  await using at = await started(world.url)
  const asked = (await all(at.source.run(callOf(at.agentId)))).at(-1)
  const message = `The agent stopped ${place}.\nContinue?`
  expect(asked).toMatchObject({ type: 'asked', questions: [{ message }] })
  if (asked?.type !== 'asked') return
  world.routes[STREAM] = events(['values', hello])
  world.routes[STATE] = json(state ?? { next: ['tools'], tasks: [] })
  const answers = { 0: { action: 'accept', content: { answer: true } } } as const
  await all(at.source.run(callOf(at.agentId, { resume: { state: asked.state, answers } })))
  const { body } = world.received.findLast(({ line }) => line === STREAM) ?? {}
  expect(body).toMatchObject({ input: null })
  expect(body).not.toHaveProperty('command')
})

describe('an answer', () => {
  const ID = 'f3fc6cde1fe7734b6705036f31d3bd04'
  const asked = [{ id: ID, value: 'Which size?' }]
  const answers = { 0: { action: 'accept', content: { answer: 'L' } } } as const
  const fails = (status: number, detail = ''): Answer => {
    return (_, response) => void response.writeHead(status).end(JSON.stringify({ detail }))
  }
  const BUSY = 'Thread is already running a task. Wait for it to finish or choose another strategy.'
  /** State of a thread that waits for the answer. */
  const waiting = { values: {}, next: ['ask'], tasks: [{ id: 'k', interrupts: asked }] }

  async function answered(
    routes: Readonly<Record<string, Answer>>,
    interrupts: readonly object[] = asked,
    over: Partial<AgentCall> = {},
  ) {
    await using world = await startLangGraphServer(routes)
    const clock = new ManualClock()
    await using at = await started(world.url, { clock })
    const resume = { state: { thread: 't1', interrupts }, answers }
    const ended = all(at.source.run(callOf(at.agentId, { resume, ...over }))).then(
      (updates) => ({ updates, error: undefined }),
      (error: unknown) => ({ updates: [], error }),
    )
    const passing = async (): Promise<undefined> => {
      await settled()
      if (clock.pending > 1) await clock.advance(8000) // the search for assistants, and a pause
      return undefined
    }
    let end = await Promise.race([ended, passing()])
    while (end === undefined) end = await Promise.race([ended, passing()])
    return { ...end, lines: world.lines(), received: world.received }
  }

  const refused = { name: 'RunFailure', reason: 'outcome_unknown' }

  test.each<[string, Readonly<Record<string, Answer>>]>([
    ['is gone', { [STATE]: fails(404, 'Thread not found') }],
    ['has no question', { [STATE]: json({ values: hello, next: [], tasks: [] }) }],
    ['has no state', { [STATE]: json(null) }],
    [
      'has another question',
      { [STATE]: json({ tasks: [{ interrupts: [{ id: 'x', value: 'Which size?' }] }] }) },
    ],
    [
      'has another question with this id',
      { [STATE]: json({ tasks: [{ interrupts: [{ id: ID, value: 'How many?' }] }] }) },
    ],
    [
      'stands at a breakpoint',
      { [STATE]: json({ next: ['tools'], tasks: [{ id: 'k', interrupts: [] }] }) },
    ],
  ])('is not sent to a thread that %s', async (_, routes) => {
    const { error, lines } = await answered({ ...routes, [STREAM]: events(['values', hello]) })
    expect(error).toMatchObject(refused)
    expect(String(error)).toContain('nothing was continued')
    expect(lines).not.toContain(STREAM)
    expect(lines).not.toContain('DELETE /threads/t1')
  })

  test.each<[string, Answer]>([
    ['works for Python', fails(409, BUSY)],
    ['works for JavaScript', fails(422, BUSY)],
    ['was deleted just now', fails(404)],
  ])('is refused by a thread that %s', async (_, answer) => {
    const { error, lines, received } = await answered({ [STATE]: json(waiting), [STREAM]: answer })
    expect(error).toMatchObject(refused)
    expect(lines.filter((line) => line === STREAM)).toHaveLength(1)
    expect(received.findLast(({ line }) => line === STREAM)?.body).toMatchObject({
      command: { resume: { [ID]: 'L' } },
      multitask_strategy: 'reject',
    })
    expect(lines).not.toContain('DELETE /threads/t1')
  })

  test('is in doubt if the connection breaks before the server names the run', async () => {
    const breaks: Answer = (_, response) => void response.destroy()
    const { error, lines } = await answered({ [STATE]: json(waiting), [STREAM]: breaks })
    expect(error).toMatchObject({ ...refused, isStarted: true, cause: expect.any(Error) })
    expect(String(error)).toContain('may have continued')
    expect(lines.filter((line) => line === STREAM)).toHaveLength(1)
    expect(lines).not.toContain('DELETE /threads/t1')
  })

  test('is not lost if the server cannot be reached, and can be given again', async () => {
    const { error, lines } = await answered({ [STATE]: fails(503) })
    expect(error).toMatchObject({ reason: 'unavailable', isStarted: false, retryAfterMs: 5000 })
    expect(lines.filter((line) => line === STATE)).toHaveLength(6)
    expect(lines).not.toContain(STREAM)
    expect(lines).not.toContain('DELETE /threads/t1')
  })

  test('is sent after a state that could be read at the second attempt', async () => {
    let reads = 0
    const { updates } = await answered({
      [STATE]: (request, response) => {
        const answer = ++reads === 1 ? fails(502) : json(waiting)
        answer(request, response)
      },
      [STREAM]: events(['values', hello]),
    })
    expect(updates).toMatchObject([{ type: 'done', text: 'Hello' }])
  })

  test.each<[string, object, readonly object[]]>([
    [
      'without an id',
      { tasks: [{ interrupts: [{ value: 'Which size?', when: 'during', ns: ['ask:1'] }] }] },
      [{ value: 'Which size?' }],
    ],
    [
      'of a subgraph',
      { tasks: [{ interrupts: asked, state: { tasks: [{ interrupts: asked }] } }] },
      asked,
    ],
    [
      'beside another one',
      { tasks: [{ interrupts: [{ id: 'y', value: 'Colour?' }] }, { interrupts: asked }] },
      asked,
    ],
  ])('is sent to a question %s', async (_, state, interrupts) => {
    const routes = { [STATE]: json(state), [STREAM]: events(['values', hello]) }
    const { updates, lines, received } = await answered(routes, interrupts)
    expect(updates).toMatchObject([{ type: 'done', text: 'Hello' }])
    expect(lines.indexOf(STATE)).toBeLessThan(lines.indexOf(STREAM))
    const read = received.find(({ line }) => line === STATE)
    expect(read).toBeDefined()
  })

  test.each<[string, object, boolean]>([
    ['the same place', { next: ['tools'], checkpoint: { checkpoint_id: 'c1' } }, true],
    ['a later place', { next: ['tools'], checkpoint: { checkpoint_id: 'c2' } }, false],
    ['its end', { next: [], checkpoint: { checkpoint_id: 'c2' } }, false],
  ])('to a breakpoint continues a thread at %s', async (...[, state, isSent]) => {
    const routes = { [STATE]: json({ tasks: [], ...state }), [STREAM]: events(['values', hello]) }
    const stop = { breakpoint: 'Continue?', checkpoints: ['c1'] }
    const { error, lines } = await answered(routes, [stop])
    expect(lines.includes(STREAM)).toBe(isSent)
    expect(error ?? {}).toMatchObject(isSent ? {} : refused)
  })

  test('in a conversation is refused in the same way', async () => {
    const thread = { thread: 't1' }
    const routes = { [STATE]: json({ tasks: [] }), [STREAM]: events(['values', hello]) }
    const { error, lines } = await answered(routes, asked, thread)
    expect(error).toMatchObject(refused)
    expect(lines).not.toContain(STREAM)
  })
})

test('reads the state and the questions that LangGraph for Python sends together', async () => {
  const interrupts = [{ id: 'f3fc6cde1fe7734b6705036f31d3bd04', value: 'Which size?' }]
  const stopped = { __interrupt__: interrupts }
  await using world = await startLangGraphServer({
    [STREAM]: events(['updates', stopped], ['values', { ...hello, ...stopped }]),
  })
  await using at = await started(world.url)
  const asked = (await all(at.source.run(callOf(at.agentId)))).at(-1)
  expect(asked).toMatchObject({ type: 'asked', questions: [{ message: 'Which size?' }] })
})

test('fails once for a run that fails at the server or cannot be sent', async () => {
  await using world = await startLangGraphServer({
    [STREAM]: events(['error', { error: 'ValueError', message: 'secret' }]),
  })
  await using at = await started(world.url)
  await expect(all(at.source.run(callOf(at.agentId)))).rejects.toMatchObject({
    message: 'The run failed at the server',
    cause: { message: 'ValueError: secret' },
  })
  world.routes[STREAM] = (_, response) => void response.writeHead(503).end()
  await expect(all(at.source.run(callOf(at.agentId)))).rejects.toThrow('503')
  expect(world.lines().filter((line) => line === STREAM)).toHaveLength(2)
})

test('cancels the run at the server when the caller cancels', async () => {
  const isRunning = deferred()
  const isCancelled = deferred()
  await using world = await startLangGraphServer({
    [STREAM]: (_, response) => {
      response.setHeader('content-type', 'text/event-stream')
      response.setHeader('content-location', '/threads/t1/runs/r1')
      response.write('event: updates\ndata: {"start":{}}\n\n')
    },
    'POST /threads/t1/runs/r1/cancel': (_, response) => {
      isCancelled.resolve()
      response.writeHead(204).end()
    },
  })
  await using at = await started(world.url)
  const caller = new AbortController()
  const run = (async () => {
    for await (const _ of at.source.run(callOf(at.agentId, { signal: caller.signal })))
      isRunning.resolve()
  })()
  await isRunning.promise
  caller.abort(new Error('gone'))
  await isCancelled.promise
  await expect(run).rejects.toThrow('gone')
})

test('refuses a URL that is not http or https', () => {
  expect(() => langGraphServerSource({ url: 'file:///etc/passwd' })).toThrow(
    'must begin with http:// or https://',
  )
})

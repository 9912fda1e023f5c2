import { Server, type JSONRPCRequest, type ServerContext } from '@modelcontextprotocol/server'
import { deferred } from '@x/mcp-testing'
import { expect, test } from 'vitest'

import { eventsOf, get, initialize, inSession, post } from '../../../test/rpc-requests.ts'
import { MemoryGatewayStore } from '../../store/memory-store.ts'
import type { HeldOutcome } from './held-request.ts'
import { SessionEvents } from './session-events.ts'
import { SessionTransport } from './session-transport.ts'
import { withdrawnAnswer } from './withdrawn-answer.ts'

type Handler = (context: ServerContext) => Promise<string>

const SESSION = 'session'

const call = (id = 1): JSONRPCRequest => ({
  jsonrpc: '2.0',
  id,
  method: 'tools/call',
  params: { name: 'any' },
})

/** A session whose tool does this. @param keep what the store waits for before it keeps an event */
async function session(handler: Handler, keep?: () => Promise<unknown>) {
  const errors: Error[] = []
  const { logs } = new MemoryGatewayStore()
  const append = logs.append.bind(logs)
  logs.append = async (...event) => {
    await keep?.()
    return append(...event)
  }
  const eventStore = new SessionEvents({
    logs,
    session: SESSION,
    limits: { maxEvents: 10, ttlMs: 1000 },
    onEvent: () => undefined,
    onLost: () => undefined,
    now: () => Date.now(),
  })
  const transport = new SessionTransport({ sessionIdGenerator: () => SESSION, eventStore })
  const capabilities = { tools: {}, logging: {} }
  const server = new Server({ name: 'test', version: '1.0.0' }, { capabilities })
  server.onerror = (error) => void errors.push(error)
  let runs = 0
  server.setRequestHandler('tools/call', async (_, context) => {
    runs += 1
    return { content: [{ type: 'text', text: await handler(context) }] }
  })
  await server.connect(transport)
  const ask = async (request: Request): Promise<Response> => transport.handleRequest(request)
  await (await ask(initialize())).text()
  await ask(post({ jsonrpc: '2.0', method: 'notifications/initialized' }, inSession(SESSION)))
  return {
    transport,
    errors,
    ask,
    answer: (id?: number) => transport.answer(post(call(id), inSession(SESSION)), call(id)),
    get runs() {
      return runs
    },
    [Symbol.asyncDispose]: () => server.close(),
  }
}

const nextTurn = (): Promise<void> =>
  new Promise((resolve) => {
    setImmediate(resolve)
  })

async function messagesOf(outcome: HeldOutcome): Promise<unknown[]> {
  if (outcome.type === 'answer') return [outcome.message]
  const messages: unknown[] = []
  for await (const { data } of eventsOf(outcome.response)) {
    if (data !== '') messages.push(JSON.parse(data))
  }
  return messages
}

const answered = (text: string): object => ({ id: 1, result: { content: [{ text }] } })

test('what is answered in the turn in which it came gets no stream', async () => {
  await using s = await session(async () => 'done')
  const outcome = await s.answer()
  expect(outcome.type).toBe('answer')
  expect(await messagesOf(outcome)).toMatchObject([answered('done')])
})

test('what takes longer gets a stream to come back to, and runs once', async () => {
  const gate = deferred<string>()
  await using s = await session(() => gate.promise)
  const outcome = await s.answer()
  if (outcome.type === 'answer') throw new Error('it was answered')
  const events = eventsOf(outcome.response)
  const { value: first } = await events.next()
  expect(first).toMatchObject({ id: expect.any(String), data: '' })
  await events.return(undefined)
  gate.resolve('late')
  const rest = await s.ask(get(inSession(SESSION, { 'last-event-id': first?.id ?? '' })))
  expect(await messagesOf({ type: 'stream', response: rest })).toMatchObject([answered('late')])
  expect(s.runs).toBe(1)
  expect(s.errors).toEqual([])
})

test('what says something before its answer gets a stream, in order', async () => {
  await using s = await session(async ({ mcpReq }) => {
    const data = (text: string) => ({ level: 'info' as const, data: text })
    const method = 'notifications/message'
    void mcpReq.notify({ method, params: data('one') })
    void mcpReq.notify({ method, params: data('two') })
    return 'done'
  })
  expect(await messagesOf(await s.answer())).toMatchObject([
    { params: { data: 'one' } },
    { params: { data: 'two' } },
    answered('done'),
  ])
  expect(s.runs).toBe(1)
})

test('what asks before its answer gets a stream, and hears what it asked for', async () => {
  await using s = await session(async ({ mcpReq }) => {
    await mcpReq.send({ method: 'ping' })
    return 'done'
  })
  const outcome = await s.answer()
  if (outcome.type === 'answer') throw new Error('it was answered')
  const messages: unknown[] = []
  for await (const { data } of eventsOf(outcome.response)) {
    if (data === '') continue
    const message = JSON.parse(data) as { id: number; method?: string }
    messages.push(message)
    if (message.method !== 'ping') continue
    const reply = { jsonrpc: '2.0', id: message.id, result: {} }
    expect((await s.ask(post(reply, inSession(SESSION)))).status).toBe(202)
  }
  expect(messages).toMatchObject([{ method: 'ping' }, answered('done')])
})

test('what is cancelled in the same turn ends without an answer', async () => {
  await using s = await session(() => new Promise(() => undefined))
  const outcome = s.answer()
  const params = { requestId: 1 }
  s.transport.onmessage?.({ jsonrpc: '2.0', method: 'notifications/cancelled', params })
  await s.transport.dismiss(withdrawnAnswer(1))
  expect(await messagesOf(await outcome)).toEqual([])
  expect(s.transport).toMatchObject({ _requestToStreamMapping: new Map() })
})

test('where the session is closed in the same turn, nobody is told that it was not there', async () => {
  const signals: AbortSignal[] = []
  await using s = await session(({ mcpReq }) => {
    signals.push(mcpReq.signal)
    return new Promise(() => undefined)
  })
  const answering = s.answer()
  await Promise.resolve() // handlers run one step later
  await s.transport.close()
  const outcome = await answering
  if (outcome.type === 'answer') throw new Error('it was answered')
  expect(outcome.response.status).toBe(200)
  expect(await outcome.response.text()).toBe('')
  expect(signals.map(({ aborted }) => aborted)).toEqual([true])
  expect(s.transport.canAnswer).toBe(false)
})

test('a handler can let its client come back later, also before there is a stream', async () => {
  const gate = deferred<string>()
  await using s = await session(async ({ http }) => {
    http?.closeSSE?.()
    return gate.promise
  })
  const outcome = await s.answer()
  if (outcome.type === 'answer') throw new Error('it was answered')
  const ids: string[] = []
  for await (const { id } of eventsOf(outcome.response)) ids.push(id ?? '')
  gate.resolve('late')
  await nextTurn()
  const rest = await s.ask(get(inSession(SESSION, { 'last-event-id': ids.at(-1) ?? '' })))
  expect(await messagesOf({ type: 'stream', response: rest })).toMatchObject([answered('late')])
})

test('what is answered while its stream is made runs once, and is answered there', async () => {
  const [kept, finished] = [deferred(), deferred()]
  let isOpen = false
  await using s = await session(
    async () => {
      await finished.promise
      return 'done'
    },
    async () => isOpen && kept.promise,
  )
  isOpen = true
  const outcome = s.answer()
  await nextTurn() // its stream is begun
  finished.resolve()
  await nextTurn()
  kept.resolve()
  expect(await messagesOf(await outcome)).toMatchObject([answered('done')])
  await nextTurn()
  expect(s.runs).toBe(1)
  expect(s.errors).toEqual([])
})

test('what is cancelled while its stream is made runs once', async () => {
  const kept = deferred()
  let isOpen = false
  await using s = await session(
    () => new Promise(() => undefined),
    async () => isOpen && kept.promise,
  )
  isOpen = true
  const outcome = s.answer()
  await nextTurn()
  const dismissed = s.transport.dismiss(withdrawnAnswer(1))
  kept.resolve()
  await dismissed
  expect(await messagesOf(await outcome)).toEqual([])
  expect(s.runs).toBe(1)
})

test('where nothing can be kept, a call goes on, and nobody is told that it did not begin', async () => {
  const gate = deferred<string>()
  let isAway = false
  await using s = await session(
    () => gate.promise,
    async () => {
      if (isAway) throw new Error('disk full')
    },
  )
  isAway = true
  const outcome = await s.answer()
  gate.resolve('done')
  expect(await messagesOf(outcome)).toMatchObject([answered('done')])
  expect(s.runs).toBe(1)
})

test('what JSON has no text for is an error to its client, who does not wait for ever', async () => {
  await using s = await session(() => new Promise(() => undefined))
  const outcome = await s.answer()
  const sent = s.transport.send({ jsonrpc: '2.0', id: 1, result: { many: 1n } })
  await expect(sent).rejects.toThrow(TypeError)
  expect(await messagesOf(outcome)).toMatchObject([{ id: 1, error: { code: -32_603 } }])
})

test('where the session is closed while a stream is made, its client is not told that the call was not there', async () => {
  const kept = deferred()
  let isOpen = false
  await using s = await session(
    () => new Promise(() => undefined),
    async () => isOpen && kept.promise,
  )
  isOpen = true
  const outcome = s.answer()
  await nextTurn()
  await s.transport.close()
  kept.resolve()
  const made = await outcome
  if (made.type === 'answer') throw new Error('it was answered')
  expect(made.response.status).toBe(200)
  expect(await made.response.text()).toBe('')
  expect(s.errors).toEqual([])
})

test('an answer that is on its way is not dismissed, so that the SDK keeps nothing of it', async () => {
  const [kept, gate] = [deferred(), deferred<string>()]
  let isSlow = false
  await using s = await session(
    () => gate.promise,
    async () => isSlow && kept.promise,
  )
  const outcome = await s.answer()
  isSlow = true
  gate.resolve('done')
  await nextTurn()
  const dismissed = s.transport.dismiss(withdrawnAnswer(1))
  kept.resolve()
  await dismissed
  expect(await messagesOf(outcome)).toMatchObject([answered('done')])
  expect(s.transport).toMatchObject({
    _requestResponseMap: new Map(),
    _requestToStreamMapping: new Map(),
  })
})

test('what other processes say in the name of the client has ids of its own, and leaves nothing', async () => {
  const gate = deferred<string>()
  await using s = await session(() => gate.promise)
  const outcome = await s.answer(0)
  await Promise.all(
    ['info', 'error'].map((level) => s.transport.say('logging/setLevel', { level })),
  )
  gate.resolve('done')
  expect(await messagesOf(outcome)).toMatchObject([{ id: 0, result: {} }])
  expect(s.transport).toMatchObject({ _streamMapping: new Map() })
})

test('what is said of a request that was dismissed is no error, and is told to nobody', async () => {
  const gate = deferred<string>()
  await using s = await session(() => gate.promise)
  const outcome = await s.answer()
  await s.transport.dismiss(withdrawnAnswer(1))
  const method = 'notifications/cancelled'
  await s.transport.send({ jsonrpc: '2.0', method }, { relatedRequestId: 1 })
  expect(await messagesOf(outcome)).toEqual([])
  const many = { jsonrpc: '2.0' as const, method, params: { many: 1n } }
  await expect(s.transport.send(many)).rejects.toThrow(TypeError)
})

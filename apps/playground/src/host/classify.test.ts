import { McpClient, SessionInfoFactory } from '@x/mcp-client'
import { startRecordingProxy } from '@x/mcp-testing'
import type { RecordingProxy } from '@x/mcp-testing'
import { expect, test } from 'vitest'
import { startBasketServer } from '../servers/basket-server.ts'
import { Classifier, labelOf } from './classify.ts'
import type { ObservedExchange } from './classify.ts'
import { DEBUG_STATE } from '../timeline/events.ts'

/** A proxy whose exchanges are classified while they happen. `process` names who calls. */
async function watched(url: string) {
  const proxy = await startRecordingProxy(url, { keepBodies: 65_536 })
  const classifier = new Classifier()
  const kinds = new Map<number, string>()
  const watcher = {
    process: 'agent 1',
    proxy,
    /** Kinds of the POSTs since the last time. */
    async take(): Promise<string[]> {
      await settled(proxy)
      const taken = proxy.exchanges
        .filter(({ n, httpMethod }) => kinds.has(n) && httpMethod !== 'GET')
        .map(({ n, toolName, rpcMethod }) => `${kinds.get(n)} ${toolName ?? rpcMethod ?? 'DELETE'}`)
      kinds.clear()
      return taken.filter((kind) => !kind.startsWith('stream'))
    },
    [Symbol.asyncDispose]: () => proxy[Symbol.asyncDispose](),
  }
  proxy.on(({ exchange }) => {
    kinds.set(exchange.n, classifier.kindOf(watcher.process, 'shop', exchange))
  })
  return watcher
}

async function settled(proxy: RecordingProxy): Promise<void> {
  for (const exchange of proxy.exchanges) {
    const isStream = exchange.httpMethod === 'GET' || exchange.rpcMethod === 'subscriptions/listen'
    if (!isStream) await proxy.waitFor(({ n, end }) => n === exchange.n && end !== undefined)
  }
}

test('tells the kinds in the life of a session', async () => {
  await using server = await startBasketServer()
  await using watcher = await watched(server.url)
  const kept = new SessionInfoFactory().createSession({ url: watcher.proxy.url })
  const open = () =>
    new McpClient(
      { url: watcher.proxy.url },
      { sessionInfoFactory: { createSession: () => kept }, terminateOnClose: false },
    )
  await using first = open()
  await first.callTool('basket_show')
  await first.callTool('basket_show')
  expect(await watcher.take()).toEqual([
    'handshake server/discover',
    'handshake initialize',
    'handshake notifications/initialized',
    'call basket_show',
    'call basket_show',
  ])
  server.legacy.forgetSessions()
  await first.callTool('basket_show')
  expect(await watcher.take()).toEqual([
    'loss basket_show',
    'recovery initialize',
    'recovery notifications/initialized',
    'call basket_show',
  ])
  await first.dispose()

  watcher.process = 'agent 2'
  await using second = open()
  await second.callTool('basket_show')
  await second.callTool('basket_show')
  expect(await watcher.take()).toEqual(['resume basket_show', 'call basket_show'])
  await second.dispose()

  server.legacy.forgetSessions()
  watcher.process = 'agent 3'
  await using third = open()
  await third.callTool('basket_show')
  expect(await watcher.take()).toEqual([
    'loss basket_show',
    'recovery initialize',
    'recovery notifications/initialized',
    'call basket_show',
  ])
})

test('tells a switch of the era, and one loss for each of many parallel calls', async () => {
  await using server = await startBasketServer()
  await using watcher = await watched(server.url)
  await using client = new McpClient({ url: watcher.proxy.url })
  await client.callTool('basket_show')
  await watcher.take()
  server.legacy.forgetSessions()
  await Promise.all(Array.from({ length: 20 }, () => client.callTool('basket_show')))
  const kinds = await watcher.take()
  expect(kinds.filter((kind) => kind === 'recovery initialize')).toHaveLength(1)
  expect(kinds.filter((kind) => kind === 'call basket_show')).toHaveLength(20)
  expect(kinds).toContain('loss basket_show')
  expect(kinds.some((kind) => kind.startsWith('handshake'))).toBe(false)

  server.kind = 'modern'
  await client.callTool('basket_show')
  const switched = await watcher.take()
  expect(switched.at(-1)).toBe('call basket_show')
  expect(switched).toContain('loss basket_show')
  expect(switched).toContain('recovery server/discover')
})

const AGENT = ['agent 1', 'shop'] as const

function post(rpcMethod: string, rest: Partial<ObservedExchange> = {}): ObservedExchange {
  return { httpMethod: 'POST', rpcMethod, ...rest }
}

test('a late refusal of an earlier session does not make the next handshake a recovery', () => {
  const classifier = new Classifier()
  const kindOf = (exchange: ObservedExchange) => classifier.kindOf(...AGENT, exchange)
  kindOf(post('initialize', { status: 200, assignedSessionId: 'one' }))
  expect(kindOf(post('tools/call', { sessionId: 'one', status: 404 }))).toBe('loss')
  expect(kindOf(post('initialize', { status: 200, assignedSessionId: 'two' }))).toBe('recovery')
  expect(kindOf(post('tools/call', { sessionId: 'one', status: 404 }))).toBe('loss')
  expect(kindOf(post('initialize'))).toBe('handshake')
})

test('a failed handshake after a loss is followed by another recovery', () => {
  const classifier = new Classifier()
  const kindOf = (exchange: ObservedExchange) => classifier.kindOf(...AGENT, exchange)
  kindOf(post('initialize', { status: 200, assignedSessionId: 'one' }))
  kindOf(post('tools/call', { sessionId: 'one', status: 404 }))
  expect(kindOf(post('initialize', { status: 503 }))).toBe('recovery')
  expect(kindOf(post('initialize', { status: 200, assignedSessionId: 'two' }))).toBe('recovery')
})

test('a new process loses a stored session also by the stream with which it begins', () => {
  const classifier = new Classifier()
  const refused = { status: 400, response: { body: '{"error":{"code":-32000}}' } }
  const kindOf = (exchange: ObservedExchange) => classifier.kindOf(...AGENT, exchange)
  expect(kindOf({ httpMethod: 'GET', sessionId: 'one', ...refused })).toBe('loss')
  expect(kindOf(post('initialize', { status: 200, assignedSessionId: 'two' }))).toBe('recovery')
})

test('probes of an unknown server are handshakes, and other processes are apart', () => {
  const classifier = new Classifier()
  const refused = { status: 400, response: { body: '{"error":{"code":-32022}}' } }
  expect(classifier.kindOf(...AGENT, post('tools/call', refused))).toBe('handshake')
  classifier.kindOf(...AGENT, post('server/discover', { status: 200 }))
  expect(classifier.kindOf(...AGENT, post('tools/call'))).toBe('call')
  const gateway = ['gateway 2', 'shop'] as const
  expect(classifier.kindOf(...gateway, post('tools/call'))).toBe('resume')
  expect(classifier.kindOf(...gateway, post('server/discover'))).toBe('handshake')
})

test.each<[ObservedExchange, string]>([
  [{ httpMethod: 'GET' }, 'stream'],
  [post('subscriptions/listen', { status: 200 }), 'stream'],
  [{ httpMethod: 'DELETE', sessionId: 'one', status: 404 }, 'other'],
  [post('tools/list'), 'other'],
  [post('tools/call', { status: 404 }), 'call'],
  [post('tools/call', { status: 400, response: { body: 'no JSON' } }), 'call'],
])('%j is %s', (exchange, kind) => {
  expect(new Classifier().kindOf(...AGENT, exchange)).toBe(kind)
})

test('everything that goes to the debug state is of kind state', () => {
  expect(new Classifier().kindOf('agent 1', DEBUG_STATE, { httpMethod: 'GET', status: 404 })).toBe(
    'state',
  )
})

test.each<[Partial<ObservedExchange>, string]>([
  [{ rpcMethod: 'tools/call' }, 'tools/call'],
  [{ rpcMethod: 'tools/call', toolName: 'basket_add' }, 'basket_add'],
  [{ rpcMethod: 'notifications/initialized' }, 'initialized'],
  [{ httpMethod: 'GET', request: { headers: {} } }, 'listening stream'],
  [{ httpMethod: 'GET', request: { headers: { 'last-event-id': '7' } } }, 'resumed stream'],
  [{ rpcMethod: 'subscriptions/listen' }, 'listening stream'],
  [{ httpMethod: 'DELETE' }, 'end of the session'],
  [{ httpMethod: 'PATCH' }, 'PATCH'],
  [{ rpcMethod: undefined }, 'answer'],
])('%j is labelled "%s"', (exchange, label) => {
  expect(labelOf('shop', { httpMethod: 'POST', ...exchange })).toBe(label)
})

test.each([
  ['GET', 'load'],
  ['PUT', 'store'],
  ['DELETE', 'clear'],
])('%s at the debug state is labelled "%s"', (httpMethod, label) => {
  expect(labelOf(DEBUG_STATE, { httpMethod })).toBe(label)
})

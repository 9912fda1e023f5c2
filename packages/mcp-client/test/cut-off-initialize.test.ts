import { text } from 'node:stream/consumers'
import {
  deferred,
  seededRandom,
  startLegacyServer,
  startRecordingProxy,
  startTestServer,
} from '@x/mcp-testing'
import type { Exchange, RecordingProxy } from '@x/mcp-testing'
import { describe, expect, test, vi } from 'vitest'
import { McpClient } from '../src/index.ts'
import type { McpClientOptions } from '../src/index.ts'
import { is, rejectionOf, stopClock } from './setting.ts'

const SESSION_ID = 'session-of-nobody'
const news = {
  jsonrpc: '2.0',
  method: 'notifications/message',
  params: { level: 'info', data: '' },
}

/**
 * Starts a server that assigns a session, sends something, and never answers `initialize`, and a client that
 * has received that. `call` waits for the handshake.
 */
async function startCutOff(options: McpClientOptions = {}) {
  const server = await startTestServer((request, response) => {
    if (request.method !== 'POST') return void response.writeHead(200).end()
    response.writeHead(200, { 'content-type': 'text/event-stream', 'mcp-session-id': SESSION_ID })
    response.write(`data: ${JSON.stringify(news)}\n\n`)
  })
  const proxy = await startRecordingProxy(server.url)
  const client = new McpClient({ url: proxy.url }, { era: 'legacy', ...options })
  const heard = new Promise<void>((resolve) => client.on('serverLog', () => resolve()))
  const caller = new AbortController()
  const call = rejectionOf(client.ping({ signal: caller.signal }))
  await heard
  return {
    proxy,
    client,
    call,
    caller,
    async [Symbol.asyncDispose]() {
      await client.dispose()
      await proxy.close()
      await server[Symbol.asyncDispose]()
    },
  }
}

function deletesOf(proxy: RecordingProxy): readonly Exchange[] {
  return proxy.exchanges.filter(is.delete)
}

describe('an initialize that is aborted after the server has sent the session id', () => {
  test('terminates the session once before dispose() resolves', async () => {
    await using setting = await startCutOff()
    const { client, proxy, call } = setting
    await client.dispose()
    expect(await call).toMatchObject({ code: 'CLOSED', outcome: 'not-executed' })
    expect(deletesOf(proxy)).toMatchObject([{ sessionId: SESSION_ID, status: 200 }])
  })

  test('terminates the session also with terminateOnClose: false, because nothing can find it again', async () => {
    await using setting = await startCutOff({ terminateOnClose: false })
    await setting.client.dispose()
    expect(deletesOf(setting.proxy)).toHaveLength(1)
  })

  test('terminates the session when the only waiting caller aborts', async () => {
    await using setting = await startCutOff()
    const { proxy, caller, call } = setting
    const reason = new Error('changed my mind')
    caller.abort(reason)
    expect(await call).toBe(reason)
    await proxy.waitFor(is.delete)
    expect(deletesOf(proxy)).toMatchObject([{ sessionId: SESSION_ID }])
    expect(proxy.count({ rpcMethod: 'notifications/cancelled' })).toBe(0)
  })

  test('terminates the session when the time limit passes', async () => {
    stopClock()
    await using setting = await startCutOff({ handshakeMs: 5000 })
    const { proxy, call } = setting
    vi.advanceTimersByTime(5000)
    expect(await call).toMatchObject({ code: 'TIMEOUT', outcome: 'not-executed' })
    await proxy.waitFor(is.delete)
    expect(deletesOf(proxy)).toMatchObject([{ sessionId: SESSION_ID }])
  })

  test('waits for a server that does not answer DELETE no longer than the limit of dispose()', async () => {
    stopClock()
    await using setting = await startCutOff()
    const { client, proxy } = setting
    proxy.inject({ match: is.delete, action: 'hang' })
    const disposing = client.dispose()
    await proxy.waitFor(is.delete)
    vi.advanceTimersByTime(2000)
    await disposing
    expect(client.status().state).toBe('created')
  })
})

test('leaves no session when initialize is aborted before the server has sent anything', async () => {
  await using server = await startTestServer(() => {})
  await using proxy = await startRecordingProxy(server.url)
  const client = new McpClient({ url: proxy.url }, { era: 'legacy' })
  const call = rejectionOf(client.ping())
  await proxy.waitFor(is.initialize)
  await client.dispose()
  expect(await call).toMatchObject({ code: 'CLOSED' })
  expect(deletesOf(proxy)).toEqual([])
})

const turns = async (count: number): Promise<void> => {
  for (let turn = 0; turn < count; turn++) await new Promise((resolve) => setImmediate(resolve))
}

describe.each(['legacy', 'auto'] as const)('with era: %s, nothing stays on the server', (era) => {
  const seeds = Array.from({ length: 20 }, (_, seed) => seed)

  test.each(seeds)('if the caller aborts during the handshake (seed %i)', async (seed) => {
    const random = seededRandom(seed)
    await using server = await startLegacyServer()
    await using proxy = await startRecordingProxy(server.url)
    const client = new McpClient({ url: proxy.url }, { era })
    const caller = new AbortController()
    const call = client.ping({ signal: caller.signal }).catch(() => {})
    if (random() < 0.7) await proxy.waitFor(random() < 0.8 ? is.initialize : () => true)
    await turns(Math.floor(random() * 8))
    caller.abort()
    await call
    await client.dispose()
    expect(server.sessions).toEqual([])
  })

  test.each(seeds)('if the client is disposed of during the handshake (seed %i)', async (seed) => {
    const random = seededRandom(seed)
    await using server = await startLegacyServer()
    await using proxy = await startRecordingProxy(server.url)
    const client = new McpClient({ url: proxy.url }, { era })
    const call = client.ping().catch(() => {})
    if (random() < 0.7) await proxy.waitFor(random() < 0.8 ? is.initialize : () => true)
    await turns(Math.floor(random() * 8))
    await client.dispose()
    await call
    expect(server.sessions).toEqual([])
  })
})

test('an initialize that is answered after its time limit leaves no session, and the call does not wait for that', async () => {
  await using server = await startLegacyServer()
  const answer = deferred()
  await using front = await startTestServer(async (request, response) => {
    const { method = '' } = request
    const headers = new Headers(request.headers as Record<string, string>)
    const body = method === 'POST' ? await text(request) : null
    if (method === 'POST') await answer.promise
    const answered = await fetch(server.url, { method, headers, body })
    response.writeHead(answered.status, Object.fromEntries(answered.headers))
    response.end(await answered.text())
  })
  const client = new McpClient({ url: front.url }, { era: 'legacy', handshakeMs: 50 })
  expect(await rejectionOf(client.ping())).toMatchObject({ code: 'TIMEOUT' })
  const disposing = client.dispose()
  answer.resolve()
  await disposing
  expect(server.count('initialize')).toBe(1)
  expect(server.sessions).toEqual([])
})

// A server that answers after the client has given up: the session of that answer must not stay.
import { deferred } from '@x/mcp-testing'
import { afterEach, describe, expect, test, vi } from 'vitest'
import type { StreamableHttpTransportOptions } from '../src/index.ts'
import { connectRaw, rawClient } from './raw-client.ts'
import type { RawClient } from './raw-client.ts'
import { initializeResult, json, resultOf, scriptedServer } from './scripted-server.ts'
import type { ScriptedServer } from './scripted-server.ts'

const LATE = { 'mcp-session-id': 'late' }
const initialize = {
  protocolVersion: '2025-11-25',
  capabilities: {},
  clientInfo: { name: 'raw', version: '1' },
}

afterEach(() => {
  vi.useRealTimers()
})

interface Given {
  readonly server: ScriptedServer
  readonly client: RawClient
  /** Answers the request that the server holds. */
  readonly answer: () => void
  /** The answer of the transport to the client's `initialize`. */
  readonly answered: Promise<unknown>
}

/** A client whose request `what` the server holds until `answer()`. Other requests are answered at once. */
async function startHeld(
  what: 'POST initialize' | 'POST server/discover',
  { response, ...options }: StreamableHttpTransportOptions & { response?: () => Response } = {},
): Promise<Given> {
  const held = deferred()
  const server = scriptedServer({
    [what]: async (seen) => {
      await held.promise
      return response?.() ?? json(resultOf(seen, initializeResult), LATE)
    },
  })
  const client = rawClient(server, options)
  await client.transport.start()
  const answered = client.request('initialize', initialize)
  await server.waitFor(what)
  return { server, client, answer: held.resolve, answered }
}

const deleted = ({ seen }: ScriptedServer): unknown[] =>
  seen.filter(({ httpMethod }) => httpMethod === 'DELETE').map(({ sessionId }) => sessionId)

const cancel = (client: RawClient): Promise<void> =>
  client.notify('notifications/cancelled', { requestId: 0 })

describe('an initialize that is ended before its answer', () => {
  test('by a cancellation terminates the session of the late answer', async () => {
    const { server, client, answer } = await startHeld('POST initialize')
    await cancel(client)
    expect(deleted(server)).toEqual([])
    answer()
    await server.waitFor('DELETE')
    expect(deleted(server)).toEqual(['late'])
    await client.transport.close()
  })

  test('by close() terminates the session before close() resolves', async () => {
    const { server, client, answer, answered } = await startHeld('POST initialize')
    const closing = client.transport.close()
    expect(await answered).toHaveProperty('error.data.code', 'CLOSED')
    answer()
    await closing
    expect(deleted(server)).toEqual(['late'])
  })

  test('by another initialize terminates the session and keeps the new one', async () => {
    const held = deferred()
    const server = scriptedServer({
      'POST initialize': async (seen) => {
        if (server.count('POST initialize') > 1) return undefined as never
        await held.promise
        return json(resultOf(seen, initializeResult), LATE)
      },
    })
    await using client = rawClient(server)
    await client.transport.start()
    void client.request('initialize', initialize)
    await server.waitFor('POST initialize')
    await client.request('initialize', initialize)
    await client.notify('notifications/initialized')
    held.resolve()
    await server.waitFor('DELETE')
    expect(deleted(server)).toEqual(['late'])
    expect(client.transport.sessionId).toBe('session-1')
  })

  test('by its time limit, and then by close(), terminates the session of the late answer', async () => {
    const held = deferred()
    const server = scriptedServer({
      'POST tools/call': () => new Response(null, { status: 404 }),
      'POST initialize': async (seen) => {
        if (server.count('POST initialize') === 1) return undefined as never
        await held.promise
        return json(resultOf(seen, initializeResult), LATE)
      },
    })
    const client = await connectRaw(server, {
      onSessionLost: 'reinitialize',
      timeouts: { probeMs: 20 },
    })
    expect(await client.failureOf('tools/call')).toMatchObject({ code: 'TIMEOUT' })
    const closing = client.transport.close()
    held.resolve()
    await closing
    expect(deleted(server)).toEqual(['late'])
  })

  test.each<[string, () => Response]>([
    ['has no session', () => json({ jsonrpc: '2.0', id: 0, result: initializeResult })],
    ['is an error with a session', () => json({ error: 'busy' }, LATE, 503)],
    ['asks for credentials', () => new Response(null, { status: 401 })],
  ])('sends nothing if the late answer %s', async (_name, response) => {
    const asked = vi.fn<() => Promise<string>>(async () => 'token')
    const authProvider = { token: asked, onUnauthorized: vi.fn<() => Promise<void>>() }
    const { server, client, answer } = await startHeld('POST initialize', {
      response,
      authProvider,
    })
    const tokens = asked.mock.calls.length
    const closing = client.transport.close()
    answer()
    await closing
    expect(server.wire).toEqual(['POST initialize'])
    expect(authProvider.onUnauthorized).not.toHaveBeenCalled()
    expect(asked.mock.calls).toHaveLength(tokens)
  })

  test('is given up 2 s after close(), and its connection is closed', async () => {
    const { server, client } = await startHeld('POST initialize')
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] })
    const closing = client.transport.close()
    const signal = server.seen[0]?.signal
    expect(signal?.aborted).toBe(false)
    vi.advanceTimersByTime(2000)
    await closing
    expect(signal?.aborted).toBe(true)
  })

  test('is given up 10 s after a cancellation', async () => {
    const { server, client } = await startHeld('POST initialize')
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] })
    await cancel(client)
    const signal = server.seen[0]?.signal
    vi.advanceTimersByTime(9999)
    expect(signal?.aborted).toBe(false)
    vi.advanceTimersByTime(1)
    expect(signal?.aborted).toBe(true)
    await client.transport.close()
    expect(deleted(server)).toEqual([])
  })
})

// Servers with sessions open one for the probe, too (python-sdk #3228).
describe('a probe', () => {
  const response = (): Response => json({ jsonrpc: '2.0', id: 'discover', error: {} }, LATE)

  test('that is ended before its answer terminates the session of the late answer', async () => {
    const given = await startHeld('POST server/discover', { era: 'auto', response })
    const closing = given.client.transport.close()
    given.answer()
    await closing
    expect(deleted(given.server)).toEqual(['late'])
  })

  test('that is too slow terminates the session of its late answer, and keeps the one of initialize', async () => {
    const timeouts = { probeMs: 10 }
    const given = await startHeld('POST server/discover', { era: 'auto', response, timeouts })
    await using client = given.client
    expect(await given.answered).toHaveProperty('result')
    given.answer()
    await given.server.waitFor('DELETE')
    expect(deleted(given.server)).toEqual(['late'])
    expect(client.transport.sessionId).toBe('session-1')
  })
})

test('a handshake that replaces a session and is too slow terminates the session of its late answer', async () => {
  const held = deferred()
  const server = scriptedServer((seen) => {
    if (seen.what === 'POST tools/call' && seen.sessionId === 'session-1') {
      return new Response(null, { status: 404 })
    }
    if (seen.what !== 'POST initialize' || server.count('POST initialize') !== 2) return undefined
    return held.promise.then(() => json(resultOf(seen, initializeResult), LATE))
  })
  await using client = rawClient(server, {
    onSessionLost: 'reinitialize',
    timeouts: { probeMs: 10 },
  })
  await client.handshake()
  expect(await client.failureOf('tools/call')).toMatchObject({ outcome: 'not-executed' })
  held.resolve()
  await server.waitFor('DELETE')
  expect(deleted(server)).toEqual(['late'])
  expect(await client.request('tools/call')).toHaveProperty('result')
})

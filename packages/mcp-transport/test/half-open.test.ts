// Sessions whose handshake was not completed.
import { Client } from '@modelcontextprotocol/sdk/client/index.js'
import { deferred, startLegacyServer } from '@x/mcp-testing'
import { describe, expect, test } from 'vitest'
import { SessionInfo, StreamableHttpTransport } from '../src/index.ts'
import { connectRaw, RawClient, rawClient } from './raw-client.ts'
import { errorOf, json, scriptedServer } from './scripted-server.ts'
import type { ScriptedServer } from './scripted-server.ts'

const initializeParams = {
  protocolVersion: '2025-11-25',
  capabilities: {},
  clientInfo: { name: 'raw', version: '1' },
}
const INITIALIZED = 'POST notifications/initialized'

interface StrictServer extends ScriptedServer {
  readonly live: Set<string>
}

/**
 * Refuses every request in a session without `notifications/initialized`, and requests in a session that is
 * not live. `fault` answers the n-th notification.
 */
function strictServer(n: number, fault: () => Response | Promise<Response>): StrictServer {
  const initialized = new Set<string>()
  const live = new Set<string>()
  let opened = 0
  const server = scriptedServer((seen) => {
    const { what, sessionId = '' } = seen
    if (what === 'POST initialize') live.add(`session-${++opened}`)
    else if (!live.has(sessionId)) return new Response(null, { status: 404 })
    else if (what === 'DELETE') live.delete(sessionId)
    else if (what === INITIALIZED) {
      if (opened === n) return fault()
      initialized.add(sessionId)
    } else if (!initialized.has(sessionId)) {
      return json(errorOf(seen, -32600, 'Invalid Request'), {}, 400)
    }
    return undefined
  })
  return Object.assign(server, { live })
}

const reset = (): Response => {
  throw new Error('connection reset')
}

describe.each([
  ['is not delivered', reset],
  ['is refused', () => new Response('no', { status: 500 })],
])('a session whose `initialized` %s', (_how, fault) => {
  test('is terminated and not stored; the next client opens a session that works', async () => {
    const server = strictServer(1, fault)
    const sessionInfo = new SessionInfo()
    const first = new Client({ name: 'app', version: '1.0.0' })
    const connect = (client: Client): Promise<void> =>
      client.connect(
        new StreamableHttpTransport('http://server.test/mcp', {
          dispatcher: server.dispatcher,
          era: 'legacy',
          sessionInfo,
          listen: false,
        }),
      )
    await expect(connect(first)).rejects.toThrow(/connection reset|HTTP 500/)
    await server.waitFor('DELETE')
    await expect(sessionInfo.getSessionId()).resolves.toBeUndefined()
    expect((await sessionInfo.getRecord())?.sessionId).toBeUndefined()

    const second = new Client({ name: 'app', version: '1.0.0' })
    await connect(second)
    await second.ping()
    expect([...server.live]).toEqual(['session-2'])
    await expect(sessionInfo.getSessionId()).resolves.toBe('session-2')
    await second.close()
    expect(server.count('DELETE')).toBe(1)
  })

  test('does not replace a lost session; the next call opens a session that works', async () => {
    const server = strictServer(2, fault)
    const sessionInfo = new SessionInfo()
    await using client = await connectRaw(server, {
      sessionInfo,
      listen: false,
      onSessionLost: 'reinitialize',
    })
    server.live.clear()
    await client.failureOf('tools/call')
    await server.waitFor('DELETE')
    await expect(sessionInfo.getSessionId()).resolves.toBeUndefined()
    await expect(client.request('tools/call')).resolves.toHaveProperty('result')
    expect([...server.live]).toEqual(['session-3'])
    await expect(sessionInfo.getSessionId()).resolves.toBe('session-3')
  })
})

test('stores a session as soon as the server has accepted `initialized`, and not before', async () => {
  const accepted = deferred()
  const server = scriptedServer(async (seen) => {
    if (seen.what === INITIALIZED) await accepted.promise
    return undefined as never
  })
  const sessionInfo = new SessionInfo()
  await using client = rawClient(server, { sessionInfo, listen: false })
  const handshake = client.handshake()
  await server.waitFor(INITIALIZED)
  await expect(sessionInfo.getSessionId()).resolves.toBeUndefined()
  accepted.resolve()
  await handshake
  await expect(sessionInfo.getSessionId()).resolves.toBe('session-1')
})

describe('a handshake that is ended', () => {
  const ends: [string, (client: RawClient) => unknown][] = [
    ['by close()', (client) => client.transport.close()],
    ['by a cancellation', (client) => client.notify('notifications/cancelled', { requestId: 0 })],
  ]

  test.each(ends)('%s leaves no session, at any moment', async (_how, end) => {
    await using server = await startLegacyServer()
    for (let turns = 0; turns < 30; turns++) {
      const answered = deferred()
      const transport = new StreamableHttpTransport(server.url, {
        era: 'legacy',
        onExchange: () => answered.resolve(),
      })
      const client = new RawClient(transport)
      void client.request('initialize', initializeParams)
      await answered.promise
      for (let turn = 0; turn < turns; turn++) await Promise.resolve()
      await end(client)
      await transport.close()
      expect(server.sessions).toEqual([])
    }
    expect(server.count('initialize')).toBe(30)
  })

  test('leaves no session if `initialized` gets no answer', async () => {
    const server = scriptedServer((seen) =>
      seen.what === INITIALIZED ? new Promise<never>(() => {}) : undefined,
    )
    const sessionInfo = new SessionInfo()
    const client = rawClient(server, { sessionInfo, listen: false })
    const handshake = client.handshake()
    await server.waitFor(INITIALIZED)
    await Promise.all([
      client.transport.close(),
      expect(handshake).rejects.toThrow('transport was closed'),
    ])
    expect(server.seen.at(-1)).toMatchObject({ what: 'DELETE', sessionId: 'session-1' })
    await expect(sessionInfo.getSessionId()).resolves.toBeUndefined()
  })
})

// A session that continues in another transport, with the client of SDK v1.
import { Client } from '@modelcontextprotocol/sdk/client/index.js'
import { startLegacyServer } from '@x/mcp-testing'
import { describe, expect, test } from 'vitest'
import { SessionInfo, StreamableHttpTransport } from '../src/index.ts'
import type { SessionRecord, StreamableHttpTransportOptions } from '../src/index.ts'
import { connectRaw, failureIn, openedBefore, rawClient } from './raw-client.ts'
import { errorOf, initializeResult, json, resultOf, scriptedServer } from './scripted-server.ts'

async function connected(
  url: string,
  sessionInfo: SessionInfo,
  capabilities: Record<string, object> = {},
): Promise<{ client: Client; transport: StreamableHttpTransport; errors: Error[] }> {
  const client = new Client({ name: 'app', version: '1.0.0' }, { capabilities })
  const errors: Error[] = []
  client.onerror = (error) => void errors.push(error)
  const transport = new StreamableHttpTransport(url, { era: 'legacy', sessionInfo })
  await client.connect(transport)
  return { client, transport, errors }
}

test('needs no handshake for the second client, which knows the server and shares its state', async () => {
  await using server = await startLegacyServer()
  const sessionInfo = new SessionInfo()
  const first = await connected(server.url, sessionInfo)
  await first.client.callTool({ name: 'counter_add' })
  await first.client.close()
  const before = server.received.length

  const { client, transport, errors } = await connected(server.url, sessionInfo)
  expect(client.getServerCapabilities()).toEqual(first.client.getServerCapabilities())
  expect(client.getServerVersion()).toEqual(first.client.getServerVersion())
  expect(transport).toMatchObject({ isResumed: true, epoch: 1, protocolVersion: '2025-11-25' })
  expect(transport.sessionId).toBe(server.sessions[0])
  const { content } = await client.callTool({ name: 'counter_add' })
  expect(JSON.stringify(content)).toContain('2')
  await server.waitFor((one) => one.httpMethod === 'GET' && server.received.indexOf(one) > before)
  expect(server.received[before]).toMatchObject({ rpcMethod: 'tools/call' })

  expect(server.count('initialize')).toBe(1)
  expect(server.count('notifications/initialized')).toBe(1)
  for (const { sessionId, protocolVersion } of server.received.slice(before)) {
    expect({ sessionId, protocolVersion }).toEqual({
      sessionId: server.sessions[0],
      protocolVersion: '2025-11-25',
    })
  }
  expect(errors).toEqual([])
  await client.close()
})

test('continues the session when a closed transport is started again', async () => {
  await using server = await startLegacyServer()
  const { client, transport } = await connected(server.url, new SessionInfo())
  await client.close()
  const again = new Client({ name: 'app', version: '1.0.0' })
  await again.connect(transport)
  await again.callTool({ name: 'counter_add' })
  expect(server.count('initialize')).toBe(1)
  await again.close()
})

/** Opens a session, changes its record, and starts a second client on it. */
async function start(
  change: (record: SessionRecord) => SessionRecord,
  options: StreamableHttpTransportOptions = {},
  capabilities: Record<string, unknown> = {},
): Promise<{ wire: readonly string[]; reports: unknown[]; ids: unknown[] }> {
  const server = scriptedServer()
  const sessionInfo = await openedBefore(server)
  const record = await sessionInfo.getRecord()
  if (record === undefined) throw new Error('Nothing stored')
  await sessionInfo.setRecord(change(record))
  const from = server.seen.length
  await using client = rawClient(server, { sessionInfo, listen: false, ...options })
  await client.handshake(capabilities)
  await client.request('ping')
  return {
    wire: server.wire.slice(from),
    reports: client.errors,
    ids: server.seen.slice(from).map(({ sessionId }) => sessionId),
  }
}
describe('an unusable record is ignored and reported once', () => {
  const fresh = {
    wire: ['POST initialize', 'POST notifications/initialized', 'POST ping'],
    reports: [expect.objectContaining({ code: 'RECORD_UNUSABLE' })],
    ids: [undefined, 'session-2', 'session-2'],
  }

  test('unless it fits, as a control', async () => {
    await expect(start((record) => record)).resolves.toEqual({
      wire: ['POST ping'],
      reports: [],
      ids: ['session-1'],
    })
  })

  test('with an unknown revision', async () => {
    const change = (record: SessionRecord): SessionRecord => ({
      ...record,
      protocolVersion: '2099-01-01',
    })
    await expect(start(change)).resolves.toEqual(fresh)
  })

  test('with another principal of the client', async () => {
    await expect(start((record) => record, { principal: 'alice' })).resolves.toEqual(fresh)
  })

  test('with other capabilities of the client', async () => {
    await expect(start((record) => record, {}, { sampling: {} })).resolves.toEqual(fresh)
  })
})

describe('an id without a record', () => {
  test('is sent with initialize, and kept if the server accepts it', async () => {
    const server = scriptedServer({
      'POST initialize': (seen) => json(resultOf(seen, initializeResult)),
    })
    const sessionInfo = new SessionInfo('a-known-session')
    await using client = await connectRaw(server, { sessionInfo, listen: false })
    await client.request('ping')
    expect(server.seen.map(({ what, sessionId }) => [what, sessionId])).toEqual([
      ['POST initialize', 'a-known-session'],
      ['POST notifications/initialized', 'a-known-session'],
      ['POST ping', 'a-known-session'],
    ])
    // Other clients may have used small ids in it.
    expect(Number(server.seen[2]?.id)).toBeGreaterThan(2 ** 20)
    await expect(sessionInfo.getRecord()).resolves.toMatchObject({
      sessionId: 'a-known-session',
      initializeResult,
    })
  })

  test('is replaced by the id that the server assigns', async () => {
    const sessionInfo = new SessionInfo('a-known-session')
    await using client = await connectRaw(scriptedServer(), { sessionInfo, listen: false })
    expect(client.transport.sessionId).toBe('session-1')
  })

  test.each([
    ['Session not found', 404, -32001],
    ['Session not found', 200, -32001],
  ])(
    'is replaced without a DELETE if the server refuses it: %s (%d)',
    async (message, status, code) => {
      const server = scriptedServer((seen) =>
        seen.what === 'POST initialize' && seen.sessionId !== undefined
          ? json(errorOf(seen, code, message), {}, status)
          : undefined,
      )
      const sessionInfo = new SessionInfo('a-known-session')
      await using client = rawClient(server, { sessionInfo, listen: false })
      await expect(client.handshake()).resolves.toHaveProperty('result')
      const initializes = server.seen.filter(({ what }) => what === 'POST initialize')
      expect(initializes.map(({ sessionId }) => sessionId)).toEqual(['a-known-session', undefined])
      expect(server.count('DELETE')).toBe(0)
      await expect(sessionInfo.getSessionId()).resolves.toBe('session-1')
    },
  )

  test.each([401, 429, 503])(
    'is kept if the response does not mention it: status %d',
    async (status) => {
      const server = scriptedServer(() => new Response('no', { status }))
      const sessionInfo = new SessionInfo('a-known-session')
      await using client = rawClient(server, { sessionInfo })
      expect(failureIn(await client.handshake())).toHaveProperty('status', status)
      await expect(sessionInfo.getSessionId()).resolves.toBe('a-known-session')
      expect(server.wire).toEqual(['POST initialize'])
    },
  )

  test('is kept if the connection breaks', async () => {
    const server = scriptedServer(() => {
      throw new Error('reset')
    })
    const sessionInfo = new SessionInfo('a-known-session')
    await using client = rawClient(server, { sessionInfo })
    expect(failureIn(await client.handshake())).toHaveProperty('code', 'OUTCOME_UNKNOWN')
    await expect(sessionInfo.getSessionId()).resolves.toBe('a-known-session')
  })
})

test('keeps a resumed session after a connection failure', async () => {
  let isDown = false
  const server = scriptedServer(() => {
    if (isDown) throw new Error('reset')
    return undefined
  })
  const sessionInfo = await openedBefore(server)
  isDown = true
  await using client = await connectRaw(server, { sessionInfo, listen: false })
  await expect(client.failureOf('tools/call')).resolves.toHaveProperty('code', 'OUTCOME_UNKNOWN')
  await expect(sessionInfo.getSessionId()).resolves.toBe('session-1')
})

import { startModernServer } from '@x/mcp-testing'
import { expect, test } from 'vitest'
import { McpClient } from '../src/index.ts'
import { rejectionOf, statesOf, recordEvents, textOf } from './setting.ts'

test('calls a stateless server in the same way, without a session', async () => {
  await using server = await startModernServer()
  await using client = new McpClient({ url: server.url })
  const observed = recordEvents(client)
  expect(textOf(await client.callTool('echo', { text: 'x' }))).toBe('x')
  const names = (await client.listTools()).map(({ name }) => name)
  expect(names).toEqual(expect.arrayContaining(['echo', 'add']))
  expect(await client.getSessionId()).toBe(undefined)
  expect(client.isClientInitialized).toBe(true)
  expect(server.count('initialize')).toBe(0)

  await client.dispose()
  expect(server.count('DELETE')).toBe(0)
  expect(observed.filter(({ event }) => event === 'sessionReplaced')).toEqual([])
  expect(statesOf(observed).slice(2)).toEqual([
    'handshaking>active',
    'active>disposing',
    'disposing>created',
  ])
})

test('asks a stateless server for its era once for concurrent first calls', async () => {
  await using server = await startModernServer()
  await using client = new McpClient({ url: server.url })
  const calls = Array.from({ length: 20 }, (_, n) => client.callTool('echo', { text: String(n) }))
  expect((await Promise.all(calls)).map(textOf)).toEqual(calls.map((_, n) => String(n)))
  expect(server.count('server/discover')).toBe(1)
})

test('cancels a call in flight on a stateless server on dispose()', async () => {
  await using server = await startModernServer()
  await using client = new McpClient({ url: server.url })
  const error = rejectionOf(client.callTool('slow'))
  await server.ledger.waitFor({ tool: 'slow', state: 'running' })
  await client.dispose()
  expect(await error).toMatchObject({ code: 'CLOSED', outcome: 'unknown' })
  await server.ledger.waitFor({ state: 'cancelled' })
})

import { startModernServer } from '@x/mcp-testing'
import { expect, test } from 'vitest'
import { McpClient } from '../src/index.ts'
import { statesOf, recordEvents, textOf } from './setting.ts'

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

import { inspect } from 'node:util'
import { lossForms } from '@x/mcp-testing'
import { expect, test } from 'vitest'
import { McpClient } from '../src/index.ts'
import { is, recordEvents, rejectionOf, startSetting } from './setting.ts'

test('session ids, tokens and query strings appear in no event, log or error', async () => {
  await using setting = await startSetting()
  const { server, proxy } = setting
  await using client = new McpClient({
    url: `${proxy.url}?key=query-secret`,
    headers: { authorization: 'Bearer header-secret' },
  })
  const observed = recordEvents(client)
  const errors: unknown[] = []
  const ids = new Set<string>()
  const failing = async (call: Promise<unknown>): Promise<void> => {
    errors.push(await rejectionOf(call))
    for (const id of server.sessions) ids.add(id)
  }
  const once = (action: Parameters<typeof proxy.inject>[0]['action']): void => {
    proxy.inject({ match: is.tool('echo'), times: 1, action })
  }

  await client.listTools()
  for (const id of server.sessions) ids.add(id)
  server.forgetSessions()
  await client.ping()
  once('reset-after')
  await failing(client.callTool('echo', { text: 'x' }))
  once(lossForms['200-32600'])
  await failing(client.callTool('echo', { text: 'x' }))
  await client.ping()
  once({ status: 500, body: `Session ${await client.getSessionId()} is on fire` })
  await failing(client.callTool('echo', { text: 'x' }))
  once({ status: 404, body: `Session ${await client.getSessionId()} not found` })
  await client.callTool('echo', { text: 'x' })
  await failing(client.callTool('slow', {}, { timeoutMs: 30 }))
  proxy.inject({ match: is.initialize, times: 1, action: { status: 503, body: 'Overloaded' } })
  server.forgetSessions()
  await failing(client.callTool('echo', { text: 'x' }))
  await client.ping()
  for (const id of server.sessions) ids.add(id)
  proxy.inject({ match: is.delete, action: { status: 500 } })
  await client.dispose()

  expect(ids.size).toBeGreaterThanOrEqual(4)
  expect(errors).toHaveLength(5)
  const everything = inspect({ observed, errors }, { depth: 20, maxStringLength: null })
  expect(observed.map(({ event }) => event)).toEqual(
    expect.arrayContaining(['state', 'sessionReplaced', 'log', 'exchange']),
  )
  for (const secret of [...ids, 'query-secret', 'header-secret']) {
    expect(everything).not.toContain(secret)
  }
})

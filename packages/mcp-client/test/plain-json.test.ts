// What a program keeps or sends must survive JSON: an `Error`, a `Date`, a `Map` or an infinite number does not.
import { freePort, startLegacyServer, startModernServer, startTaskServer } from '@x/mcp-testing'
import { expect, test } from 'vitest'
import { McpClient } from '../src/index.ts'
import { is, recordEvents, rejectionOf, startSetting } from './setting.ts'

function expectPlainJson(value: unknown): void {
  expect(value).toBeDefined()
  expect(JSON.parse(JSON.stringify(value))).toEqual(value)
}

test('the status of a client is plain JSON: new, failed, and with sessions of scopes', async () => {
  const away = new McpClient({ url: `http://127.0.0.1:${await freePort()}/mcp` })
  expectPlainJson(away.status())
  await rejectionOf(away.ping())
  expect(away.status().lastError?.message).toContain('No connection to')
  expectPlainJson(away.status())

  await using server = await startLegacyServer({
    tools: [{ name: 'bad', inputSchema: { type: 'string' }, run: () => 'x' }],
  })
  await using client = new McpClient({ url: server.url })
  await client.listTools({ scope: { principal: 'ada', thread: 't1' } })
  const status = client.status()
  expect(status.sessions[0]?.leftOutTools).toHaveLength(1)
  expectPlainJson(status)
})

test('the message of the last error has no token, no query and no complete session id', async () => {
  await using setting = await startSetting()
  const headers = { authorization: 'Bearer header-secret' }
  await using client = new McpClient({ url: `${setting.proxy.url}?key=query-secret`, headers })
  await client.ping()
  const id = (await client.getSessionId()) ?? ''
  const body = `Session ${id} of Bearer header-secret is on fire`
  setting.proxy.inject({ match: is.tool('echo'), action: { status: 500, body } })
  await rejectionOf(client.callTool('echo', { text: 'x' }))
  const text = JSON.stringify(client.status())
  expect(client.status().lastError).toMatchObject({ code: 'REJECTED' })
  for (const secret of [id, 'header-secret', 'query-secret']) expect(text).not.toContain(secret)
})

test('the JSON of an error has its message and its code', async () => {
  await using setting = await startSetting()
  setting.proxy.inject({ match: is.tool('echo'), action: { status: 500, body: 'on fire' } })
  const error = await rejectionOf(setting.client.callTool('echo', { text: 'x' }))
  const message = expect.stringContaining('on fire')
  const { cause } = error as Error
  expect(JSON.parse(JSON.stringify({ error, cause }))).toMatchObject({
    error: { name: 'McpClientError', code: 'REJECTED', message, outcome: 'unknown' },
    cause: { name: 'TransportError', code: 'REJECTED', message, status: 500 },
  })
})

test('a task, its reference, and the questions of a call are plain JSON', async () => {
  await using tasks = await startTaskServer()
  await using client = new McpClient({ url: tasks.url })
  const { task } = await client.startTool('confirm_delete', { filename: 'a' })
  const asked = await task?.result({ inputRequired: 'surface' })
  for (const value of [asked, task?.reference, await task?.status()]) expectPlainJson(value)

  await using server = await startModernServer()
  await using asking = new McpClient({ url: server.url }, { capabilities: { elicitation: {} } })
  expectPlainJson(await asking.callTool('ask_twice', {}, { inputRequired: 'surface' }))
})

test('events about sessions and exchanges are plain JSON', async () => {
  await using setting = await startSetting()
  const observed = recordEvents(setting.client)
  await setting.client.listTools()
  setting.server.forgetSessions()
  await setting.client.listTools({ forceRefresh: true })
  const events = observed.filter(({ event }) => event !== 'log')
  expect(new Set(events.map(({ event }) => event))).toEqual(
    new Set(['state', 'exchange', 'sessionReplaced']),
  )
  for (const { payload } of events) expectPlainJson(payload)
})

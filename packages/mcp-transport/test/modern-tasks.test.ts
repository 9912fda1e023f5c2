import { TASKS_EXTENSION } from '@x/internal'
// The extension for tasks of 2026-07-28, under clients that declare it and clients that do not.
import { ResultSchema } from '@modelcontextprotocol/sdk/types.js'
import { startScriptedServer, startTaskServer } from '@x/mcp-testing'
import { expect, test } from 'vitest'
import { rawClient } from './raw-client.ts'
import { connectStock, getText } from './stock-client.ts'

const capabilities = { extensions: { [TASKS_EXTENSION]: {} } }
const slow = { name: 'slow_compute', arguments: { label: 'done' } }

test('a client of SDK v1 that does not declare tasks gets the results of calls', async () => {
  await using server = await startTaskServer()
  await using stock = await connectStock(server.url)
  const { client } = stock
  expect(getText(await client.callTool(slow))).toBe('done')
  const request = client.request({ method: 'tasks/get', params: { taskId: 't' } }, ResultSchema)
  await expect(request).rejects.toMatchObject({ code: -32601 })
  expect(server.tasks.size).toBe(0)
  expect(server.count('tasks/get')).toBe(0)
})

test('a client of SDK v1 that declares tasks gets them unchanged, and may use their methods', async () => {
  await using server = await startTaskServer()
  await using stock = await connectStock(server.url, { capabilities })
  const send = (method: string, params: Record<string, unknown>): Promise<unknown> =>
    stock.client.request({ method, params }, ResultSchema)
  const created = await send('tools/call', slow)
  const { taskId } = server.lastTask
  expect(created).toMatchObject({ resultType: 'task', taskId, status: 'working' })
  expect(await send('tasks/get', { taskId })).toMatchObject({ taskId, status: 'working' })
  expect(await send('tasks/update', { taskId, inputResponses: {} })).toEqual({})
  expect(await send('tasks/cancel', { taskId })).toEqual({})
  expect(await send('tasks/get', { taskId })).toMatchObject({ status: 'cancelled' })
  await expect(send('tasks/list', {})).rejects.toMatchObject({ code: -32601 })
  expect(server.count('tasks/list')).toBe(0)
  expect(server.violations).toEqual([])
})

test('a client that speaks 2026-07-28 itself gets the header with the id of the task', async () => {
  await using server = await startTaskServer()
  await using client = rawClient(server.url)
  const meta = {
    'io.modelcontextprotocol/protocolVersion': '2026-07-28',
    'io.modelcontextprotocol/clientCapabilities': capabilities,
  }
  await client.request('tools/call', { ...slow, _meta: meta })
  const { taskId } = server.lastTask
  const answer = await client.request('tasks/get', { taskId, _meta: meta })
  expect(answer).toMatchObject({ result: { resultType: 'complete', taskId } })
  expect(server.received.at(-1)?.headers).toMatchObject({ 'mcp-name': taskId })
  expect(server.violations).toEqual([])
})

test.each(['tools/list', 'prompts/get'])(
  'a task as the answer to %s is refused',
  async (method) => {
    await using server = await startScriptedServer({ [method]: { result: { resultType: 'task' } } })
    await using client = rawClient(server.url)
    await client.handshake(capabilities)
    await expect(client.request(method, { name: 'x' })).resolves.toMatchObject({
      error: { code: -32603, message: expect.stringContaining('"task"') },
    })
  },
)

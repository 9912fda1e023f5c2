import { expect, test } from 'vitest'
import { startTaskServer } from './task-server.ts'
import type { TaskServer } from './task-server.ts'

const extensions = { 'io.modelcontextprotocol/tasks': {} }

/** Sends one request as a client of 2026-07-28. Returns the message of the server. */
async function send(
  server: TaskServer,
  method: string,
  given: { params: object; meta?: object; declared?: boolean; user?: string },
): Promise<unknown> {
  const { params, declared = true, user } = given
  const meta = {
    ...given.meta,
    'io.modelcontextprotocol/protocolVersion': '2026-07-28',
    'io.modelcontextprotocol/clientCapabilities': declared ? { extensions } : {},
  }
  const response = await fetch(server.url, {
    method: 'POST',
    headers: {
      'content-type': 'application/json',
      accept: 'application/json, text/event-stream',
      ...(user === undefined ? {} : { authorization: `Bearer ${user}` }),
    },
    body: JSON.stringify({ jsonrpc: '2.0', id: 1, method, params: { ...params, _meta: meta } }),
  })
  return response.json()
}

test('starts tasks only for requests that declare the extension', async () => {
  await using server = await startTaskServer()
  const call = (name: string, declared: boolean): Promise<unknown> =>
    send(server, 'tools/call', { params: { name }, declared })
  expect(await call('slow_compute', false)).toMatchObject({ result: { content: [{}] } })
  expect(await call('failing_job', false)).toMatchObject({ error: { code: -32021 } })
  expect(await call('slow_compute', true)).toMatchObject({ result: { resultType: 'task' } })
  const { taskId } = server.lastTask
  const undeclared = { params: { taskId }, declared: false }
  expect(await send(server, 'tasks/get', undeclared)).toMatchObject({ error: { code: -32021 } })
})

test('knows the tasks of others as little as those that do not exist', async () => {
  await using server = await startTaskServer()
  await send(server, 'tools/call', { params: { name: 'slow_compute' }, user: 'ada' })
  const { taskId } = server.lastTask
  for (const method of ['tasks/get', 'tasks/update', 'tasks/cancel']) {
    const foreign = await send(server, method, { params: { taskId }, user: 'eve' })
    expect(foreign).toMatchObject({ error: { code: -32602 } })
    expect(foreign).toEqual(await send(server, method, { params: { taskId: 'x' }, user: 'eve' }))
  }
  expect(server.lastTask.status).toBe('working')
})

test('runs a call with the same key once, and refuses other arguments', async () => {
  await using server = await startTaskServer({ honoursKeys: true })
  const greet = (name: string, user: string): Promise<unknown> => {
    const meta = { 'io.github.x-mcp/idempotency-key': 'k' }
    return send(server, 'tools/call', {
      params: { name: 'greet', arguments: { name } },
      meta,
      user,
    })
  }
  expect(await greet('Ada', 'a')).toEqual(await greet('Ada', 'a'))
  expect(await greet('Eve', 'a')).toMatchObject({ error: { code: -32602 } })
  expect(await greet('Eve', 'b')).toMatchObject({ result: {} })
  expect(server.runs).toEqual(['greet', 'greet'])
})

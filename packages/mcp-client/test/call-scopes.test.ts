import { startLegacyServer, startTaskServer } from '@x/mcp-testing'
import { expect, test } from 'vitest'
import { McpClient } from '../src/index.ts'

const count = async (client: McpClient, principal?: string): Promise<unknown> => {
  const scope = principal === undefined ? undefined : { principal }
  return (await client.callTool('counter_add', {}, { scope })).structuredContent
}

test('a call that names a scope uses the session of that scope, and no other', async () => {
  await using server = await startLegacyServer()
  await using client = new McpClient({ url: server.url })
  await expect(count(client, 'ada')).resolves.toEqual({ count: 1 })
  await expect(count(client, 'bob')).resolves.toEqual({ count: 1 })
  await expect(count(client)).resolves.toEqual({ count: 1 })
  await expect(count(client, 'ada')).resolves.toEqual({ count: 2 })
  await expect(client.listTools({ scope: { principal: 'bob' } })).resolves.not.toEqual([])
  expect(server.sessions).toHaveLength(3)
  expect(client.status().sessions.map(({ scope }) => scope)).toEqual([
    undefined,
    { principal: 'ada' },
    { principal: 'bob' },
  ])
  await client.dispose()
  expect(server.sessions).toEqual([])
})

test('a scope of a call takes precedence over that of the client, and its session is closed when others are used more', async () => {
  await using server = await startLegacyServer()
  const options = { scope: { principal: 'client' }, idleScopes: { max: 1 } }
  await using client = new McpClient({ url: server.url }, options)
  await count(client)
  await count(client, 'ada')
  expect(server.sessions).toHaveLength(2)
  await count(client, 'bob')
  const scopes = (): unknown => client.status().sessions.map(({ scope }) => scope)
  await expect.poll(scopes).toEqual([{ principal: 'client' }, { principal: 'bob' }])
  expect(server.sessions).toHaveLength(2)
})

test('a task goes on in the scope that its call named', async () => {
  await using server = await startTaskServer()
  await using client = new McpClient({ url: server.url })
  const scope = { principal: 'ada' }
  const args = { seconds: 0.02, label: 'done' }
  const { task } = await client.startTool('slow_compute', args, { scope })
  expect(task?.reference.principal).toBe('ada')
  await expect(task?.result()).resolves.toMatchObject({ content: [{ text: 'done' }] })
  const reference = task?.reference
  if (reference === undefined) throw new Error('The call has become no task')
  const resumed = client.resumeTask(reference)
  await expect(resumed.result({ scope })).resolves.toMatchObject({ content: [{ text: 'done' }] })
  await expect(resumed.result()).rejects.toMatchObject({ code: 'TASK_REFERENCE' })
})

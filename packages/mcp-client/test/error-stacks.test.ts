import { freePort, startTaskServer } from '@x/mcp-testing'
import { expect, test, vi } from 'vitest'
import { McpClient, McpClientError } from '../src/index.ts'
import { answerWith, is, startSetting, stopClock } from './setting.ts'

/** The frame of this function must be in the stack of the error. */
async function callFromHere(call: () => Promise<unknown>): Promise<unknown> {
  try {
    return await call()
  } catch (error) {
    return error
  }
}

function expectCallerIn(error: unknown): void {
  expect(error).toBeInstanceOf(Error)
  expect(String((error as Error).stack)).toContain('callFromHere')
}

test.each([
  ['UNREACHABLE', 'reset-before'],
  ['OUTCOME_UNKNOWN', 'reset-after'],
  ['TIMEOUT', 'hang'],
] as const)('the stack of a failed call shows the line of its caller: %s', async (code, action) => {
  await using setting = await startSetting({ client: { timeoutMs: 10_000 } })
  const { client, proxy } = setting
  await client.listTools()
  proxy.inject({ match: is.tool('counter_add'), action })
  stopClock()
  const failing = callFromHere(() => client.callTool('counter_add'))
  if (code === 'TIMEOUT') {
    await proxy.waitFor(is.tool('counter_add'))
    await vi.advanceTimersByTimeAsync(10_000)
  }
  const error = await failing
  expect(error).toBeInstanceOf(McpClientError)
  expectCallerIn(error)
})

test('the stack of a list that cannot be used shows the line of its caller', async () => {
  await using setting = await startSetting()
  const { client, proxy } = setting
  const action = answerWith({ result: { tools: 'none' } })
  proxy.inject({ match: is.method('tools/list'), action })
  const error = await callFromHere(() => client.listTools())
  expect(error).toMatchObject({ code: 'UNEXPECTED_RESPONSE' })
  expectCallerIn(error)
})

const operations: Readonly<Record<string, (client: McpClient) => Promise<unknown>>> = {
  startTool: (client) => client.startTool('counter_add'),
  listTools: (client) => client.listTools({ forceRefresh: true }),
  listResources: (client) => client.listResources(),
  readResource: (client) => client.readResource('a://b'),
  getPrompt: (client) => client.getPrompt('p'),
  subscribeResource: (client) => client.subscribeResource('a://b'),
  ping: (client) => client.ping(),
  request: (client) => client.request({ method: 'shop/open' }),
}

test.each(Object.entries(operations))(
  'the stack of a failed operation shows the line of its caller, with and without a session: %s',
  async (_name, operation) => {
    await using setting = await startSetting({ client: { maxRetries: 0 } })
    const { client, proxy } = setting
    await client.callTool('echo', { text: 'x' })
    proxy.inject({ match: ({ httpMethod }) => httpMethod === 'POST', action: 'reset-after' })
    expectCallerIn(await callFromHere(() => operation(client)))

    const url = `http://127.0.0.1:${await freePort()}/mcp`
    await using away = new McpClient({ url })
    expectCallerIn(await callFromHere(() => operation(away)))
  },
)

test('the stack of an error of the server shows the line of the caller', async () => {
  await using setting = await startSetting()
  const { client } = setting
  for (const operation of [
    () => client.callTool('none'),
    () => client.getPrompt('p'),
    () => client.request({ method: 'shop/open' }),
  ]) {
    const error = await callFromHere(operation)
    expect(error).toMatchObject({ name: 'McpError' })
    expectCallerIn(error)
  }
})

test('callers that share a list each get an error with their own line', async () => {
  await using client = new McpClient({ url: `http://127.0.0.1:${await freePort()}/mcp` })
  const fromElsewhere = async (): Promise<unknown> => {
    try {
      return await client.listTools()
    } catch (error) {
      return error
    }
  }
  const [one, other] = await Promise.all([callFromHere(() => client.listTools()), fromElsewhere()])
  expectCallerIn(one)
  expect(String((other as Error).stack)).toContain('fromElsewhere')
  expect(String((other as Error).stack)).not.toContain('callFromHere')
})

test('the stack of a failed task shows the line of the caller', async () => {
  await using server = await startTaskServer()
  await using client = new McpClient({ url: server.url })
  expectCallerIn(await callFromHere(() => client.callTool('protocol_error_job')))
  const { task } = await client.startTool('slow_compute', { seconds: 60 })
  const stopped = await callFromHere(async () => task?.result({ timeoutMs: 1 }))
  expect(stopped).toMatchObject({ code: 'TIMEOUT' })
  expectCallerIn(stopped)
  server.tasks.clear()
  for (const operation of ['result', 'status', 'cancel'] as const) {
    const error = await callFromHere(async () => task?.[operation]())
    expect(error).toMatchObject({ code: 'TASK_EXPIRED' })
    expectCallerIn(error)
  }
})

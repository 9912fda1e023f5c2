// The client and the gateway on loopback: calls that the gateway continues as tasks.
import { interrupt, MemorySaver, START, StateGraph } from '@langchain/langgraph'
import { McpClient } from '@x/mcp-client'
import type { McpClientOptions, TaskReference } from '@x/mcp-client'
import { bearerAuth, createGateway } from '@x/mcp-gateway'
import type { Gateway } from '@x/mcp-gateway'
import { deferred, startRecordingProxy } from '@x/mcp-testing'
import type { Deferred, RecordingProxy } from '@x/mcp-testing'
import { expect, test } from 'vitest'
import { z } from 'zod'

interface World extends AsyncDisposable {
  readonly gateway: Gateway
  /** Between clients and the gateway. */
  readonly proxy: RecordingProxy
  /** Lets the waiting graph go on. */
  readonly go: Deferred<void>
  /** Number of executions of nodes with a side effect. */
  readonly payments: () => number
  readonly clientOf: (token: string, options?: McpClientOptions) => McpClient
}

const State = z.object({ key: z.string(), answer: z.string().optional() })

/** A gateway with two agents: `pay` waits until the test lets it go on, `ask` asks for a name. */
async function startWorld(policy: 'always' | 'never' = 'always'): Promise<World> {
  const go = deferred()
  let payments = 0
  const begin = (): StateGraph<typeof State> => new StateGraph(State)
  const pay = begin()
    .addNode('pay', async () => {
      payments++
      await go.promise
      return { answer: `payment ${payments}` }
    })
    .addEdge(START, 'pay')
    .compile()
  const ask = begin()
    .addNode('ask', () => ({ answer: `Hello, ${String(interrupt('Your name?'))}` }))
    .addEdge(START, 'ask')
    .compile({ checkpointer: new MemorySaver() })
  const output = ({ answer }: { readonly answer?: string | undefined }): string => String(answer)
  const gateway = createGateway({
    agents: {
      pay: { graph: pay, description: 'Pays', output },
      ask: { graph: ask, description: 'Asks', output },
    },
    auth: bearerAuth({
      ada: { token: 'token-of-ada-0123456789', scopes: ['*'] },
      eve: { token: 'token-of-eve-0123456789', scopes: ['*'] },
    }),
    tools: { tasks: policy },
    log: false,
  })
  const { url } = await gateway.listen({ port: 0 })
  const proxy = await startRecordingProxy(url)
  const clients: McpClient[] = []
  return {
    gateway,
    proxy,
    go,
    payments: () => payments,
    clientOf(name, options) {
      const headers = { authorization: `Bearer token-of-${name}-0123456789` }
      const client = new McpClient(
        { url: proxy.url, headers },
        { scope: { principal: name }, ...options },
      )
      clients.push(client)
      return client
    },
    async [Symbol.asyncDispose]() {
      go.resolve()
      for (const client of clients) await client.dispose()
      await proxy.close()
      await gateway.close()
    },
  }
}

const textOf = ({ content }: { readonly content: readonly object[] }): unknown =>
  content.map((part) => ('text' in part ? part.text : undefined)).join('\n')

test('a call becomes a task, its connections break, and its result arrives once', async () => {
  await using world = await startWorld()
  const { proxy, go } = world
  const call = world.clientOf('ada').callTool('pay', { key: '1' })
  await proxy.waitFor(({ rpcMethod, status }) => rpcMethod === 'tasks/get' && status === 200)
  proxy.inject({
    match: ({ rpcMethod }) => rpcMethod === 'tasks/get',
    times: 2,
    action: 'reset-before',
  })
  go.resolve()
  expect(textOf(await call)).toBe('payment 1')
  expect(world.payments()).toBe(1)
  expect(proxy.count({ rpcMethod: 'tools/call' })).toBe(1)
})

test('another client of the same user continues a task, and one of another user cannot', async () => {
  await using world = await startWorld()
  const first = world.clientOf('ada')
  const { task } = await first.startTool('pay', { key: '1' })
  if (task === undefined) throw new Error('The call has not become a task')
  const reference = JSON.parse(JSON.stringify(task.reference)) as TaskReference
  await first.dispose()
  const eve = world.clientOf('eve')
  await expect(eve.resumeTask(reference).result()).rejects.toMatchObject({ code: 'TASK_REFERENCE' })
  const forged = eve.resumeTask({ ...reference, principal: 'eve' })
  await expect(forged.result()).rejects.toMatchObject({ code: 'TASK_UNKNOWN' })
  const result = world.clientOf('ada').resumeTask(reference).result()
  world.go.resolve()
  expect(textOf(await result)).toBe('payment 1')
  expect(world.payments()).toBe(1)
})

test('a question of a graph reaches the handler, once', async () => {
  await using world = await startWorld()
  const asked: string[] = []
  const client = world.clientOf('ada', {
    handlers: {
      elicitation: ({ message }) => {
        asked.push(message)
        return { action: 'accept', content: { answer: 'Ada' } }
      },
    },
  })
  expect(textOf(await client.callTool('ask', { key: '1' }))).toBe('Hello, Ada')
  expect(asked).toEqual(['Your name?'])
})

test('two clients that continue one task at once get one result, and one answer counts', async () => {
  await using world = await startWorld()
  const asked: string[] = []
  const clientThatAnswers = (answer: string): McpClient =>
    world.clientOf('ada', {
      handlers: {
        elicitation: ({ message }) => {
          asked.push(message)
          return { action: 'accept', content: { answer } }
        },
      },
    })
  const clients = [clientThatAnswers('Ada'), clientThatAnswers('Bob')]
  for (const tool of ['pay', 'ask']) {
    const { task } = await clientThatAnswers('nobody').startTool(tool, { key: '1' })
    if (task === undefined) throw new Error('The call has not become a task')
    const results = clients.map((client) => client.resumeTask(task.reference).result())
    world.go.resolve()
    const [one, other] = (await Promise.all(results)).map(textOf)
    expect(one).toMatch(/^(payment 1|Hello, (Ada|Bob))$/)
    expect(other).toBe(one)
  }
  expect([1, 2]).toContain(asked.length) // at most once by each client
  expect(world.payments()).toBe(1)
})

test('an abort cancels the task', async () => {
  await using world = await startWorld()
  const caller = new AbortController()
  const client = world.clientOf('ada')
  const { task } = await client.startTool('pay', { key: '1' })
  const result = task?.result({ signal: caller.signal })
  await world.proxy.waitFor(({ rpcMethod, status }) => rpcMethod === 'tasks/get' && status === 200)
  caller.abort(new Error('enough'))
  await expect(result).rejects.toBe(caller.signal.reason)
  await expect(task?.result()).rejects.toMatchObject({ code: 'TASK_CANCELLED' })
})

test.each(['always', 'never'] as const)(
  'a call with a key whose answer is lost runs once (tasks: %s)',
  async (policy) => {
    await using world = await startWorld(policy)
    const { proxy, go } = world
    go.resolve()
    const isCall = ({ rpcMethod }: { readonly rpcMethod?: string | undefined }): boolean =>
      rpcMethod === 'tools/call'
    proxy.inject({ match: isCall, times: 1, action: 'reset-after' })
    const client = world.clientOf('ada')
    const result = await client.callTool('pay', { key: '1' }, { idempotencyKey: 'order-1' })
    expect(textOf(result)).toBe('payment 1')
    expect(proxy.count({ rpcMethod: 'tools/call' })).toBe(2)
    expect(world.payments()).toBe(1)
    const other = client.callTool('pay', { key: '2' }, { idempotencyKey: 'order-1' })
    await expect(other).rejects.toMatchObject({ code: -32602 })
    expect(world.payments()).toBe(1)
  },
)

// Calls that a stateless server interrupts with input requests: when a later round fails, the server has executed
// the earlier ones.
import { freePort, startModernServer, startRecordingProxy } from '@x/mcp-testing'
import type { InjectedAction } from '@x/mcp-testing'
import { describe, expect, test } from 'vitest'
import { McpClient } from '../src/index.ts'
import type { McpClientOptions } from '../src/index.ts'
import { misled, rejectionOf } from './setting.ts'

const overload: InjectedAction = { status: 429, headers: { 'retry-after': '1' } }
const instantly = { wait: () => Promise.resolve(), random: () => 0 }

async function given(options: McpClientOptions = {}) {
  const server = await startModernServer()
  const proxy = await startRecordingProxy(server.url)
  /** Input requests that the user has received. */
  const asked: string[] = []
  const client = new McpClient(
    { url: proxy.url },
    {
      retryTiming: instantly,
      handlers: {
        elicitation: ({ message }) => {
          asked.push(message)
          return Promise.resolve({ action: 'accept', content: { value: `re: ${message}` } })
        },
      },
      ...options,
    },
  )
  const requests = (): number => proxy.count({ rpcMethod: 'tools/call' })
  return {
    client,
    asked,
    requests,
    /** Rounds that the server has executed. */
    executions: () => server.count('tools/call'),
    /** The proxy answers the request with this number, counted from 1. */
    failRound: (number: number, action: InjectedAction) => {
      let seen = 0
      proxy.inject({
        match: ({ rpcMethod }) => rpcMethod === 'tools/call' && ++seen === number,
        times: 1,
        action,
      })
    },
    async [Symbol.asyncDispose]() {
      await client.dispose()
      await proxy.close()
      await server[Symbol.asyncDispose]()
    },
  }
}

describe('a call with several rounds', () => {
  test('repeats the round that was refused with 429, not the call', async () => {
    await using setting = await given()
    setting.failRound(2, overload)
    const result = await setting.client.callTool('ask_twice')
    expect(result.isError).toBeFalsy()
    expect(setting.asked).toEqual(['First name?', 'Last name?'])
    expect([setting.requests(), setting.executions()]).toEqual([4, 3])
  })

  test.each<readonly [string, InjectedAction]>([
    ['429', overload],
    [
      '429 with an error',
      {
        status: 429,
        body: '{"jsonrpc":"2.0","id":null,"error":{"code":-32000,"message":"Slow down"}}',
      },
    ],
    ['503', { status: 503, headers: { 'retry-after': '1' } }],
    ['401', { status: 401 }],
    ['a broken connection', 'reset-before'],
  ])('has an unknown outcome if the second round fails with %s', async (_name, action) => {
    await using setting = await given({ maxRetries: 0 })
    setting.failRound(2, action)
    const error = await rejectionOf(setting.client.callTool('ask_twice'))
    expect([error, Reflect.get(Object(error), 'data')]).toContainEqual(
      expect.objectContaining({ outcome: 'unknown' }),
    )
    expect([setting.requests(), setting.executions()]).toEqual([2, 1])
  })

  test('has an unknown outcome if the second round does not reach the server, and continues if it may run twice', async () => {
    const wrongPort = await freePort()
    let posts = 0
    let gone = 2
    await using dispatcher = misled(() =>
      ++posts === gone ? `http://127.0.0.1:${wrongPort}` : undefined,
    )
    await using setting = await given({ dispatcher: dispatcher.value })
    await setting.client.listTools()
    posts = 0
    const error = await rejectionOf(setting.client.callTool('ask_twice'))
    expect(error).toMatchObject({ code: 'UNREACHABLE', outcome: 'unknown' })
    expect(JSON.stringify(error)).not.toContain('First name')
    expect(setting.asked).toHaveLength(1)
    posts = 0
    gone = 2
    await setting.client.callTool('ask_twice', {}, { idempotent: true })
    expect(setting.asked).toHaveLength(3)
    expect(setting.executions()).toBe(4)
  })

  test('has an unknown outcome after `resume`, for any failure of the continuation', async () => {
    await using setting = await given({ maxRetries: 0 })
    const { client } = setting
    const asked = await client.callTool('ask_twice', {}, { inputRequired: 'surface' })
    const requestState = 'requestState' in asked ? String(asked.requestState) : ''
    const resume = { requestState, inputResponses: {} }
    setting.failRound(1, overload)
    const error = await rejectionOf(client.callTool('ask_twice', {}, { resume }))
    expect(error).toMatchObject({ code: 'REJECTED', outcome: 'unknown' })
    expect(setting.executions()).toBe(1)
  })

  test('has an unknown outcome after `resume` if its server cannot be reached', async () => {
    await using client = new McpClient({ url: `http://127.0.0.1:${await freePort()}/mcp` })
    const resume = { requestState: 'after the first round', inputResponses: {} }
    const error = await rejectionOf(client.callTool('ask_twice', {}, { resume }))
    expect(error).toMatchObject({ code: 'UNREACHABLE', outcome: 'unknown' })
  })
})

import { ToolMessage } from '@langchain/core/messages'
import { Command } from '@langchain/langgraph'
import { McpClient } from '@x/mcp-client'
import { startLegacyServer, startModernServer, startTaskServer } from '@x/mcp-testing'
import { fileURLToPath } from 'node:url'
import { describe, expect, test } from 'vitest'
import {
  createMcpTools,
  loadMcpTools,
  type McpToolSource,
  type ToolInterceptor,
} from '../src/index.ts'
import { toolCall, toolOf } from './listed-tools.ts'
import { startShop } from './shop.ts'

describe('interceptors', () => {
  test('write into their own copy of the arguments, not into the message of the model', async () => {
    const { mcp } = await startShop({
      interceptors: [
        (request, next) => {
          Object.assign(request.args, { by: 3 })
          Object.assign((request.args as { nested: object }).nested, { token: 'secret' })
          return next({ args: { by: 3 } })
        },
      ],
    })
    const call = toolCall('counter_add', { by: 2, nested: {} })
    await (await toolOf(mcp, 'counter_add')).invoke(call)
    expect(call.args).toEqual({ by: 2, nested: {} })
  })

  test('run in order: the first one sees a request first, and a result last', async () => {
    const seen: string[] = []
    const tracing =
      (name: string): ToolInterceptor =>
      async (request, next) => {
        seen.push(`${name} > ${request.tool.name} ${JSON.stringify(request.args)}`)
        const answer = await next()
        seen.push(`${name} <`)
        return answer
      }
    const { mcp } = await startShop({ interceptors: [tracing('a'), tracing('b')] })
    expect(await (await toolOf(mcp, 'counter_add')).invoke({ by: 2 })).toBe('counter is 2')
    expect(seen).toEqual(['a > counter_add {"by":2}', 'b > counter_add {"by":2}', 'b <', 'a <'])
  })

  test.each(['session', 'stateless'] as const)(
    'arguments, headers and _meta that they change reach a server (%s), for that call alone',
    async (kind) => {
      await using server =
        kind === 'session' ? await startLegacyServer() : await startModernServer()
      await using mcp = createMcpTools({
        servers: { shop: { url: server.url, headers: { 'X-Tenant': 'all', 'x-app': 'shop' } } },
        interceptors: [
          (_request, next) =>
            next({
              args: { text: 'hello' },
              headers: { 'x-tenant': 'ada' },
              meta: { 'example.com/reason': 'test' },
            }),
        ],
      })
      const name = kind === 'session' ? 'echo' : 'echo'
      const echo = (await mcp.listTools()).find((tool) => tool.name === name)
      expect(await echo?.invoke({ text: 'bye' })).toContain('hello')
      const [call, ...others] = server.received.filter(
        ({ rpcMethod }) => rpcMethod === 'tools/call',
      )
      expect(others).toEqual([])
      expect(call?.headers).toMatchObject({ 'x-tenant': 'ada', 'x-app': 'shop' })
      expect(JSON.stringify(call)).toContain('example.com/reason')
      const tenants = server.received
        .filter(({ rpcMethod }) => rpcMethod !== 'tools/call')
        .map(({ headers }) => headers['x-tenant'])
      expect(new Set(tenants)).toEqual(new Set(['all']))
    },
  )

  test('send nothing if one answers without next()', async () => {
    const { server, mcp } = await startShop({
      interceptors: [() => ({ content: [{ type: 'text', text: 'from the cache' }] })],
    })
    expect(await (await toolOf(mcp, 'counter_add')).invoke({})).toBe('from the cache')
    expect(server.count('tools/call')).toBe(0)
  })

  test('can replace a result, also by a message that the graph receives unchanged', async () => {
    const { server, mcp } = await startShop({
      interceptors: [
        async (request, next) => {
          await next()
          return new ToolMessage({
            content: 'done',
            tool_call_id: request.config.toolCall?.id ?? '',
            artifact: 'mine',
          })
        },
      ],
    })
    const answer: unknown = await (await toolOf(mcp, 'counter_add')).invoke(toolCall('counter_add'))
    expect(answer).toMatchObject({ content: 'done', artifact: 'mine', tool_call_id: 'call-1' })
    expect(server.executions('counter_add')).toBe(1)
  })

  test('can answer with a Command, which the graph receives unchanged', async () => {
    const command = new Command({ update: {} })
    const source: McpToolSource = {
      listTools: () => Promise.resolve([{ name: 'ask' }]),
      callTool: () => Promise.resolve({}),
    }
    const [ask] = await loadMcpTools(source, { interceptors: [() => command] })
    expect(await ask?.invoke(toolCall('ask'))).toBe(command)
  })

  test('fail the call with the name of the one that returns no answer', async () => {
    const source: McpToolSource = {
      listTools: () => Promise.resolve([{ name: 'look' }]),
      callTool: () => Promise.resolve({ content: [] }),
    }
    async function audited(_: unknown, next: Parameters<ToolInterceptor>[1]): Promise<void> {
      await next()
    }
    const interceptors = [audited as unknown as ToolInterceptor]
    const [look] = await loadMcpTools(source, { interceptors })
    await expect(look?.invoke({})).rejects.toThrow(
      /^The interceptor audited returned undefined: return what next\(\) gives/,
    )
  })

  test('never take the result of a server for a message', async () => {
    const source: McpToolSource = {
      listTools: () => Promise.resolve([{ name: 'trick' }]),
      callTool: () => {
        const answer = { content: [{ type: 'text', text: 'hi' }], lc_direct_tool_output: true }
        return Promise.resolve(answer)
      },
    }
    const [trick] = await loadMcpTools(source)
    expect(await trick?.invoke(toolCall('trick'))).toMatchObject({
      content: 'hi',
      status: 'success',
    })
  })

  test.each([
    [
      'at once',
      () => {
        throw new Error('no budget left')
      },
    ],
    ['later', () => Promise.reject(new Error('no budget left'))],
  ] as const)('pass the error that one throws %s unchanged, and send nothing', async (_, fail) => {
    const { server, mcp } = await startShop({ interceptors: [fail] })
    const counter = await toolOf(mcp, 'counter_add')
    await expect(counter.invoke(toolCall('counter_add'))).rejects.toThrow('no budget left')
    expect(server.count('tools/call')).toBe(0)
  })

  test('can repeat the call', async () => {
    const { mcp } = await startShop({
      interceptors: [
        async (_request, next) => {
          await next({ args: { by: 1 } })
          return next({ args: { by: 10 } })
        },
      ],
    })
    expect(await (await toolOf(mcp, 'counter_add')).invoke({ by: 5 })).toBe('counter is 11')
  })
})

describe('headers of an interceptor', () => {
  const interceptors: readonly ToolInterceptor[] = [
    (_request, next) => next({ headers: { 'x-tenant': 'ada' } }),
  ]

  test('reach the server of a client of the caller', async () => {
    await using server = await startLegacyServer()
    await using client = new McpClient({ url: server.url })
    const tools = await loadMcpTools(client, { interceptors })
    await tools.find(({ name }) => name === 'echo')?.invoke({ text: 'x' })
    const sent = server.received.filter(({ headers }) => headers['x-tenant'] === 'ada')
    expect(sent.map(({ rpcMethod }) => rpcMethod)).toEqual(['tools/call'])
  })

  test('reach the polls of a task', async () => {
    await using server = await startTaskServer()
    await using mcp = createMcpTools({ servers: { shop: { url: server.url } }, interceptors })
    const slow = await toolOf(mcp, 'slow_compute')
    await slow.invoke({ seconds: 0.02 })
    const sent = server.received.filter(({ headers }) => headers['x-tenant'] === 'ada')
    expect(new Set(sent.map(({ rpcMethod }) => rpcMethod))).toEqual(
      new Set(['tools/call', 'tasks/get']),
    )
  })

  test('are ignored for an entry with a command, and refused by a client of the caller', async () => {
    const args = [fileURLToPath(new URL('counting-program.mjs', import.meta.url))]
    const command = process.execPath
    const handshakeMs = 240_000 // a busy machine starts programs slowly
    await using mcp = createMcpTools({
      servers: { shop: { command, args } },
      handshakeMs,
      interceptors,
    })
    expect(await (await toolOf(mcp, 'pid')).invoke({})).toMatch(/^\d+$/)
    await using client = new McpClient({ command, args }, { handshakeMs })
    const [pid] = await loadMcpTools(client, { interceptors })
    await expect(pid?.invoke({})).rejects.toMatchObject({ code: 'CONFIG' })
  })
})

describe('headers of the run', () => {
  test('stay with their user among fifty users with interleaved calls', async () => {
    await using server = await startLegacyServer()
    await using mcp = createMcpTools({
      servers: {
        shop: {
          url: server.url,
          headers: async ({ configurable }) => {
            await Promise.resolve()
            return {
              'x-user': String(configurable['user']),
              authorization: `Bearer of-${String(configurable['user'])}`,
            }
          },
        },
      },
      principal: ({ configurable }) => String(configurable?.['user']),
      interceptors: [
        async ({ config }, next) => {
          await new Promise(setImmediate)
          return next({ headers: { 'x-call': String(config.configurable?.['user']) } })
        },
      ],
    })
    const users = Array.from({ length: 50 }, (_, index) => `user-${index}`)
    const config = (user: string) => ({ configurable: { user } })
    const [tools] = await Promise.all(users.map((user) => mcp.listTools({ config: config(user) })))
    const counter = tools?.find(({ name }) => name === 'counter_add')
    const answers = await Promise.all(
      [1, 2, 3].flatMap(() => users.map(async (user) => counter?.invoke({}, config(user)))),
    )
    expect(new Set(answers)).toEqual(new Set(['counter is 1', 'counter is 2', 'counter is 3']))
    const userOf = new Map<string, Set<unknown>>()
    for (const { headers, sessionId, rpcMethod } of server.received) {
      const user = headers['x-user']
      expect(user).toMatch(/^user-\d+$/)
      expect(headers['authorization']).toBe(`Bearer of-${String(user)}`)
      expect(headers['x-call']).toBe(rpcMethod === 'tools/call' ? user : undefined)
      if (sessionId === undefined) continue
      userOf.set(sessionId, (userOf.get(sessionId) ?? new Set()).add(user))
    }
    expect(userOf.size).toBe(50)
    expect([...userOf.values()].every((of) => of.size === 1)).toBe(true)
  })
})

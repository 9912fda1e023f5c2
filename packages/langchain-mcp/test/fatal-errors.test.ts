import { isToolMessage } from '@langchain/core/messages'
import { tool as toolFrom } from '@langchain/core/tools'
import { InMemoryStore, MemorySaver } from '@langchain/langgraph'
import { startLegacyServer } from '@x/mcp-testing'
import { createAgent, createMiddleware } from 'langchain'
import { describe, expect, test, vi } from 'vitest'
import {
  createMcpTools,
  McpToolError,
  runInSessionScope,
  type CreateMcpToolsOptions,
} from '../src/index.ts'
import { ScriptedModel } from './scripted-model.ts'

type Persistence = keyof typeof PERSISTENCE
const PERSISTENCE = {
  nothing: () => ({}),
  'a checkpointer': () => ({ checkpointer: new MemorySaver() }),
  'a checkpointer and a store': () => ({
    checkpointer: new MemorySaver(),
    store: new InMemoryStore(),
  }),
}
const KINDS = Object.keys(PERSISTENCE) as Persistence[]

const say = (content: string) => ({ messages: [{ role: 'user' as const, content }] })
const config = { configurable: { thread_id: 't1' } }

/** Counts its calls: an error that reaches the model causes a second call. */
function countedModel(): { readonly model: ScriptedModel; readonly asked: () => number } {
  const model = new ScriptedModel()
  const generate = vi.spyOn(model, '_generate')
  return { model, asked: () => generate.mock.calls.length }
}

async function rejectionOf(promise: Promise<unknown>): Promise<unknown> {
  return promise.then(
    () => {
      throw new Error('It did not reject')
    },
    (error: unknown) => error,
  )
}

describe.each(KINDS)('an agent with %s', (persistence) => {
  const fails = async (
    options: Partial<CreateMcpToolsOptions>,
    { content = 'call counter_add', prepare = (): void => {} } = {},
  ) => {
    await using server = await startLegacyServer()
    await using mcp = createMcpTools({
      servers: { shop: { url: server.url } },
      log: () => {},
      ...options,
    })
    const { model, asked } = countedModel()
    const tools = await mcp.listTools()
    prepare()
    const agent = createAgent({ model, tools, ...PERSISTENCE[persistence]() })
    const error = await rejectionOf(agent.invoke(say(content), config))
    expect(asked()).toBe(1)
    return { error, runs: server.executions('counter_add') }
  }

  test('ends with NO_RUN without runInSessionScope()', async () => {
    const { error, runs } = await fails({ session: 'run' })
    expect(error).toMatchObject({
      name: 'McpToolError',
      code: 'NO_RUN',
      outcome: 'not-executed',
      message: expect.stringContaining('runInSessionScope()'),
    })
    expect(runs).toBe(0)
  })

  test('ends with CONFIG without a principal', async () => {
    const { error } = await fails({
      principal: ({ configurable }) => String(configurable?.['user'] ?? ''),
    })
    expect(error).toMatchObject({ name: 'McpToolError', code: 'CONFIG' })
  })

  test("ends with the failure of a tool with onToolError: 'throw'", async () => {
    const { error } = await fails({ onToolError: 'throw' }, { content: 'call fail' })
    expect(McpToolError.is(error)).toBe(true)
    expect(error).toMatchObject({ code: 'TOOL_FAILED', outcome: 'executed' })
  })

  test('repeats the same call after the mistake is corrected', async () => {
    await using server = await startLegacyServer()
    let user: string | undefined
    await using mcp = createMcpTools({
      servers: { shop: { url: server.url } },
      principal: () => user ?? '',
    })
    user = 'ann'
    const tools = await mcp.listTools({ config })
    user = undefined
    const { model } = countedModel()
    const agent = createAgent({ model, tools, ...PERSISTENCE[persistence]() })
    const failed = agent.invoke(say('call counter_add'), config)
    expect(await rejectionOf(failed)).toMatchObject({ code: 'CONFIG' })
    user = 'ann'
    const again = persistence === 'nothing' ? say('call counter_add') : null
    const { messages } = await agent.invoke(again, config)
    expect(messages.filter(isToolMessage)).toMatchObject([{ status: 'success' }])
    expect(server.executions('counter_add')).toBe(1)
  })

  test('ends with the reason of the abort when its run is aborted', async () => {
    await using server = await startLegacyServer()
    const stop = new AbortController()
    const reason = new Error('The user left')
    await using mcp = createMcpTools({
      servers: { shop: { url: server.url } },
      session: 'run',
      interceptors: [
        (_request, next) => {
          stop.abort(reason)
          return next()
        },
      ],
    })
    const { model, asked } = countedModel()
    const tools = await mcp.listTools()
    const agent = createAgent({ model, tools, ...PERSISTENCE[persistence]() })
    let error: unknown
    const run = runInSessionScope(
      async () => {
        error = await rejectionOf(agent.invoke(say('call counter_add'), config))
      },
      { signal: stop.signal },
    )
    await run.catch(() => {})
    expect(error).toBe(reason)
    expect(asked()).toBe(1)
    expect(server.executions('counter_add')).toBe(0)
  })

  test('ends by its own signal, without a message for the model', async () => {
    await using server = await startLegacyServer()
    const stop = new AbortController()
    await using mcp = createMcpTools({
      servers: { shop: { url: server.url } },
      interceptors: [
        (_request, next) => {
          stop.abort()
          return next()
        },
      ],
    })
    const { model, asked } = countedModel()
    const tools = await mcp.listTools()
    const agent = createAgent({ model, tools, ...PERSISTENCE[persistence]() })
    const run = agent.invoke(say('call counter_add'), { ...config, signal: stop.signal })
    expect(String(await rejectionOf(run))).toMatch(/abort/i)
    expect(asked()).toBe(1)
  })

  test('still reports invalid arguments and failures to the model', async () => {
    await using server = await startLegacyServer()
    await using mcp = createMcpTools({ servers: { shop: { url: server.url } } })
    const { model, asked } = countedModel()
    const tools = await mcp.listTools()
    const agent = createAgent({ model, tools, ...PERSISTENCE[persistence]() })
    const { messages } = await agent.invoke(say('call cart_add {"item":7}\ncall fail'), config)
    expect(messages.filter(isToolMessage)).toMatchObject([{ status: 'error' }, { status: 'error' }])
    expect(asked()).toBe(2)
  })
})

test('lets a middleware handle the error of an onToolError function', async () => {
  await using server = await startLegacyServer()
  await using mcp = createMcpTools({
    servers: { shop: { url: server.url } },
    onToolError(error) {
      throw error
    },
  })
  const seen: unknown[] = []
  const agent = createAgent({
    model: new ScriptedModel(),
    tools: await mcp.listTools(),
    middleware: [
      createMiddleware({
        name: 'Watch',
        async wrapToolCall(request, handler) {
          try {
            return await handler(request)
          } catch (error) {
            seen.push(error)
            throw error
          }
        },
      }),
    ],
  })
  expect(await rejectionOf(agent.invoke(say('call fail')))).toMatchObject({
    code: 'TOOL_FAILED',
  })
  expect(seen).toMatchObject([{ code: 'TOOL_FAILED' }])
})

test('throws errors outside a graph, and if a tool calls another tool', async () => {
  await using server = await startLegacyServer()
  await using mcp = createMcpTools({
    servers: { shop: { url: server.url } },
    onToolError: 'throw',
  })
  const fail = (await mcp.listTools()).find(({ name }) => name === 'fail')
  expect(await rejectionOf(fail?.invoke({}) ?? Promise.resolve())).toMatchObject({
    code: 'TOOL_FAILED',
  })
  const careful = toolFrom(
    async (_args, runtime) =>
      fail?.invoke({ type: 'tool_call', id: 'own', name: 'fail', args: {} }, runtime).then(
        () => 'fine',
        ({ code }: McpToolError) => `caught ${code}`,
      ),
    { name: 'careful', description: 'Calls fail', schema: { type: 'object', properties: {} } },
  )
  const agent = createAgent({ model: new ScriptedModel(), tools: [careful] })
  const { messages } = await agent.invoke(say('call careful'))
  expect(messages.at(-1)?.text).toContain('caught TOOL_FAILED')
})

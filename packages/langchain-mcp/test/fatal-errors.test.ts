import { isToolMessage } from '@langchain/core/messages'
import { tool as toolFrom } from '@langchain/core/tools'
import { InMemoryStore, MemorySaver } from '@langchain/langgraph'
import { createAgent, createMiddleware } from 'langchain'
import { describe, expect, test, vi } from 'vitest'
import {
  McpToolError,
  runInSessionScope,
  type CreateMcpToolsOptions,
  type ToolInterceptor,
} from '../src/index.ts'
import { FAILED, isLowestLangGraph } from './lowest-langgraph.ts'
import { ScriptedModel } from './scripted-model.ts'
import { startShop } from './shop.ts'

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

async function rejectionOf(promise: Promise<unknown>): Promise<unknown> {
  return promise.then(
    () => {
      throw new Error('It did not reject')
    },
    (error: unknown) => error,
  )
}

describe.each(KINDS)('an agent with %s', (persistence) => {
  /** Counts the calls of the model: an error that reaches it causes a second one. */
  async function start(options: Partial<CreateMcpToolsOptions> = {}) {
    const { server, mcp } = await startShop({ log: () => {}, ...options })
    const model = new ScriptedModel()
    const generate = vi.spyOn(model, '_generate')
    const tools = await mcp.listTools({ config })
    const agent = createAgent({ model, tools, ...PERSISTENCE[persistence]() })
    const runs = (): number => server.executions('counter_add')
    const calls = (): number => server.count('tools/call')
    return { agent, asked: () => generate.mock.calls.length, runs, calls }
  }

  test('ends with NO_RUN without runInSessionScope()', async () => {
    const { agent, asked, runs, calls } = await start({ session: 'run' })
    expect(await rejectionOf(agent.invoke(say('call counter_add'), config))).toMatchObject({
      name: 'McpToolError',
      code: 'NO_RUN',
      outcome: 'not-executed',
      message: expect.stringContaining('runInSessionScope()'),
    })
    expect([asked(), runs(), calls()]).toEqual([1, 0, 0])
  })

  test("ends with the failure of a tool with onToolError: 'throw'", async () => {
    const { agent, asked } = await start({ onToolError: 'throw' })
    const error = await rejectionOf(agent.invoke(say('call fail'), config))
    expect(McpToolError.is(error)).toBe(true)
    expect(error).toMatchObject({ code: 'TOOL_FAILED', outcome: 'executed' })
    expect(asked()).toBe(1)
  })

  test('ends with CONFIG without a principal, and repeats the call when there is one', async () => {
    let user = 'ann'
    const { agent, asked, runs } = await start({ principal: () => user })
    user = ''
    const failed = agent.invoke(say('call counter_add'), config)
    expect(await rejectionOf(failed)).toMatchObject({ name: 'McpToolError', code: 'CONFIG' })
    expect(asked()).toBe(1)
    user = 'ann'
    const again = persistence === 'nothing' ? say('call counter_add') : null
    const { messages } = await agent.invoke(again, config)
    expect(messages.filter(isToolMessage)).toMatchObject([{ status: 'success' }])
    expect(runs()).toBe(1)
  })

  /** Aborts when the call is on its way. */
  async function startAborting(options: Partial<CreateMcpToolsOptions>, reason?: Error) {
    const stop = new AbortController()
    const abort: ToolInterceptor = (_request, next) => {
      stop.abort(reason)
      return next()
    }
    return { ...(await start({ ...options, interceptors: [abort] })), signal: stop.signal }
  }

  test('ends with the reason of the abort when its run is aborted', async () => {
    const reason = new Error('The user left')
    const { agent, asked, runs, signal } = await startAborting({ session: 'run' }, reason)
    let error: unknown
    const run = runInSessionScope(
      async () => {
        error = await rejectionOf(agent.invoke(say('call counter_add'), config))
      },
      { signal },
    )
    await run.catch(() => {})
    expect(error).toBe(reason)
    expect([asked(), runs()]).toEqual([1, 0])
  })

  test('ends by its own signal, without a message for the model', async () => {
    const { agent, asked, signal } = await startAborting({})
    const run = agent.invoke(say('call counter_add'), { ...config, signal })
    expect(String(await rejectionOf(run))).toMatch(/abort/i)
    expect(asked()).toBe(1)
  })

  test('still reports invalid arguments and failures to the model', async () => {
    const { agent, asked } = await start()
    const { messages } = await agent.invoke(say('call cart_add {"item":[7]}\ncall fail'), config)
    const answers = messages.filter(isToolMessage)
    expect(answers).toMatchObject([FAILED, FAILED])
    expect(answers.map(({ text }) => text)).toEqual([
      expect.stringContaining('do not fit'),
      expect.stringContaining('always fails'),
    ])
    expect(asked()).toBe(2)
  })
})

test('lets a middleware handle the error of an onToolError function', async () => {
  const { mcp } = await startShop({
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
  const failure = await rejectionOf(agent.invoke(say('call fail')))
  expect(failure).toMatchObject(
    isLowestLangGraph ? { cause: { code: 'TOOL_FAILED' } } : { code: 'TOOL_FAILED' },
  )
  expect(seen).toMatchObject([{ code: 'TOOL_FAILED' }])
})

test('throws errors outside a graph, and if a tool calls another tool', async () => {
  const { mcp } = await startShop({ onToolError: 'throw' })
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

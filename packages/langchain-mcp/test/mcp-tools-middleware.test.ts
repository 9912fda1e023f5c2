import { AIMessage, type BaseMessage } from '@langchain/core/messages'
import type { ChatResult } from '@langchain/core/outputs'
import { MemorySaver } from '@langchain/langgraph'
import { createAgent, tool as langChainTool } from 'langchain'
import { describe, expect, test } from 'vitest'
import {
  createMcpTools,
  runInSessionScope,
  ToolSearch,
  type McpTools,
  type ToolLogEntry,
} from '../src/index.ts'
import { interruptOnFrom, mcpToolsMiddleware } from '../src/middleware.ts'
import { AnsweringSource, toolFrom, toolOver } from './answering-source.ts'
import { startChangingServer } from './changing-server.ts'
import { namesOf } from './listed-tools.ts'
import { ScriptedModel } from './scripted-model.ts'
import { startShop } from './shop.ts'

test('interruptOnFrom() has the names that the model sees', () => {
  expect(Object.keys(interruptOnFrom([toolOver(new AnsweringSource())]))).toEqual(['add_item'])
})

/** Notes the names of the tools that are bound to it. */
class SpyingModel extends ScriptedModel {
  readonly #bound: string[][]

  constructor(bound: string[][]) {
    super()
    this.#bound = bound
  }

  override bindTools(tools: readonly { name: string }[] = []): this {
    this.#bound.push(namesOf(tools))
    return this
  }
}

/** Calls a tool with arguments that LangChain cannot read. */
class FencingModel extends ScriptedModel {
  override _generate(messages: BaseMessage[]): Promise<ChatResult> {
    const args = '```json\n{"item":"x"}\n```'
    const call = { type: 'invalid_tool_call', id: 'c1', name: 'add_item', args } as const
    const isAnswered = messages.at(-1)?.getType() === 'tool'
    const message = isAnswered
      ? new AIMessage('The end')
      : new AIMessage({ content: '', invalid_tool_calls: [call] })
    return Promise.resolve({ generations: [{ text: message.text, message }] })
  }
}

test('an agent makes a call whose arguments are in a fence, and does not end without a word', async () => {
  const source = new AnsweringSource()
  const middleware = [mcpToolsMiddleware(new ToolSearch([toolOver(source)]))]
  const agent = createAgent({ model: new FencingModel(), middleware })
  const { messages } = await agent.invoke({ messages: [{ role: 'user', content: 'Go' }] })
  expect(source.calls.map(({ args }) => args)).toEqual([{ item: 'x' }])
  expect(messages.at(-1)?.text).toBe('The end')
})

describe('the middleware', () => {
  const local = langChainTool(() => 'noon', { name: 'clock', description: 'Tells the time.' })

  function agentOf(mcp: McpTools, bound: string[][] = []) {
    return createAgent({
      model: new SpyingModel(bound),
      tools: [local],
      middleware: [mcpToolsMiddleware(mcp)],
      checkpointer: new MemorySaver(),
    })
  }
  const config = { configurable: { thread_id: 't1' } }
  const say = (content: string) => ({ messages: [{ role: 'user', content }] })

  test('gives a running agent the current tools of its servers, beside its own tools', async () => {
    await using server = await startChangingServer()
    await using mcp = createMcpTools({ servers: { bank: { url: server.url } } })
    const bound: string[][] = []
    const agent = agentOf(mcp, bound)
    const first = await agent.invoke(say('call look\ncall clock'), config)
    expect(first.messages.at(-1)?.text).toBe('look done\nnoon')
    expect(bound.at(-1)?.toSorted()).toEqual(['clock', 'look', 'pay'])
    server.add('sell')
    server.remove('pay')
    await expect.poll(async () => namesOf(await mcp.listTools())).toContain('sell')
    const second = await agent.invoke(say('call sell'), config)
    expect(second.messages.at(-1)?.text).toBe('sell done')
    expect(bound.at(-1)?.toSorted()).toEqual(['clock', 'look', 'sell'])
    const third = await agent.invoke(say('call pay'), config)
    expect(third.messages.at(-1)?.text).toContain('is no longer there')
    expect(server.runs).toEqual(['look', 'sell'])
  })

  test('removes tools that a server removed, also those that the agent was created with', async () => {
    await using server = await startChangingServer()
    await using mcp = createMcpTools({ servers: { bank: { url: server.url } } })
    const bound: string[][] = []
    const agent = createAgent({
      model: new SpyingModel(bound),
      tools: await mcp.listTools(),
      middleware: [mcpToolsMiddleware(mcp)],
    })
    server.remove('pay')
    await expect.poll(async () => namesOf(await mcp.listTools())).not.toContain('pay')
    const { messages } = await agent.invoke(say('call look'))
    expect(messages.at(-1)?.text).toBe('look done')
    expect(bound.at(-1)).toEqual(['look'])
  })

  test('remembers a limited number of names, for servers that list new tools each time', async () => {
    const source = new AnsweringSource()
    let name = 'first'
    const mcp = {
      toolSearch: async () => new ToolSearch([toolFrom({ source, name })]),
      status: () => [],
    }
    const { wrapModelCall, wrapToolCall } = mcpToolsMiddleware(mcp)
    const askModel = async (next: string): Promise<void> => {
      name = next
      await wrapModelCall?.(
        { tools: [], state: { messages: [] } } as never,
        (() => 'asked') as never,
      )
    }
    const callFirst = (): unknown =>
      wrapToolCall?.({ toolCall: { name: 'first', id: 'c1' } } as never, (() => 'unknown') as never)
    await askModel('first')
    await askModel('second')
    await expect(callFirst()).resolves.toMatchObject({ status: 'error' })
    for (let number = 0; number < 10_000; number++) await askModel(`tool_${number}`)
    await expect(callFirst()).resolves.toBe('unknown')
  })

  test('searches beside the other tools of the agent that calls, if several agents use it', async () => {
    const found = new ToolSearch([toolOver(new AnsweringSource())], { search: true })
    const { wrapModelCall, wrapToolCall } = mcpToolsMiddleware(found)
    const askModel = async (id: string, tools: readonly object[]): Promise<void> => {
      const answer = { tool_calls: [{ name: 'search_tools', id }] }
      const request = { tools, state: { messages: [] } }
      await wrapModelCall?.(request as never, (() => answer) as never)
    }
    await askModel('of one', [{ name: 'add_item' }])
    await askModel('of the other', [])
    const searchOf = async (id: string): Promise<unknown> => {
      const request = { toolCall: { name: 'search_tools', id } }
      return wrapToolCall?.(
        request as never,
        (({ tool }: { tool: { description: string } }) => tool.description) as never,
      )
    }
    expect(await searchOf('of one')).not.toContain('add_item')
    expect(await searchOf('of the other')).toContain('add_item')
  })

  test('does not ask a server that is down before each model call', async () => {
    await using server = await startChangingServer()
    const entries: ToolLogEntry[] = []
    await using mcp = createMcpTools({
      servers: { down: { url: 'http://127.0.0.1:9/mcp' }, bank: { url: server.url } },
      log: (entry) => entries.push(entry),
    })
    const { messages } = await agentOf(mcp).invoke(say('call look'), config)
    expect(messages.at(-1)?.text).toBe('look done')
    expect(entries.map(({ code }) => code)).toEqual(['SERVER_DOWN'])
  })

  test.each(['thread', 'run'] as const)(
    'opens one session for the lists of all threads that call nothing (session: %s)',
    async (session) => {
      const { server, mcp } = await startShop({ session, tools: { search: true } })
      const agent = agentOf(mcp)
      for (const id of ['t1', 't2', 't3']) {
        await runInSessionScope(() =>
          agent.invoke(say('call search_tools {"query":"counter"}'), {
            configurable: { thread_id: id },
          }),
        )
      }
      const opened = server.received.filter(({ rpcMethod }) => rpcMethod === 'initialize')
      expect(opened).toHaveLength(1)
      await expect.poll(() => server.sessions).toEqual([]) // the session of the list ends
    },
  )

  test('gives each user their own tools', async () => {
    const { mcp } = await startShop({
      principal: ({ configurable }) => String(configurable?.['user']),
    })
    const agent = agentOf(mcp)
    const of = (user: string) => ({ configurable: { user, thread_id: user } })
    const [ada, bob] = await Promise.all(
      ['ada', 'bob'].map((user) => agent.invoke(say('call counter_add'), of(user))),
    )
    expect(ada?.messages.at(-1)?.text).toBe('counter is 1')
    expect(bob?.messages.at(-1)?.text).toBe('counter is 1')
  })
})

import { ToolMessage } from '@langchain/core/messages'
import { InMemoryStore, MemorySaver } from '@langchain/langgraph'
import { stopClock } from '@x/internal/testing/clock'
import { startLegacyServer, type LegacyServer } from '@x/mcp-testing'
import { createAgent } from 'langchain'
import { describe, expect, test, vi } from 'vitest'
import { createMcpTools, type CreateMcpToolsOptions, type McpTools } from '../src/index.ts'
import { ScriptedModel } from './scripted-model.ts'
import { startShop } from './shop.ts'

async function call(
  mcp: McpTools,
  name: string,
  config: Record<string, unknown> = {},
): Promise<{ readonly content: string; readonly status: string; readonly artifact: unknown }> {
  const tool = (await mcp.listTools()).find((one) => one.name === name)
  return (await tool?.invoke({ type: 'tool_call', id: 'c1', name, args: {} }, config)) as never
}

const shopOf = (
  server: LegacyServer,
  options: Omit<CreateMcpToolsOptions, 'servers'> = {},
): McpTools => createMcpTools({ servers: { shop: { url: server.url } }, ...options })

const session = (artifact: unknown): unknown =>
  (artifact as { type: string }[] | undefined)?.find(({ type }) => type === 'mcp_session')

describe('a session that the server lost', () => {
  test('is reported in the artifact of the first result of the new session', async () => {
    const { server, mcp } = await startShop()
    expect(session((await call(mcp, 'counter_add')).artifact)).toBeUndefined()
    server.forgetSessions()
    const healed = await call(mcp, 'counter_add')
    expect(healed).toMatchObject({ status: 'success', content: 'counter is 1' })
    expect(session(healed.artifact)).toEqual({
      type: 'mcp_session',
      data: { replaced: true, epoch: 2, reason: expect.any(String) },
    })
    expect(session((await call(mcp, 'counter_add')).artifact)).toBeUndefined()
  })

  test('is reported with a failure too', async () => {
    const { server, mcp } = await startShop()
    await call(mcp, 'counter_add')
    server.forgetSessions()
    const failed = await call(mcp, 'fail')
    expect(failed).toMatchObject({ status: 'error', content: 'This tool always fails' })
    expect(session(failed.artifact)).toMatchObject({ data: { replaced: true } })
  })

  test('is reported to each thread that shared it, and not to later threads', async () => {
    const { server, mcp } = await startShop()
    const of = (thread_id: string) => ({ configurable: { thread_id } })
    await call(mcp, 'counter_add', of('t1'))
    await call(mcp, 'counter_add', of('t2'))
    server.forgetSessions()
    expect(session((await call(mcp, 'counter_add', of('t1'))).artifact)).toBeDefined()
    expect(session((await call(mcp, 'counter_add', of('t2'))).artifact)).toBeDefined()
    expect(session((await call(mcp, 'counter_add', of('t3'))).artifact)).toBeUndefined()
  })

  test('is reported to the next process of a thread', async () => {
    await using server = await startLegacyServer()
    const store = new InMemoryStore()
    const say = async (): Promise<unknown> => {
      await using mcp = shopOf(server, { session: 'thread' })
      const agent = createAgent({
        model: new ScriptedModel(),
        tools: await mcp.listTools(),
        checkpointer: new MemorySaver(),
        store,
      })
      const { messages } = await agent.invoke(
        { messages: [{ role: 'user', content: 'call counter_add' }] },
        { configurable: { thread_id: 't1' } },
      )
      return session(messages.findLast((one) => ToolMessage.isInstance(one))?.artifact)
    }
    expect(await say()).toBeUndefined()
    expect(await say()).toBeUndefined()
    server.forgetSessions()
    expect(await say()).toMatchObject({ data: { replaced: true } })
  })
})

test('a call over its limit is a TIMEOUT, and is cancelled on the server', async () => {
  const { server, mcp } = await startShop({ timeoutMs: 300, onToolError: 'throw' })
  stopClock()
  const error = call(mcp, 'slow').catch((reason: unknown) => reason)
  await server.ledger.waitFor({ tool: 'slow', state: 'running' })
  vi.advanceTimersByTime(300)
  expect(await error).toMatchObject({ code: 'TIMEOUT', outcome: 'unknown' })
  await expect.poll(() => server.ledger.received({ tool: 'slow', state: 'cancelled' })).toBe(1)
})

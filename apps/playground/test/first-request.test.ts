// An agent whose sessions and lists of tools are in the debug-state service, in its next process.
import { MemorySaver } from '@langchain/langgraph'
import { SessionInfoDebugStateFactory } from '@x/agents-debugstate'
import { createDebugStateServer, MemoryDebugStateStore } from '@x/agents-debugstate/server'
import { createMcpTools } from '@x/langchain-mcp'
import type { CreateMcpToolsOptions, McpTool } from '@x/langchain-mcp'
import { startLegacyServer, startModernServer, startRecordingProxy } from '@x/mcp-testing'
import { expect, onTestFinished, test, vi } from 'vitest'

const checkpointer = new MemorySaver()
const config = { configurable: { thread_id: 't1' }, checkpointer }

/** `records`: of the session and the list of tools, and of the session that has read the list. */
const modes: readonly {
  readonly mode: string
  readonly records: number
  readonly optionsFor: (
    factory: SessionInfoDebugStateFactory,
  ) => Omit<CreateMcpToolsOptions, 'servers'>
}[] = [
  { mode: 'one session for all calls', records: 2, optionsFor: (session) => ({ session }) },
  {
    mode: 'a session for each thread',
    records: 3,
    optionsFor: (sessionInfoFactory) => ({ session: 'thread', sessionInfoFactory }),
  },
]

test.each(
  modes.flatMap((one) => [
    { ...one, era: 'with sessions', start: () => startLegacyServer() },
    { ...one, era: 'without sessions', start: () => startModernServer() },
  ]),
)('is its call, with $mode, on a server $era', async ({ records, optionsFor, start }) => {
  await using server = await start()
  await using proxy = await startRecordingProxy(server.url)
  const store = new MemoryDebugStateStore()
  const put = vi.spyOn(store, 'put')
  await using service = createDebugStateServer({ store })
  const baseUrl = await service.listen()
  const startProcess = async (): Promise<McpTool | undefined> => {
    const factory = new SessionInfoDebugStateFactory({ baseUrl, agentId: 'agent' })
    const servers = { shop: proxy.url }
    const mcp = createMcpTools({ servers, elicitation: false, ...optionsFor(factory) })
    onTestFinished(async () => {
      await mcp.close()
      await factory.close()
    })
    return (await mcp.listTools()).find(({ name }) => name === 'echo')
  }
  const first = await startProcess()
  expect(await first?.invoke({ text: 'a' }, config)).toBe('a')
  const keys = (): unknown => new Set(put.mock.calls.map(([{ key }]) => key)).size
  await expect.poll(keys).toBe(records)

  const mark = proxy.mark()
  const next = await startProcess()
  expect(mark.exchanges()).toEqual([])
  expect(await next?.invoke({ text: 'b' }, config)).toBe('b')
  expect(mark.exchanges()[0]).toMatchObject({ rpcMethod: 'tools/call', status: 200 })
  expect(mark.count({ rpcMethod: 'initialize' })).toBe(0)
})

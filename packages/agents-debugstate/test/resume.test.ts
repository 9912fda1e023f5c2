import { McpClient } from '@x/mcp-client'
import { startLegacyServer } from '@x/mcp-testing'
import { expect, test } from 'vitest'
import { SessionInfoDebugStateFactory } from '../src/index.ts'
import { SqliteDebugStateStore, createDebugStateServer } from '../src/server/index.ts'
import type { DebugStateServer } from '../src/server/index.ts'
import { temporaryFolder } from './temporary-folder.ts'

const TOKEN = 'token-of-the-agent'

function serveState(store: SqliteDebugStateStore): DebugStateServer {
  return createDebugStateServer({ store, tokens: [{ token: TOKEN, agentIds: ['agent'] }] })
}

/** One process of an agent: its own client and factory. */
async function runAgent(
  baseUrl: string,
  url: string,
  work: (client: McpClient) => Promise<void>,
): Promise<void> {
  const warnings: string[] = []
  await using sessionInfoFactory = new SessionInfoDebugStateFactory({
    baseUrl,
    agentId: 'agent',
    token: TOKEN,
    onWarning: ({ code }) => warnings.push(code),
  })
  {
    await using client = new McpClient({ url }, { sessionInfoFactory })
    await work(client)
  }
  expect(warnings).toEqual([])
}

test('resumes the same session in the next process, without a handshake', async () => {
  await using folder = await temporaryFolder()
  await using mcp = await startLegacyServer()
  let id: string | undefined

  await using first = new SqliteDebugStateStore(folder.file('state.db'))
  await using service = serveState(first)
  await runAgent(await service.listen(), mcp.url, async (client) => {
    await client.callTool('counter_add')
    id = await client.getSessionId()
  })
  await service.close()
  await first.close()

  // The service may also restart in between.
  await using second = new SqliteDebugStateStore(folder.file('state.db'))
  await using restarted = serveState(second)
  await runAgent(await restarted.listen(), mcp.url, async (client) => {
    const { content } = await client.callTool('counter_add')
    expect(content).toEqual([{ type: 'text', text: 'counter is 2' }])
    expect(await client.getSessionId()).toBe(id)
  })
  expect(mcp.count('initialize')).toBe(1)
  expect(mcp.count('tools/call')).toBe(2)
})

test('replaces a session that the server has forgotten, also for the next process', async () => {
  await using folder = await temporaryFolder()
  await using mcp = await startLegacyServer()
  await using store = new SqliteDebugStateStore(folder.file('state.db'))
  await using service = serveState(store)
  const baseUrl = await service.listen()
  const ids: (string | undefined)[] = []
  const work = async (client: McpClient): Promise<void> => {
    await client.callTool('counter_add')
    ids.push(await client.getSessionId())
  }
  await runAgent(baseUrl, mcp.url, work)
  mcp.forgetSessions()
  await runAgent(baseUrl, mcp.url, work)
  await runAgent(baseUrl, mcp.url, work)
  expect(mcp.count('initialize')).toBe(2)
  expect(ids[1]).not.toBe(ids[0])
  expect(ids[2]).toBe(ids[1])
})

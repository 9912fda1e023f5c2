import assert from 'node:assert/strict'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { startLegacyServer } from '@x/mcp-testing'
import { createMcpAgent, openTools } from '../src/agent.ts'

test('continues the session of a process that ended', async (t) => {
  const folder = await mkdtemp(join(tmpdir(), 'sessions-'))
  const server = await startLegacyServer() // a real MCP server on a free port
  t.after(async () => {
    await server[Symbol.asyncDispose]()
    await rm(folder, { recursive: true })
  })
  for (const name of ['ANTHROPIC_API_KEY', 'OPENAI_API_KEY']) delete process.env[name]
  Object.assign(process.env, { MCP_URL: server.url, SESSIONS_FOLDER: folder })

  for (const item of ['apple', 'pear']) {
    const mcp = openTools() // as a new process does
    const agent = await createMcpAgent(mcp)
    const content = `cart_add {"item":"${item}"}`
    const { messages } = await agent.invoke({ messages: [{ role: 'user', content }] })
    assert.match(messages.at(-1)?.text ?? '', new RegExp(item))
    await mcp.close()
  }

  assert.equal(server.ledger.executions('cart_add'), 2)
  assert.equal(server.count('initialize'), 1)
})

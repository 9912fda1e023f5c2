import assert from 'node:assert/strict'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { McpClient } from '@x/mcp-client'
import { createGateway, langGraphSource } from '@x/mcp-gateway'
import { startLegacyServer } from '@x/mcp-testing'

test('offers the agent as a tool', async (t) => {
  const folder = await mkdtemp(join(tmpdir(), 'sessions-'))
  const server = await startLegacyServer() // a real MCP server on a free port
  for (const name of ['ANTHROPIC_API_KEY', 'OPENAI_API_KEY']) delete process.env[name]
  Object.assign(process.env, { MCP_URL: server.url, SESSIONS_FOLDER: folder })
  const gateway = createGateway({ sources: [langGraphSource('langgraph.json')], log: false })
  await gateway.registry.start() // loads the graphs
  const { url } = await gateway.listen({ port: 0 })
  const client = new McpClient({ url })
  t.after(async () => {
    await client.dispose()
    await gateway.close()
    await server[Symbol.asyncDispose]()
    await rm(folder, { recursive: true })
  })

  const { content } = await client.callTool('assistant', { message: 'cart_add {"item":"apple"}' })
  assert.match(JSON.stringify(content), /The tool says: .*apple/)
  assert.equal(server.ledger.executions('cart_add'), 1)
})

import { startLegacyServer } from '@x/mcp-testing'
import { expect, test, vi } from 'vitest'
import * as first from '../src/index.ts'

vi.resetModules()
const second = await import('../src/index.ts')

test('a client of one copy of the package belongs to a run of another copy', async () => {
  expect(second.McpClient).not.toBe(first.McpClient)
  await using server = await startLegacyServer()
  await using client = new second.McpClient(server.url, { scope: 'run' })
  const id = await first.runInSessionScope(async () => {
    await client.callTool('echo', { text: 'hi' })
    return second.currentRun()?.id
  })
  expect(id).toMatch(/^run_/)
})

test('overrides of one copy of the package apply to a client of another copy', async () => {
  await using server = await startLegacyServer()
  const directory = new second.StaticServerDirectory({ shop: 'http://shop.test/mcp' })
  await using client = new second.McpClient({ slug: 'shop' }, { directory })
  const overrides = { 'mcpServer.shop': { url: server.url } }
  await first.withOverrides(overrides, () => client.callTool('echo', { text: 'hi' }))
  expect(server.count('tools/call')).toBe(1)
})

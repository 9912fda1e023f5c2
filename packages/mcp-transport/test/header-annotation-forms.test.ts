import { expect, test, vi } from 'vitest'
import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client'
import { headerAnnotationForms } from './header-annotation-forms.ts'
import { startScriptedServer } from '@x/mcp-testing'

test('leaves out the same tools as the client of SDK v2', async () => {
  using warn = vi.spyOn(console, 'warn').mockReturnValue()
  const forms = Object.entries(headerAnnotationForms)
  const tools = forms.map(([name, { inputSchema }]) => ({ name, inputSchema }))
  await using server = await startScriptedServer({
    'tools/list': { result: { tools, ttlMs: 0, cacheScope: 'private' } },
  })
  const client = new Client(
    { name: 'test', version: '1.0.0' },
    { versionNegotiation: { mode: { pin: '2026-07-28' } } },
  )
  await client.connect(new StreamableHTTPClientTransport(new URL(server.url)))
  const kept = (await client.listTools()).tools.map((tool) => tool.name)
  expect(kept).toEqual(forms.flatMap(([name, { fault }]) => (fault === undefined ? [name] : [])))
  await client.close()
  expect(warn).toHaveBeenCalled() // with the reasons
})

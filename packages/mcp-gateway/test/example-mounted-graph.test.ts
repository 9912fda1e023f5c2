import { readFile } from 'node:fs/promises'
import { fileURLToPath } from 'node:url'

import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client'
import { expect, test, vi } from 'vitest'

const here = (path: string): string => fileURLToPath(new URL(path, import.meta.url))

test('the example of the README serves a graph in an application of Hono to who has the token', async () => {
  const example = await readFile(here('example-graph.ts'), 'utf8')
  expect(await readFile(here('../README.md'), 'utf8')).toContain(`\`\`\`ts\n${example}\`\`\``)
  vi.stubEnv('MCP_TOKEN', 'a-token-of-some-length')
  const { app } = await import('./example-graph.ts')
  // What a `langgraph.json` names as `http.app` is such an application, too: there is no Node server under it.
  const transportWith = (token: string): StreamableHTTPClientTransport =>
    new StreamableHTTPClientTransport(new URL('http://agents.example/mcp'), {
      fetch: async (url, init) => app.request(String(url), init),
      requestInit: { headers: { authorization: `Bearer ${token}` } },
    })
  const info = { name: 'test', version: '1.0.0' }
  const client = new Client(info, { versionNegotiation: { mode: 'auto' } })
  await expect(client.connect(transportWith('wrong'))).rejects.toThrow(/401/)
  await client.connect(transportWith('a-token-of-some-length'))
  expect((await client.listTools()).tools).toMatchObject([{ name: 'support' }])
  const result = await client.callTool({ name: 'support', arguments: { message: 'Where is it?' } })
  expect(result.content).toEqual([{ type: 'text', text: 'You said: Where is it?' }])
  await client.close()
})

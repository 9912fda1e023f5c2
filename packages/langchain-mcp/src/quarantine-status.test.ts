import { handlerDispatcher } from '@x/internal/testing/undici'
import { expect, test } from 'vitest'
import { createMcpTools } from './create-mcp-tools.ts'

const TOOLS = [
  { name: 'good', inputSchema: { type: 'object' } },
  { name: 'bad', inputSchema: { type: 'object', properties: { a: { $ref: '#/nowhere' } } } },
]

/** A stateless answer to each request of the handshake, and to the list. */
async function answered(request: Request): Promise<Response> {
  if (request.method !== 'POST') return new Response(null, { status: 405 })
  const { id, method } = (await request.json()) as { id?: number; method: string }
  if (id === undefined) return new Response(null, { status: 202 })
  const serverInfo = { name: 'shop', version: '1' }
  const capabilities = { tools: {} }
  const results: Readonly<Record<string, unknown>> = {
    initialize: { protocolVersion: '2025-11-25', capabilities, serverInfo },
    'tools/list': { tools: TOOLS },
  }
  return Response.json({ jsonrpc: '2.0', id, result: results[method] ?? {} })
}

test('names the unusable tools of the last list in the status of a server', async () => {
  const dispatcher = handlerDispatcher(answered)
  await using mcp = createMcpTools({
    servers: { shop: { url: 'http://shop.test/mcp' } },
    dispatcher,
    era: 'legacy',
    log: () => {},
  })
  for (let times = 0; times < 2; times++) {
    expect((await mcp.listTools()).map(({ name }) => name)).toEqual(['good'])
  }
  expect(mcp.status()).toMatchObject([
    { name: 'shop', state: 'up', quarantined: [{ toolName: 'bad' }] },
  ])
  expect(mcp.status()[0]?.quarantined).toHaveLength(1)
})

import { expect, test } from 'vitest'

import { Runtime } from './runtime.ts'
import type { McpHandlers } from '../mcp/handlers.ts'

/** Answer no request but those that every server answers. */
const bareHandlers: McpHandlers = {
  serverInfo: { name: 'bare', version: '1.0.0' },
  instructions: undefined,
  capabilities: () => ({}),
  handle: (method) => {
    throw new Error(`Unexpected: ${method}`)
  },
}

const HEADERS = {
  host: 'localhost',
  'content-type': 'application/json',
  accept: 'application/json, text/event-stream',
}

function post(method: string, params: object, headers: object = {}): Request {
  return new Request('http://localhost/mcp', {
    method: 'POST',
    headers: { ...HEADERS, ...headers },
    body: JSON.stringify({ jsonrpc: '2.0', id: 1, method, params }),
  })
}

test('serves handlers other than those of agents in all revisions', async () => {
  await using runtime = new Runtime({}, { makeHandlers: () => bareHandlers })

  const initialized = await runtime.fetch(
    post('initialize', {
      protocolVersion: '2025-11-25',
      capabilities: {},
      clientInfo: { name: 'client', version: '1.0.0' },
    }),
  )
  expect(initialized.headers.get('mcp-session-id')).toMatch(/^[!-~]+$/)
  expect(await initialized.text()).toContain('"name":"bare"')

  const meta = {
    'io.modelcontextprotocol/protocolVersion': '2026-07-28',
    'io.modelcontextprotocol/clientCapabilities': {},
  }
  const discover = post(
    'server/discover',
    { _meta: meta },
    { 'mcp-protocol-version': '2026-07-28', 'mcp-method': 'server/discover' },
  )
  expect(await (await runtime.fetch(discover)).text()).toContain('"name":"bare"')

  const rebound = post('server/discover', { _meta: meta }, { host: 'evil.example' })
  expect((await runtime.fetch(rebound)).status).toBe(403)
})

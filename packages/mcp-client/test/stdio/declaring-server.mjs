// A server that declares skills and idempotency keys, and exits in the middle of a tool call.
import { createInterface } from 'node:readline'

const capabilities = {
  tools: {},
  resources: {},
  experimental: { 'io.github.x-mcp/idempotency': { retentionMs: 60_000 } },
  extensions: { 'io.modelcontextprotocol/skills': {} },
}

const results = {
  initialize: {
    protocolVersion: '2025-11-25',
    capabilities,
    serverInfo: { name: 'declaring', version: '1.0.0' },
  },
  ping: {},
  'skills/list': { skills: [] },
}

for await (const line of createInterface({ input: process.stdin })) {
  const { id, method } = JSON.parse(line)
  if (method === 'tools/call') {
    process.stderr.write('called\n', () => process.exit(1))
    break
  }
  const result = results[method]
  if (id !== undefined) process.stdout.write(`${JSON.stringify({ jsonrpc: '2.0', id, result })}\n`)
}

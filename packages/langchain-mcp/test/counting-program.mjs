// A server on stdio whose tool returns the id of its process.
import { createInterface } from 'node:readline'

const results = {
  initialize: {
    protocolVersion: '2025-11-25',
    capabilities: { tools: {} },
    serverInfo: { name: 'counting', version: '1' },
  },
  'tools/list': { tools: [{ name: 'pid', inputSchema: { type: 'object' } }] },
  'tools/call': { content: [{ type: 'text', text: String(process.pid) }] },
}

createInterface({ input: process.stdin }).on('line', (line) => {
  const { id, method } = JSON.parse(line)
  if (id === undefined) return
  process.stdout.write(`${JSON.stringify({ jsonrpc: '2.0', id, result: results[method] ?? {} })}\n`)
})

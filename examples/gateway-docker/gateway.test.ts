import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { createInterface } from 'node:readline'
import { test } from 'node:test'
import { McpClient } from '@x/mcp-client'

const token = 'a-token-for-this-test'

test('the gateway offers the graph to callers with the token', async () => {
  const args = ['node_modules/@x/mcp-gateway/dist/cli.js', 'serve', 'gateway.yaml']
  const env = { ...process.env, HOST: '127.0.0.1', PORT: '0', MCP_TOKEN: token }
  const gateway = spawn(process.execPath, args, { env, stdio: ['ignore', 'pipe', 'inherit'] })
  const exited = once(gateway, 'exit')
  try {
    const line = once(createInterface({ input: gateway.stdout }), 'line')
    const [url] = await Promise.race([line, exited.then(() => assert.fail('It did not start'))])
    assert.equal((await fetch(new URL('/readyz', url))).status, 200)
    assert.equal((await fetch(url, { method: 'POST' })).status, 401)
    const headers = { authorization: `Bearer ${token}` }
    await using client = new McpClient({ url, headers })
    const { content } = await client.callTool('orders', { message: 'Where is order 17?' })
    assert.deepEqual(content, [{ type: 'text', text: 'Order 17 is on its way.' }])
  } finally {
    gateway.kill('SIGTERM')
  }
  assert.deepEqual(await exited, [0, null])
})

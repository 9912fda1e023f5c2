import { Client } from '@modelcontextprotocol/sdk/client/index.js'
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js'
import { expect, test } from 'vitest'
import { startEverythingServer } from './everything-server.ts'

test('runs two servers concurrently, and ends them when they are disposed of', async () => {
  const pids: number[] = []
  {
    await using one = await startEverythingServer()
    await using two = await startEverythingServer()
    pids.push(one.pid, two.pid)
    const client = new Client({ name: 'test', version: '1.0.0' })
    await client.connect(new StreamableHTTPClientTransport(new URL(one.url)))
    await expect(
      client.callTool({ name: 'echo', arguments: { message: 'hello' } }),
    ).resolves.toMatchObject({ content: [{ text: 'Echo: hello' }] })
    expect(two.url).not.toBe(one.url)
    await client.close()
  }
  for (const pid of pids) expect(() => process.kill(pid, 0)).toThrow('ESRCH')
})

test('rejects if the start takes too long', async () => {
  await expect(startEverythingServer({ startMs: 1 })).rejects.toThrow('did not start')
})

import { expect, test } from 'vitest'
import { connectStockClient } from '../test/stock-client.ts'
import { startEverythingServer } from './everything-server.ts'

test(
  'two of them run side by side and end when they are disposed of',
  { timeout: 60_000 },
  async () => {
    const pids: number[] = []
    {
      await using one = await startEverythingServer()
      await using two = await startEverythingServer()
      pids.push(one.pid, two.pid)
      await using client = await connectStockClient(one.url)
      await expect(
        client.callTool({ name: 'echo', arguments: { message: 'hello' } }),
      ).resolves.toMatchObject({ content: [{ text: 'Echo: hello' }] })
      expect(two.url).not.toBe(one.url)
    }
    for (const pid of pids) expect(() => process.kill(pid, 0)).toThrow('ESRCH')
  },
)

test('a start that takes too long is an error', async () => {
  await expect(startEverythingServer({ startMs: 1 })).rejects.toThrow('did not start')
})

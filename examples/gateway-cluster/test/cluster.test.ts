import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import type { McpClient } from '@x/mcp-client'
import { startCluster } from './cluster.ts'

const cluster = await startCluster()
after(() => cluster[Symbol.asyncDispose]())
const { gateways, nginx, worker } = cluster

test('a rolling restart loses no call, and hands the task over', async () => {
  const clients = [cluster.connect('modern'), cluster.connect('legacy')]
  const over = new AbortController()
  const load = clients.map(async (client) => {
    for (let n = 0; !over.signal.aborted; n++) {
      await ask(client, String(n))
      await sleep(250) // a gateway takes 600 calls of one caller in a minute
    }
  })
  const restartAll = async (): Promise<void> => {
    const started = await clients[0]?.startTool('report', { message: 'Begin' })
    await worker.begins('research', 1)
    assert.equal(await worker.end(), 0)
    await worker.startAgain()
    for (const [index, gateway] of gateways.entries()) {
      await nginx.balance(gateways.map(({ port }, at) => (at === index ? 'down' : port)))
      assert.equal(await gateway.end(), 0)
      await gateway.startAgain()
      await nginx.balance(gateways.map(({ port }) => port))
    }
    const { content } = (await started?.task?.result()) ?? {}
    assert.deepEqual(content, [{ type: 'text', text: 'write is done' }])
  }
  try {
    await Promise.race([restartAll(), Promise.all(load)])
    assert.equal(worker.count('write'), 1)
  } finally {
    over.abort()
  }
  await Promise.all(load)
  for (const client of clients) await client.dispose()
})

test('calls and a task go on when a gateway is killed', async () => {
  for (const service of [...gateways, worker]) {
    assert.equal(await service.statusOf('/readyz'), 200)
    assert.equal(await service.statusOf('/metrics'), 200)
  }
  for (const path of ['/metrics', '/readyz', '/agents/metrics', '/agents/readyz']) {
    assert.equal((await fetch(nginx.url + path)).status, 404)
  }

  await using modern = cluster.connect('modern')
  await using legacy = cluster.connect('legacy')
  await ask(legacy, 'before')
  const session = await legacy.getSessionId()
  const before = worker.count('research')
  const { task } = await modern.startTool('report', { message: 'Begin' })
  await worker.begins('research', before + 1)
  await gateways[0]?.end('SIGKILL')
  for (const client of [modern, legacy, modern, legacy]) await ask(client, 'after')
  assert.equal(await legacy.getSessionId(), session)
  assert.deepEqual((await task?.result())?.content, [{ type: 'text', text: 'write is done' }])
  assert.equal(worker.count('research'), before + 1)
})

async function ask(client: McpClient, message: string): Promise<void> {
  const { content } = await client.callTool('orders', { message })
  assert.deepEqual(content, [{ type: 'text', text: `You asked: ${message}` }])
}

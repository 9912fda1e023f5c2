import { getEventListeners } from 'node:events'
import { setImmediate } from 'node:timers/promises'
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import { startStatefulServer } from '@x/test-kit'
import { expect, test } from 'vitest'
import { McpClient, runInSessionScope, SessionPool } from '../src/index.ts'
import type { SessionScope } from '../src/index.ts'

setFlagsFromString('--expose-gc')
const gc: () => void = runInNewContext('gc')

/** Bytes in use when everything that can be collected is. */
async function heapBytes(): Promise<number> {
  for (let turns = 5; turns > 0; turns--) {
    await setImmediate()
    gc()
  }
  return process.memoryUsage().heapUsed
}

/** What keeps the process alive, apart from the server's side of connections. */
function handles(): number {
  return process.getActiveResourcesInfo().filter((name) => /TCP|Timeout/.test(name)).length
}

/** Those of the last turns may still be on somebody's stack. */
function alive(things: readonly WeakRef<object>[]): number {
  return things.filter((thing) => thing.deref() !== undefined).length
}

async function inTens(count: number, use: (n: number) => Promise<unknown>): Promise<void> {
  for (let n = 0; n < count; n += 10) {
    await Promise.all(Array.from({ length: 10 }, (_, i) => use(n + i)))
  }
}

test('a thousand clients leave heap, sockets and listeners as they were', async () => {
  await using server = await startStatefulServer({ listenStream: 'refuse-405' })
  const { signal } = new AbortController()
  const clients: WeakRef<McpClient>[] = []
  const use = async (): Promise<void> => {
    await using client = new McpClient({ url: server.url }, { era: 'legacy' })
    clients.push(new WeakRef(client))
    await client.callTool('echo', { text: 'x' }, { signal })
  }
  await inTens(100, use)
  const before = server.received.length
  const [heap, open] = [await heapBytes(), handles()]
  await inTens(1000, use)
  // What is left is what the server remembers of each request.
  const grown = (await heapBytes()) - heap
  expect(grown / (server.received.length - before)).toBeLessThan(2500)
  expect(alive(clients)).toBeLessThan(50)
  expect(handles()).toBeLessThanOrEqual(open)
  expect(getEventListeners(signal, 'abort')).toEqual([])
  expect(server.sessions).toEqual([])
}, 60_000)

test('a thousand runs, and a thousand scopes, leave none of them', async () => {
  await using server = await startStatefulServer({ listenStream: 'refuse-405' })
  await using pool = new SessionPool({ era: 'legacy' })
  let principal = ''
  const scope = (): SessionScope => ({ principal })
  const options = { era: 'legacy', scope, idleScopes: { max: 10 } } as const
  await using client = new McpClient({ url: server.url }, options)
  const clients: WeakRef<McpClient>[] = []
  await inTens(1000, async (n) => {
    await runInSessionScope(() => {
      const pooled = pool.acquire({ url: server.url, headers: { 'x-n': String(n) } })
      clients.push(new WeakRef(pooled))
      return pooled.callTool('echo', { text: 'x' })
    })
    principal = `p${n}`
    await client.callTool('echo', { text: 'x' })
  })
  await heapBytes()
  expect(alive(clients)).toBeLessThan(50)
  expect(server.sessions.length).toBeLessThanOrEqual(20)
}, 60_000)

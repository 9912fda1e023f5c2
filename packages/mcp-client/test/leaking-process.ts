// A process that uses clients heavily and reports what they leave: `leaking-process.ts <use> <url>`. It writes
// one line of JSON: counts before, during and after. It asks the test by `process.send` to disturb the server.
import { getEventListeners } from 'node:events'
import { setImmediate } from 'node:timers/promises'
import { queryObjects } from 'node:v8'
import { createDispatcher, McpConnection } from '@x/mcp-transport'
import { McpClient } from '../src/index.ts'
import type { McpClientOptions } from '../src/index.ts'
import { misbehaving } from './stdio/misbehaving.ts'

/** Counts after everything has been collected that can be. */
export interface Remains {
  readonly heapBytes: number
  /** One for each HTTP session that is still referenced. */
  readonly connections: number
  /** Sockets, timers and child processes that keep this process alive, by name. */
  readonly handles: readonly string[]
  readonly processListeners: number
  readonly dispatcherListeners: number
  /** Listeners on a signal that all calls shared. */
  readonly abortListeners: number
}

const [use = '', url = ''] = process.argv.slice(2)
const { signal } = new AbortController()
const dispatcher = createDispatcher()

async function remains(): Promise<Remains> {
  for (let turns = 0; turns < 5; turns++) {
    await setImmediate()
    globalThis.gc?.()
  }
  // Collects more than gc(), also compiled code. The heap is always measured after it.
  const connections = queryObjects(McpConnection, { format: 'count' })
  const listenersOf = (emitter: typeof dispatcher | typeof process): number =>
    emitter.eventNames().reduce((sum, name) => sum + emitter.listenerCount(name), 0)
  const ours = /TCP|TLS|Timeout|Process|DNS|GetAddrInfo/
  return {
    heapBytes: process.memoryUsage().heapUsed,
    connections,
    handles: process.getActiveResourcesInfo().filter((name) => ours.test(name)),
    processListeners: listenersOf(process),
    dispatcherListeners: listenersOf(dispatcher),
    abortListeners: getEventListeners(signal, 'abort').length,
  }
}

async function inTens(count: number, one: (n: number) => Promise<unknown>): Promise<void> {
  for (let n = 0; n < count; n += 10) {
    await Promise.all(Array.from({ length: 10 }, (_, i) => one(n + i)))
  }
}

/** Makes calls with every kind of outcome, in turn. */
async function calls(client: McpClient, count: number): Promise<void> {
  await inTens(count, async (n) => {
    if (n % 500 === 250) process.send?.('lose')
    if (n % 2000 === 1000) process.send?.('crash')
    const controller = new AbortController()
    const kinds = [
      () => client.callTool('echo', { text: 'x' }, { signal }),
      () => client.callTool('echo', { text: 'x' }, { signal, onProgress: () => {} }),
      () => client.callTool('fail', {}, { signal, timeoutMs: 60_000 }),
      () => client.callTool('no_such_tool', {}, { signal }),
      () => client.callTool('slow', {}, { timeoutMs: 5, onProgress: () => {} }),
      async () => {
        const call = Promise.allSettled([
          client.callTool('slow', {}, { signal: controller.signal }),
        ])
        await setImmediate()
        controller.abort()
        await call
      },
      () => client.listTools({ signal, forceRefresh: n % 50 === 6 }),
      () => client.callTool('echo', { text: 'x'.repeat(5000) }, { signal, idempotent: true }),
      () => client.readResource('none://such', { signal }),
      () => client.callTool('echo', { text: 'x' }, { signal: AbortSignal.abort() }),
    ]
    await kinds[n % kinds.length]?.().catch(() => {})
  })
}

async function clients(count: number): Promise<void> {
  await inTens(count, async (n) => {
    // Half of the clients share a dispatcher, which must not keep them.
    const options: McpClientOptions = n % 2 === 0 ? {} : { dispatcher }
    await using client = new McpClient({ url }, options)
    client.on('state', () => {})
    await client.callTool('echo', { text: 'x' }, { signal })
    if (n % 10 === 3) await client.listTools({ signal })
    if (n % 10 === 5) client.callTool('slow', {}, { signal }).catch(() => {}) // dispose() comes first
  })
}

async function programs(count: number): Promise<void> {
  for (let n = 0; n < count; n += 3) {
    const three = Array.from({ length: 3 }, async () => {
      await using client = new McpClient(misbehaving())
      await client.callTool('echo', { line: 'x' }, { signal })
    })
    await Promise.all(three)
  }
}

interface Used {
  readonly before: Remains
  /** While the client still exists: it must not accumulate data about its calls and sessions. */
  readonly alive?: Remains
}

const uses: Readonly<Record<string, () => Promise<Used>>> = {
  calls: async () => {
    await using client = new McpClient({ url }, { maxRetries: 5, dispatcher })
    await calls(client, 4000)
    await client.ping()
    const before = await remains()
    await calls(client, 6000)
    await client.ping()
    return { before, alive: await remains() }
  },
  clients: async () => {
    await clients(200)
    const before = await remains()
    await clients(1000)
    return { before }
  },
  programs: async () => {
    await programs(6)
    const before = await remains()
    await programs(30)
    return { before }
  },
}

const used = await uses[use]?.()
const after = await remains()
process.stdout.write(`${JSON.stringify({ alive: after, ...used, after })}\n`)
await dispatcher.destroy()
process.disconnect()

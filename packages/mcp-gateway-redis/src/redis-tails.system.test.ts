import { once } from 'node:events'
import { connect, createServer } from 'node:net'
import type { Socket } from 'node:net'
import { startRedisServer } from '@x/internal/testing'
import { seededRandom } from '@x/mcp-testing'
import { createClient } from 'redis'
import { afterAll, describe, expect, test, vi } from 'vitest'
import { redisStore } from './redis-store.ts'

const redis = await startRedisServer()
afterAll(() => redis?.[Symbol.asyncDispose]())

const timeoutMs = 300_000
const LIMITS = { maxEvents: 5000, ttlMs: 3_600_000 }

interface Reader {
  readonly seen: unknown[]
  /** Resolves when the event or gap was seen. */
  until(event: unknown): Promise<void>
  onEvent(this: void, event: { readonly event: unknown }): void
  onGap(this: void): void
}

function newReader(): Reader {
  const seen: unknown[] = []
  const waiting = new Map<unknown, () => void>()
  const add = (event: unknown): void => {
    seen.push(event)
    waiting.get(event)?.()
  }
  return {
    seen,
    until: (event) =>
      new Promise((resolve) => (seen.includes(event) ? resolve() : waiting.set(event, resolve))),
    onEvent: ({ event }) => add(event),
    onGap: () => add('gap'),
  }
}

/** A client that sends commands to Redis. */
async function openAdmin(url: string) {
  const admin = createClient({ url })
  await admin.connect()
  return { admin, [Symbol.asyncDispose]: async () => admin.destroy() }
}

/** A proxy in front of Redis that can cut its connections. */
async function startProxy(target: string): Promise<{
  readonly url: string
  cut(): void
  readonly connections: number
  [Symbol.asyncDispose](): Promise<void>
}> {
  const { hostname, port } = new URL(target)
  const sockets = new Set<Socket>()
  let connections = 0
  const server = createServer((incoming) => {
    connections++
    const outgoing = connect(Number(port), hostname)
    for (const [from, to] of [
      [incoming, outgoing],
      [outgoing, incoming],
    ] as const) {
      sockets.add(from)
      from.on('error', () => undefined)
      from.on('close', () => {
        sockets.delete(from)
        to.destroy()
      })
      from.pipe(to)
    }
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const address = server.address()
  const cut = (): void => {
    for (const socket of sockets) socket.destroy()
  }
  return {
    url: `redis://127.0.0.1:${typeof address === 'object' ? address?.port : ''}`,
    cut,
    get connections() {
      return connections
    },
    async [Symbol.asyncDispose]() {
      cut()
      server.close()
      await once(server, 'close')
    },
  }
}

describe.runIf(redis)('tails in Redis', () => {
  const url = redis?.url ?? ''

  test.each([1, 2, 3])(
    'deliver 1,000 events once each and in order over cut connections (seed %i)',
    async (seed) => {
      await using proxy = await startProxy(url)
      const prefix = `cut-${seed}`
      await using writer = redisStore({ url, prefix, timeoutMs })
      await using store = redisStore({ url: proxy.url, prefix, timeoutMs })
      const random = seededRandom(seed)
      const [first, second] = [newReader(), newReader()]
      const options = { limits: LIMITS, isLast: false }
      const beginning = await writer.logs.append('one', 'beginning', options)
      await store.logs.tail('one', beginning, first)
      for (let n = 0; n < 1000; n++) {
        await writer.logs.append('one', n, options)
        if (n === 500) await store.logs.tail('one', beginning, second)
        if (n % 2 && random() < 0.01) proxy.cut()
      }
      await Promise.all([first.until(999), second.until(999)])
      const all = Array.from({ length: 1000 }, (_, n) => n)
      expect(first.seen).toEqual(all)
      expect(second.seen).toEqual(all)
    },
  )

  test('tell of a gap if events were dropped while the connection was cut', async () => {
    await using server = await startRedisServer()
    const at = server?.url ?? ''
    await using proxy = await startProxy(at)
    await using writer = redisStore({ url: at, timeoutMs })
    await using store = redisStore({ url: proxy.url, timeoutMs })
    const reader = newReader()
    const options = { limits: { maxEvents: 3, ttlMs: 3_600_000 }, isLast: false }
    await store.logs.tail('one', 'now', reader)
    await writer.logs.append('one', 0, options)
    await reader.until(0)
    proxy.cut()
    for (let n = 1; n <= 5; n++) await writer.logs.append('one', n, options)
    await reader.until(5)
    expect(reader.seen).toEqual([0, 'gap', 3, 4, 5])
  })

  test('tell of a gap if events were dropped faster than they were read', async () => {
    await using store = redisStore({ url, prefix: 'fast', timeoutMs })
    const reader = newReader()
    await store.logs.tail('one', 'now', reader)
    const options = { limits: { maxEvents: 3, ttlMs: 3_600_000 }, isLast: false }
    await store.logs.append('one', 'first', options)
    await reader.until('first')
    await using opened = await openAdmin(url)
    const { admin } = opened
    // All in one step, so that no read comes in between.
    const [key = ''] = (await admin.keys('{fast}:events:*')).map(String)
    const transaction = admin.multi()
    for (let n = 0; n < 5; n++) {
      transaction.addCommand(['XADD', key, 'MAXLEN', '3', '*', ...entry(n, `${n}-0`)])
    }
    await transaction.exec()
    await reader.until(4)
    expect(reader.seen).toEqual(['first', 'gap', 2, 'gap', 3, 'gap', 4])
  })

  test('tell of a gap if the log began again while the process was frozen', async () => {
    await using store = redisStore({ url, prefix: 'frozen', timeoutMs })
    const reader = newReader()
    const options = { limits: LIMITS, isLast: false }
    await store.logs.tail('one', 'now', reader)
    await store.logs.append('one', 1, options)
    await reader.until(1)
    using _ = vi.spyOn(Date, 'now').mockReturnValue(Date.now() + 61_000)
    await store.logs.delete('one')
    await store.logs.append('one', 2, options)
    await reader.until(2)
    expect(reader.seen).toEqual([1, 'gap', 2])
  })

  test('tell of a gap when Redis was restarted and forgot all', async () => {
    await using server = await startRedisServer()
    await using store = redisStore({ url: server?.url, timeoutMs })
    const reader = newReader()
    const options = { limits: LIMITS, isLast: false }
    await store.logs.tail('one', 'now', reader)
    await store.logs.append('one', 1, options)
    await reader.until(1)
    await server?.stop()
    await server?.start()
    await reader.until('gap')
    await store.logs.append('one', 2, options)
    await reader.until(2)
    expect(reader.seen).toEqual([1, 'gap', 2])
  })

  test('can begin while Redis is away', async () => {
    await using server = await startRedisServer()
    await using store = redisStore({ url: server?.url, timeoutMs })
    const reader = newReader()
    await server?.stop()
    const end = await store.logs.tail('one', 'now', reader)
    await server?.start()
    await reader.until('gap')
    await store.logs.append('one', 1, { limits: LIMITS, isLast: false })
    await reader.until(1)
    expect(reader.seen).toEqual(['gap', 1])
    end()
  })

  test('notice a Redis that hangs', async () => {
    await using server = await startRedisServer()
    await using proxy = await startProxy(server?.url ?? '')
    await using store = redisStore({ url: server?.url, timeoutMs })
    await using quick = redisStore({ url: proxy.url, timeoutMs: 100 })
    const reader = newReader()
    const options = { limits: LIMITS, isLast: false }
    const beginning = await store.logs.append('one', 'beginning', options)
    await quick.logs.tail('one', beginning, reader)
    await store.logs.append('one', 1, options)
    await reader.until(1)
    const before = proxy.connections
    server?.pause()
    const appended = store.logs.append('one', 2, options)
    await expect.poll(() => proxy.connections).not.toBe(before) // it has given up the connection
    server?.resume()
    await appended
    await reader.until(2)
    expect(reader.seen).toEqual([1, 2])
  })

  test('use one connection for all, and none when the last one ended', async () => {
    await using proxy = await startProxy(url)
    await using store = redisStore({ url: proxy.url, prefix: 'shared', timeoutMs })
    const options = { limits: LIMITS, isLast: false }
    const readers = Array.from({ length: 20 }, newReader)
    const ends = await Promise.all(
      readers.map((reader, at) => store.logs.tail(`log ${at}`, 'now', reader)),
    )
    for (const at of readers.keys()) await store.logs.append(`log ${at}`, at, options)
    await Promise.all(readers.map((reader, at) => reader.until(at)))
    expect(proxy.connections).toBe(2)
    for (const end of ends) end()
    await using opened = await openAdmin(url)
    const { admin } = opened
    const blocked = async (): Promise<boolean> =>
      (await admin.clientList()).some(({ cmd }) => cmd === 'xread')
    while (await blocked());
  })
})

function entry(n: number, before: string): readonly string[] {
  return ['text', String(n), 'last', '0', 'before', before]
}

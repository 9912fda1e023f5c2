import { execFile } from 'node:child_process'
import { once } from 'node:events'
import { createServer } from 'node:net'
import { promisify } from 'node:util'
import { askRedis, sourceNode, startOwnRedis, startRedisServer } from '@x/internal/testing'
import { createClient } from 'redis'
import { afterAll, describe, expect, test } from 'vitest'
import { RedisDebugStateStore } from './redis-debug-state-store.ts'

const redis = await startRedisServer()
afterAll(() => redis?.[Symbol.asyncDispose]())

const address = { agentId: 'agent', key: 'key' }
const ttlMs = 3_600_000
const bytes = (text: string): Uint8Array => new TextEncoder().encode(text)
/** Time limit for operations that must succeed on a slow machine. */
const timeoutMs = 300_000

describe.runIf(redis)('in Redis', () => {
  const url = redis?.url ?? ''

  test('keeps all keys of an agent in one slot of a cluster, under the prefix', async () => {
    await using store = new RedisDebugStateStore({ url, timeoutMs, prefix: 'layout' })
    const expected = ['{x}:y', 'z'].map((key) => `{layout:a%3A1}:value:${key}`)
    for (const key of ['{x}:y', 'z']) {
      await store.put({ agentId: 'a:1', key }, bytes('x'), ttlMs)
    }
    const keys = await askRedis(url, 'KEYS', '{layout:*')
    expect(new Set(Array.isArray(keys) ? keys : [])).toEqual(new Set(expected))
    await using cluster = await startOwnRedis('--cluster-enabled', 'yes')
    const slots = await Promise.all(
      expected.map((key) => askRedis(cluster.url, 'CLUSTER', 'KEYSLOT', key)),
    )
    expect(slots).toEqual(slots.map(() => slots[0]))
  })

  test('shares one connection between concurrent operations', async () => {
    await using server = await startOwnRedis()
    const store = new RedisDebugStateStore({ url: server.url, timeoutMs })
    await Promise.all(Array.from({ length: 50 }, () => store.get(address)))
    const connections = String(await askRedis(server.url, 'CLIENT', 'LIST'))
    expect(connections.trim().split('\n')).toHaveLength(2) // and the connection of this command
    await store.close()
    while (
      String(await askRedis(server.url, 'CLIENT', 'LIST'))
        .trim()
        .includes('\n')
    );
  })

  test('uses a client of the caller, and leaves it open', async () => {
    const client = createClient({ url })
    await client.connect()
    const store = new RedisDebugStateStore({ client, timeoutMs, prefix: 'borrowed' })
    await store.put(address, Uint8Array.of(0, 255, 128), ttlMs)
    expect([...((await store.get(address)) ?? [])]).toEqual([0, 255, 128])
    await store.close()
    expect(await client.ping()).toBe('PONG')
    client.destroy()
    const late = new RedisDebugStateStore({ client })
    await expect(late.get(address)).rejects.toMatchObject({ code: 'UNAVAILABLE' })
  })

  test('does not change keys of another program', async () => {
    await using store = new RedisDebugStateStore({ url, timeoutMs, prefix: 'foreign' })
    await askRedis(url, 'SET', '{foreign:agent}:value:key', 'theirs')
    await expect(store.get(address)).rejects.toMatchObject({ code: 'FOREIGN' })
    await expect(store.put(address, bytes('x'), ttlMs)).rejects.toMatchObject({
      code: 'FOREIGN',
      message: expect.stringContaining('another prefix'),
    })
    expect(await askRedis(url, 'GET', '{foreign:agent}:value:key')).toBe('theirs')
  })
})

describe.runIf(redis)('a Redis that refuses', () => {
  test('fails with FULL at its memory limit, and can still be read', async () => {
    await using server = await startOwnRedis('--maxmemory-policy', 'noeviction')
    await using store = new RedisDebugStateStore({ url: server.url, timeoutMs })
    await store.put(address, bytes('before'), ttlMs)
    await askRedis(server.url, 'CONFIG', 'SET', 'maxmemory', '1')
    await expect(store.put(address, bytes('after'), ttlMs)).rejects.toMatchObject({
      name: 'DebugStateStoreError',
      code: 'FULL',
    })
    expect(Buffer.from((await store.get(address)) ?? []).toString()).toBe('before')
  })

  test('fails with READ_ONLY when it is a replica', async () => {
    await using server = await startOwnRedis()
    const { port } = new URL(redis?.url ?? '')
    await askRedis(server.url, 'REPLICAOF', '127.0.0.1', port)
    await using store = new RedisDebugStateStore({ url: server.url, timeoutMs })
    await expect(store.put(address, bytes('x'), ttlMs)).rejects.toMatchObject({
      code: 'READ_ONLY',
    })
  })
})

describe.runIf(redis)('a Redis that goes away', () => {
  test('fails each operation with the cause, and is used again after a restart', async () => {
    await using server = await startOwnRedis()
    await using store = new RedisDebugStateStore({ url: server.url, timeoutMs })
    await store.put(address, bytes('a'), ttlMs)
    await server.stop()
    const failures = await Promise.allSettled([
      store.get(address),
      store.put(address, bytes('b'), ttlMs),
      store.delete(address),
    ])
    for (const failure of failures) {
      expect(failure).toMatchObject({
        status: 'rejected',
        reason: { code: 'UNAVAILABLE', cause: expect.any(Error) },
      })
    }
    await server.start() // without the loaded scripts
    await expect(store.put(address, bytes('c'), ttlMs)).resolves.toBeUndefined()
    await expect(store.delete(address)).resolves.toBe(true)
  })

  test('fails operations in flight', async () => {
    await using server = await startOwnRedis()
    await using store = new RedisDebugStateStore({ url: server.url, timeoutMs })
    await store.get(address)
    server.pause()
    const asked = Promise.allSettled([store.get(address), store.get(address)])
    await server.stop()
    expect(await asked).toMatchObject([
      { status: 'rejected', reason: { code: 'UNAVAILABLE' } },
      { status: 'rejected', reason: { code: 'UNAVAILABLE' } },
    ])
  })

  test('lets the store close while it is down or does not answer', async () => {
    await using server = await startOwnRedis()
    const silent = new RedisDebugStateStore({ url: server.url, timeoutMs: 50 })
    const down = new RedisDebugStateStore({ url: server.url, timeoutMs: 50 })
    await down.get(address).catch(() => {})
    server.pause()
    const asked = silent.get(address).catch((error: unknown) => error)
    await silent.close()
    expect(await asked).toMatchObject({ code: 'TIMEOUT' })
    await server.stop()
    await down.close()
    await new RedisDebugStateStore({ url: server.url }).close()
    await expect(down.get(address)).rejects.toMatchObject({ code: 'CLOSED' })
  })

  test.each(['pause', 'stop'] as const)(
    'leaves no socket and no timer that keeps a process alive (%s)',
    async (loss) => {
      await using server = await startOwnRedis()
      await server[loss]()
      const module = new URL('index.ts', import.meta.url).href
      const limitMs = loss === 'pause' ? 100 : timeoutMs // a refused connection needs no time limit
      const script = `
        const { RedisDebugStateStore } = await import(${JSON.stringify(module)})
        const store = new RedisDebugStateStore({ url: '${server.url}', timeoutMs: ${limitMs} })
        const { code } = await store.get({ agentId: 'a', key: 'k' }).catch((error) => error)
        await store.close()
        process.stdout.write(code)`
      const args = ['--conditions=mcp-source', '--no-warnings', '--input-type=module', '-e', script]
      const { stdout } = await promisify(execFile)(sourceNode, args) // ends when the process does
      expect(stdout).toBe(loss === 'pause' ? 'TIMEOUT' : 'UNAVAILABLE')
    },
  )
})

test('names the missing package redis in the error of the first operation', async () => {
  const module = new URL('index.ts', import.meta.url).href
  const script = `
    import { registerHooks } from 'node:module'
    registerHooks({
      resolve(name, context, next) {
        if (name === 'redis') throw new Error('not installed')
        return next(name, context)
      },
    })
    const { RedisDebugStateStore } = await import(${JSON.stringify(module)})
    const store = new RedisDebugStateStore()
    const error = await store.get({ agentId: 'a', key: 'k' }).catch((thrown) => thrown)
    await store.close()
    process.stdout.write([error.code, error.message, error.cause.message].join('|'))`
  const args = ['--conditions=mcp-source', '--no-warnings', '--input-type=module', '-e', script]
  const { stdout } = await promisify(execFile)(sourceNode, args)
  expect(stdout).toMatch(
    /^UNAVAILABLE\|The package redis is missing: install it.*#unavailable\|not installed$/,
  )
})

test('opens no connection for a store that is not used', async () => {
  let connections = 0
  const server = createServer(() => void connections++).listen(0, '127.0.0.1')
  await once(server, 'listening')
  const at = server.address()
  const port = typeof at === 'object' ? at?.port : 0
  await new RedisDebugStateStore({ url: `redis://127.0.0.1:${port}` }).close()
  server.close()
  await once(server, 'close')
  expect(connections).toBe(0)
})

test.each([
  { url: 'http://127.0.0.1:6379' },
  { url: '127.0.0.1:6379' },
  { prefix: '' },
  { prefix: 'a}b' },
  { prefix: 'x'.repeat(65) },
])('refuses %j in the constructor', (options) => {
  expect(() => new RedisDebugStateStore(options)).toThrow(TypeError)
})

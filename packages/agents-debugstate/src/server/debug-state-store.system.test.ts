import { startRedisServer, temporaryFolder } from '@x/internal/testing'
import { createClient } from 'redis'
import { afterAll, afterEach, describe, expect, test, vi } from 'vitest'
import type { DebugStateAddress, DebugStateStore } from './debug-state-store.ts'
import { MemoryDebugStateStore } from './memory-debug-state-store.ts'
import { RedisDebugStateStore } from './redis-debug-state-store.ts'
import { SqliteDebugStateStore } from './sqlite-debug-state-store.ts'

/** The contract of every store, tested on each store. */
interface OpenStore extends AsyncDisposable {
  readonly store: DebugStateStore
  /** Opens the same values, like another process. */
  readonly other: DebugStateStore
  /** A short time to live, for which a test can wait. */
  readonly shortMs: number
  /** Resolves when a value with `shortMs` has expired. */
  expiry(this: void, address: DebugStateAddress): Promise<void>
}

const redis = await startRedisServer()
afterAll(() => redis?.[Symbol.asyncDispose]())

afterEach(() => vi.useRealTimers())

const stores: Record<string, () => Promise<OpenStore>> = {
  async memory() {
    const store = new MemoryDebugStateStore()
    return {
      store,
      other: store,
      shortMs: 1000,
      expiry: async () => void vi.setSystemTime(Date.now() + 1000),
      [Symbol.asyncDispose]: () => store.close(),
    }
  },
  async sqlite() {
    const folder = await temporaryFolder()
    const open = (): SqliteDebugStateStore => new SqliteDebugStateStore(folder.file('state.db'))
    const [store, other] = [open(), open()]
    return {
      store,
      other,
      shortMs: 1000,
      expiry: async () => void vi.setSystemTime(Date.now() + 1000),
      async [Symbol.asyncDispose]() {
        await store.close()
        await other.close()
        await folder[Symbol.asyncDispose]()
      },
    }
  },
}

if (redis) {
  let opened = 0
  stores['redis'] = async () => {
    const prefix = `test-${++opened}`
    const open = (): RedisDebugStateStore =>
      new RedisDebugStateStore({ url: redis.url, prefix, timeoutMs: 300_000 })
    const [store, other] = [open(), open()]
    const client = createClient({ url: redis.url })
    await client.connect()
    return {
      store,
      other,
      shortMs: 50,
      async expiry({ agentId, key }) {
        while ((await client.pTTL(`{${prefix}:${agentId}}:value:${key}`)) !== -2); // only its own clock decides
      },
      async [Symbol.asyncDispose]() {
        client.destroy()
        await store.close()
        await other.close()
      },
    }
  }
}

const address = { agentId: 'agent', key: 'key' }
const ttlMs = 3_600_000
const bytes = (text: string): Uint8Array => new TextEncoder().encode(text)

async function valueIn(store: DebugStateStore, at = address): Promise<string | undefined> {
  const stored = await store.get(at)
  return stored && new TextDecoder().decode(stored)
}

describe.each(Object.entries(stores))('the %s store', (_name, open) => {
  test('returns a value byte for byte', async () => {
    await using opened = await open()
    const { store, other } = opened
    expect(await store.get(address)).toBeUndefined()
    const all = Uint8Array.from({ length: 65_536 }, (_, index) => index % 256)
    await store.put(address, all, ttlMs)
    expect(Buffer.from((await store.get(address)) ?? [])).toEqual(Buffer.from(all))
    expect(await other.get(address)).toEqual(await store.get(address))
    await store.put(address, bytes(''), ttlMs)
    expect(await valueIn(store)).toBe('')
  })

  test('keeps agents and keys apart, with any characters in them', async () => {
    await using opened = await open()
    const { store } = opened
    const sql = "'; DROP TABLE debug_state; --"
    const ofRedis = ['a:value:a', ':keys', 'keys', 'a}', '{a}', '{a', '*', '[a', '(a', '"\\\r\n$1']
    const keys = ['a', 'a:b', 'A', sql, 'ü/%2F', ...ofRedis, '€'.repeat(341)]
    const addresses = ['one', 'two', 'one:value', 'one:', '1}'].flatMap((agentId) =>
      keys.map((key) => ({ agentId, key })),
    )
    for (const [index, at] of addresses.entries()) {
      await store.put(at, bytes(`${index}`), ttlMs)
    }
    for (const [index, at] of addresses.entries()) expect(await valueIn(store, at)).toBe(`${index}`)
    for (const key of keys) expect(await store.delete({ agentId: 'one', key })).toBe(true)
    for (const key of keys) {
      expect(await valueIn(store, { agentId: 'one', key })).toBeUndefined()
      expect(await valueIn(store, { agentId: 'two', key })).toBeDefined()
    }
  })

  test('deletes a value once, for fifty concurrent deletes', async () => {
    await using opened = await open()
    const { store, other } = opened
    await store.put(address, bytes('a'), ttlMs)
    const outcomes = await Promise.all(
      Array.from({ length: 50 }, (_, index) => (index % 2 ? store : other).delete(address)),
    )
    expect(outcomes.filter((outcome) => outcome)).toHaveLength(1)
    expect(await store.get(address)).toBeUndefined()
  })

  test('removes a value after its time to live', async () => {
    await using opened = await open()
    const { store, shortMs, expiry } = opened
    await store.put(address, bytes('a'), shortMs)
    await expiry(address)
    expect(await store.get(address)).toBeUndefined()
    expect(await store.delete(address)).toBe(false)
    await store.put(address, bytes('c'), ttlMs)
    expect(await valueIn(store)).toBe('c')
  })

  test('counts the time to live from the last write', async () => {
    await using opened = await open()
    const { store, shortMs, expiry } = opened
    const neighbour = { agentId: 'agent', key: 'neighbour' }
    await store.put(address, bytes('a'), shortMs)
    await store.put(neighbour, bytes('x'), shortMs)
    await store.put(address, bytes('b'), ttlMs)
    await expiry(neighbour)
    expect(await store.get(neighbour)).toBeUndefined()
    expect(await valueIn(store)).toBe('b')
  })

  test('rejects after close(), which may be repeated', async () => {
    await using opened = await open()
    const { store } = opened
    await store.put(address, bytes('a'), ttlMs)
    await store.close()
    await store.close()
    await expect(store.get(address)).rejects.toMatchObject({ code: 'CLOSED' })
    await expect(store.put(address, bytes('a'), ttlMs)).rejects.toMatchObject({ code: 'CLOSED' })
    await expect(store.delete(address)).rejects.toMatchObject({ code: 'CLOSED' })
  })
})

import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import type { DebugStateStore } from './debug-state-store.ts'
import { MemoryDebugStateStore } from './memory-debug-state-store.ts'
import { SqliteDebugStateStore } from './sqlite-debug-state-store.ts'

/** What every store has to do, on each of them. */
interface OpenStore extends AsyncDisposable {
  readonly store: DebugStateStore
  /** Moves the store's clock, in milliseconds. */
  wait(this: void, ms: number): void
}

const stores: Record<string, () => Promise<OpenStore>> = {
  async memory() {
    let now = 1_000_000
    const store = new MemoryDebugStateStore({ now: () => now })
    return {
      store,
      wait: (ms) => void (now += ms),
      [Symbol.asyncDispose]: () => store.close(),
    }
  },
  async sqlite() {
    let now = 1_000_000
    const folder = await mkdtemp(join(tmpdir(), 'debugstate-'))
    const store = new SqliteDebugStateStore(join(folder, 'state.db'), { now: () => now })
    return {
      store,
      wait: (ms) => void (now += ms),
      async [Symbol.asyncDispose]() {
        await store.close()
        await rm(folder, { recursive: true })
      },
    }
  },
}

const address = { agentId: 'agent', key: 'key' }
const ttlMs = 1000
const bytes = (text: string): Uint8Array => new TextEncoder().encode(text)

async function valueIn(store: DebugStateStore, at = address): Promise<string | undefined> {
  const stored = await store.get(at)
  return stored && new TextDecoder().decode(stored.bytes)
}

async function versionAfterPut(store: DebugStateStore, text: string): Promise<string> {
  const outcome = await store.put(address, bytes(text), { ttlMs })
  return outcome === 'conflict' ? 'conflict' : outcome.version
}

describe.each(Object.entries(stores))('the %s store', (_name, open) => {
  test('gives back what was put, byte for byte', async () => {
    await using opened = await open()
    const { store } = opened
    expect(await store.get(address)).toBeUndefined()
    const all = Uint8Array.from({ length: 256 }, (_, index) => index)
    await store.put(address, all, { ttlMs })
    expect(Buffer.from((await store.get(address))?.bytes ?? [])).toEqual(Buffer.from(all))
    await store.put(address, bytes(''), { ttlMs })
    expect(await valueIn(store)).toBe('')
  })

  test('keeps agents and keys apart, whatever is in them', async () => {
    await using opened = await open()
    const { store } = opened
    const addresses = ['a', 'a:b', 'A', "'; DROP TABLE debug_state; --", 'ü/%2F'].flatMap((key) => [
      { agentId: 'one', key },
      { agentId: 'two', key },
    ])
    for (const [index, at] of addresses.entries()) {
      await store.put(at, bytes(`${index}`), { ttlMs })
    }
    for (const [index, at] of addresses.entries()) expect(await valueIn(store, at)).toBe(`${index}`)
  })

  test('gives every write a version of its own, also after a delete', async () => {
    await using opened = await open()
    const { store } = opened
    const first = await versionAfterPut(store, 'same')
    expect((await store.get(address))?.version).toBe(first)
    const second = await versionAfterPut(store, 'same')
    await store.delete(address)
    const third = await versionAfterPut(store, 'same')
    expect(new Set([first, second, third]).size).toBe(3)
  })

  test('writes only where the precondition holds', async () => {
    await using opened = await open()
    const { store } = opened
    const put = (text: string, precondition: object): Promise<unknown> =>
      store.put(address, bytes(text), { ttlMs, precondition })
    expect(await put('a', { ifMatch: '*' })).toBe('conflict')
    expect(await put('b', { ifMatch: ['unknown'] })).toBe('conflict')
    expect(await store.get(address)).toBeUndefined()
    expect(await put('c', { ifNoneMatch: '*' })).toMatchObject({ version: expect.any(String) })
    expect(await put('d', { ifNoneMatch: '*' })).toBe('conflict')
    const version = (await store.get(address))?.version ?? ''
    expect(await put('e', { ifNoneMatch: [version] })).toBe('conflict')
    expect(await valueIn(store)).toBe('c')
    expect(await put('f', { ifMatch: ['unknown', version] })).not.toBe('conflict')
    expect(await put('g', { ifMatch: [version] })).toBe('conflict')
    expect(await valueIn(store)).toBe('f')
  })

  test('lets one of many writers with the same precondition through', async () => {
    await using opened = await open()
    const { store } = opened
    const outcomes = await Promise.all(
      Array.from({ length: 20 }, (_, index) =>
        store.put(address, bytes(`${index}`), { ttlMs, precondition: { ifNoneMatch: '*' } }),
      ),
    )
    expect(outcomes.filter((outcome) => outcome !== 'conflict')).toHaveLength(1)
  })

  test('deletes, and says whether there was anything', async () => {
    await using opened = await open()
    const { store } = opened
    const version = await versionAfterPut(store, 'a')
    expect(await store.delete(address, { ifMatch: ['unknown'] })).toBe('conflict')
    expect(await store.delete(address, { ifMatch: [version] })).toBe('deleted')
    expect(await store.delete(address)).toBe('absent')
    expect(await store.delete(address, { ifMatch: [version] })).toBe('conflict')
    expect(await store.get(address)).toBeUndefined()
  })

  test('forgets a value after its time, which a write starts again', async () => {
    await using opened = await open()
    const { store, wait } = opened
    await versionAfterPut(store, 'a')
    wait(999)
    await versionAfterPut(store, 'b')
    wait(999)
    expect(await valueIn(store)).toBe('b')
    wait(1)
    expect(await store.get(address)).toBeUndefined()
    expect(await store.list('agent', 10)).toEqual([])
    expect(await store.delete(address)).toBe('absent')
    const again = { ttlMs, precondition: { ifNoneMatch: '*' } } as const
    expect(await store.put(address, bytes('c'), again)).not.toBe('conflict')
  })

  test('takes expired values out while others are written', async () => {
    await using opened = await open()
    const { store, wait } = opened
    for (let n = 0; n < 1200; n++) {
      await store.put({ agentId: 'agent', key: `old-${n}` }, bytes('x'), { ttlMs })
    }
    wait(120_000)
    for (let n = 0; n < 4; n++) await versionAfterPut(store, 'new')
    wait(-120_000) // what is still there would now show again
    const left = await store.list('agent', 2000)
    expect(left.map(({ key }) => key)).toEqual(['key'])
  })

  test('lists keys in order with size and times, never values', async () => {
    await using opened = await open()
    const { store, wait } = opened
    await store.put({ agentId: 'agent', key: 'b' }, bytes('ü'), { ttlMs })
    wait(10)
    await store.put({ agentId: 'agent', key: 'a' }, bytes('x'), { ttlMs })
    await store.put({ agentId: 'other', key: 'c' }, bytes('x'), { ttlMs })
    expect(await store.list('agent', 10)).toEqual([
      { key: 'a', bytes: 1, updatedAt: 1_000_010, expiresAt: 1_001_010 },
      { key: 'b', bytes: 2, updatedAt: 1_000_000, expiresAt: 1_001_000 },
    ])
    expect(await store.list('agent', 1)).toHaveLength(1)
  })

  test('rejects after close, which may be repeated', async () => {
    await using opened = await open()
    await opened.store.close()
    await opened.store.close()
    await expect(opened.store.get(address)).rejects.toMatchObject({ code: 'CLOSED' })
    await expect(versionAfterPut(opened.store, 'a')).rejects.toMatchObject({ code: 'CLOSED' })
  })
})

import { afterAll, describe, expect, test } from 'vitest'

import {
  named,
  nobody,
  bytesOf,
  inMemory,
  storesOfTests,
  openWorld,
  textOf,
  notFound,
} from '../../test/artifact-world.ts'
import type { GatewayStore, Records } from '../store/gateway-store.ts'
import { GatewayError } from '../errors.ts'
import type { Artifact } from './artifacts.ts'
import { Artifacts } from './artifacts.ts'
import { artifactsOptions } from '../../test/settings.ts'

const stores = await storesOfTests()
afterAll(() => stores[Symbol.asyncDispose]())

/** All versions that count towards a quota. */
async function storedIn({ records }: GatewayStore): Promise<readonly unknown[]> {
  const rows = await records.list('files/name/')
  return rows.flatMap(({ value }) => (value as { readonly versions: unknown[] }).versions)
}

/** Wraps records. `before` and `after` are called for each call of a method, and may throw. */
function watchedRecords(
  records: Records,
  {
    after,
    before,
  }: { before?: (name: string) => void; after?: (name: string, key: string) => void },
): Records {
  return new Proxy(records, {
    get: (target, name) => {
      const method: unknown = Reflect.get(target, name)
      if (typeof method !== 'function') return method
      return async (...args: unknown[]): Promise<unknown> => {
        before?.(String(name))
        const result: unknown = await Reflect.apply(method, target, args)
        after?.(String(name), String(args[0]))
        return result
      }
    },
  })
}

describe.each(stores.all)('stored artifacts in %s', (_name, open) => {
  test('deletes the oldest versions above the limit per name, with their bytes', async () => {
    await using world = await openWorld(open)
    const { artifacts } = world
    const caller = named('ada')
    const written: Artifact[] = []
    for (let n = 1; n <= 22; n++) {
      written.push(await artifacts.write(caller, { name: 'f', bytes: bytesOf(`v${n}`) }))
    }
    await expect(artifacts.find(caller, written[1]?.versionUri ?? '')).rejects.toMatchObject(
      notFound,
    )
    expect(await textOf(artifacts, caller, written[2]?.versionUri ?? '')).toBe('v3')
    expect(await world.keptBlobs()).toHaveLength(20)
    expect(await storedIn(world.store)).toHaveLength(20)
  })

  test('refuses a file above the quota while its bytes arrive, and keeps nothing of it', async () => {
    await using world = await openWorld(open)
    const artifacts = world.another({ quota: 12, maxBytes: 8 })
    const caller = named('ada')
    let pulled = 0
    const endless = async function* (): AsyncGenerator<Uint8Array> {
      for (;;) {
        pulled++
        yield Buffer.from('1234')
      }
    }
    const tooLarge = artifacts.write(caller, { name: 'f', bytes: endless() })
    await expect(tooLarge).rejects.toMatchObject({ code: 'LIMIT' })
    expect(pulled).toBe(3)
    await artifacts.write(caller, { name: 'f', bytes: bytesOf('12345') })
    const overQuota = world.another({ quota: 12 }).write(caller, { name: 'g', bytes: endless() })
    await expect(overQuota).rejects.toMatchObject({ code: 'QUOTA' })
    await artifacts.write(named('bob'), { name: 'g', bytes: bytesOf('123456') })
    expect(await world.keptBlobs()).toHaveLength(2)
  })

  test('makes room for a version by the oldest one of its name', async () => {
    await using world = await openWorld(open)
    const artifacts = world.another({ quota: 20 })
    const write = (name: string): Promise<Artifact> =>
      artifacts.write(named('ada'), { name, bytes: bytesOf('x') })
    for (let n = 0; n < 20; n++) await write('f')
    await expect(write('g')).rejects.toMatchObject({ code: 'QUOTA' })
    expect(await write('f')).toMatchObject({ version: 21 })
  })

  test('stores at most 1,000 versions of one caller', async () => {
    await using world = await openWorld(open)
    const { artifacts, store } = world
    await artifacts.write(named('ada'), { name: 'f', bytes: bytesOf() })
    const [row] = await store.records.list('files/name/')
    const [version] = await storedIn(store)
    const full = { next: 21, versions: Array.from({ length: 20 }, () => version) }
    for (let n = 0; n < 50; n++) await store.records.put(`${row?.key}-${n}`, full)
    const another = artifacts.write(named('ada'), { name: 'g', bytes: bytesOf() })
    await expect(another).rejects.toMatchObject({ code: 'QUOTA' })
  })

  test('keeps concurrent files within the quota', async () => {
    await using world = await openWorld(open)
    const artifacts = world.another({ quota: 50 })
    const results = await Promise.allSettled(
      Array.from({ length: 30 }, (_, n) =>
        artifacts.write(named('ada'), { name: `f${n}`, bytes: bytesOf('12345', '67890') }),
      ),
    )
    const kept = results.filter(({ status }) => status === 'fulfilled')
    expect(kept.length).toBeLessThanOrEqual(5)
    expect((await artifacts.list(named('ada'))).artifacts).toHaveLength(kept.length)
    expect(await world.keptBlobs()).toHaveLength(kept.length)
  })

  test('keeps concurrent files of two processes within the quota', async () => {
    await using world = await openWorld(open)
    const [one, other] = [world.another({ quota: 24 }), world.another({ quota: 24 })]
    const results = await Promise.allSettled(
      Array.from({ length: 20 }, (_, n) =>
        (n % 2 ? one : other).write(named('ada'), { name: `f${n}`, bytes: bytesOf(`file ${n}`) }),
      ),
    )
    const kept = results.filter(({ status }) => status === 'fulfilled')
    expect(kept.length).toBeLessThanOrEqual(4)
    expect(await storedIn(world.store)).toHaveLength(kept.length)
    expect(await world.keptBlobs()).toHaveLength(kept.length)
    const more = await one.write(named('bob'), { name: 'f', bytes: bytesOf('of another account') })
    expect(more.version).toBe(1)
  })

  test.each([1, 2])('shows no file when the store fails at write %i', async (step) => {
    await using world = await openWorld(open)
    const { store, clock } = world
    await world.artifacts.write(named('ada'), { name: 'other', bytes: bytesOf('same') })
    const keys = async () => (await store.records.list('files/')).map(({ key }) => key)
    const before = await keys()
    clock.time++ // so that the new file is the first one of the list
    let left = step
    const records = watchedRecords(store.records, {
      before: (name) => {
        if (name === 'put' && --left === 0) throw new Error('no connection')
      },
    })
    const failing: GatewayStore = { ...store, records }
    const artifacts = new Artifacts(artifactsOptions({ store: failing, clock }))
    const written = artifacts.write(named('ada'), { name: 'f', bytes: bytesOf('same') })
    const failure = await written.then(
      () => undefined,
      (error: unknown) => error,
    )
    expect(left > 0).toBe(failure === undefined)
    const added = (await keys()).filter((key) => !before.includes(key))
    expect(added.length === 0).toBe(failure !== undefined)
    const { artifacts: all } = await world.artifacts.list(named('ada'))
    expect(all.map(({ name }) => name)).toEqual(failure ? ['other'] : ['f', 'other'])
  })

  test.each(['put', 'list'])(
    'keeps the bytes of a listed file when `%s` fails after its write',
    async (lost) => {
      await using world = await openWorld(open)
      const { store, clock } = world
      const ada = named('ada')
      const file = () => ({ name: 'f', bytes: bytesOf('hello'), runId: 'run_1', agentId: 'a' })
      let isWritten = false
      let isLost = false
      const records = watchedRecords(store.records, {
        after: (name, key) => {
          isWritten ||= name === 'put' && key.startsWith('files/name/')
          if (!isWritten || isLost || name !== lost) return
          isLost = true
          throw new GatewayError('UNAVAILABLE', 'The store did not answer')
        },
      })
      const artifacts = new Artifacts(artifactsOptions({ store: { ...store, records }, clock }))
      await expect(artifacts.write(ada, file())).rejects.toMatchObject({ code: 'UNAVAILABLE' })
      const listed = (await artifacts.list(ada)).artifacts
      expect(listed).toHaveLength(1)
      expect(await textOf(artifacts, ada, listed[0]?.uri ?? '')).toBe('hello')
      const again = await artifacts.write(ada, file())
      expect(again.versionUri).toBe(listed[0]?.versionUri)
      expect(await textOf(artifacts, ada, again.uri)).toBe('hello')
    },
  )

  test('puts the oldest version back when a further one is refused', async () => {
    await using world = await openWorld(open)
    const { store, clock } = world
    const ada = named('ada')
    const first = await world.artifacts.write(ada, { name: 'f', bytes: bytesOf('v1') })
    for (let n = 2; n <= 20; n++) {
      await world.artifacts.write(ada, { name: 'f', bytes: bytesOf('y') })
    }
    const before = await storedIn(store)
    // Another process stores a file after this one has looked for room.
    let other: Promise<unknown> | undefined
    const late = async function* (): AsyncGenerator<Uint8Array> {
      other = world.artifacts.write(ada, { name: 'g', bytes: bytesOf('z'.repeat(15)) })
      await other
      yield Buffer.from('a'.repeat(15))
    }
    const artifacts = new Artifacts(artifactsOptions({ store, clock, quota: 40 }))
    const refused = artifacts.write(ada, { name: 'f', bytes: late() })
    await expect(refused).rejects.toMatchObject({ code: 'QUOTA' })
    await other
    const { uri } = first
    expect(await textOf(artifacts, ada, first.versionUri)).toBe('v1')
    expect(await textOf(artifacts, ada, uri)).toBe('y')
    expect(await world.keptBlobs()).toHaveLength(21)
    expect(await storedIn(store)).toEqual(expect.arrayContaining([...before]))
  })

  test('stores no scope for refused files of callers without a session', async () => {
    await using world = await openWorld(open)
    const artifacts = world.another({ quota: 10 })
    const caller = { principal: nobody, address: '192.0.2.1' }
    const refused = artifacts.write(caller, { name: 'f', bytes: bytesOf('more than ten bytes') })
    await expect(refused).rejects.toMatchObject({ code: 'QUOTA' })
    expect(await world.store.records.list('files/')).toEqual([])
    expect(await world.keptBlobs()).toEqual([])
  })

  test('keeps bytes that a run writes again for their whole time', async () => {
    await using world = await openWorld(open)
    const { artifacts, clock } = world
    const ada = named('ada')
    const file = () => ({ name: 'f', bytes: bytesOf('hello'), runId: 'run_1' })
    const first = await artifacts.write(ada, file())
    clock.time += 86_400_000 - 1
    const again = await artifacts.write(ada, file())
    expect(again.versionUri).toBe(first.versionUri)
    expect(again.expiresAt).toBe(clock.time + 86_400_000)
    clock.time += 86_400_000 - 1
    expect(await textOf(artifacts, ada, first.uri)).toBe('hello')
  })

  test('gives concurrent versions different numbers', async () => {
    await using world = await openWorld(open)
    const [one, other] = [world.artifacts, world.another({})]
    const written = await Promise.all(
      Array.from({ length: 20 }, (_, n) =>
        (n % 2 ? one : other).write(named('ada'), { name: 'f', bytes: bytesOf(`${n}`) }),
      ),
    )
    const numbers = written.map(({ version }) => version).toSorted((a, b) => a - b)
    expect(numbers).toEqual(Array.from({ length: 20 }, (_, n) => n + 1))
    expect(new Set(written.map(({ scope }) => scope)).size).toBe(1)
  })

  test.each([0, 1, 2, 3, 4])(
    'shows nothing, or the whole file, when a write is killed after %i steps',
    async (steps) => {
      await using world = await openWorld(open)
      const { store, clock } = world
      await world.artifacts.write(named('ada'), { name: 'other', bytes: bytesOf('same') })
      let left = steps
      const step = (): void => {
        if (left-- <= 0) throw new Error('killed')
      }
      const dying: GatewayStore = {
        ...store,
        records: watchedRecords(store.records, {
          before: (name) => {
            if (name === 'put' || name === 'delete' || name === 'touch') step()
          },
        }),
        blobs: {
          read: (id) => store.blobs.read(id),
          async write(bytes, limits) {
            step()
            return store.blobs.write(bytes, limits)
          },
          async delete(id) {
            if (left > 0) await store.blobs.delete(id)
          },
        },
      }
      const victim = new Artifacts(artifactsOptions({ store: dying, clock }))
      await victim.write(named('ada'), { name: 'f', bytes: bytesOf('same') }).catch(() => {})
      const { artifacts: all } = await world.artifacts.list(named('ada'))
      expect(all.map(({ name }) => name)).toEqual(steps < 4 ? ['other'] : ['f', 'other'])
      for (const { uri } of all) {
        expect(await textOf(world.artifacts, named('ada'), uri)).toBe('same')
      }
      clock.time += 86_400_000
      expect((await world.artifacts.list(named('ada'))).artifacts).toEqual([])
    },
  )
})

test('leaves nothing of files after their time', async () => {
  await using world = await openWorld(inMemory)
  for (const name of ['f', 'f', 'g']) {
    await world.artifacts.write(named('ada'), { name, bytes: bytesOf('x') })
  }
  expect(await world.keptBlobs()).toHaveLength(3)
  world.clock.time += 86_400_000
  expect(await world.keptBlobs()).toEqual([])
  expect(await storedIn(world.store)).toEqual([])
  world.clock.time += 3_600_000
  expect(await world.store.records.list('files/')).toEqual([])
})

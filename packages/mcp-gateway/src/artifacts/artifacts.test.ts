import { mkdtemp, readdir, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { seededRandom, startRedisServer } from '@x/test-kit'
import { afterAll, describe, expect, test } from 'vitest'
import type { Principal } from '../auth/principal.ts'
import { DiskGatewayStore } from '../store/disk-gateway-store.ts'
import type { GatewayStore } from '../store/gateway-store.ts'
import { MemoryGatewayStore } from '../store/memory-gateway-store.ts'
import { RedisGatewayStore } from '../store/redis/redis-gateway-store.ts'
import type { ArtifactCaller } from './artifact-caller.ts'
import type { Artifact, ArtifactChange } from './artifact.ts'
import { Artifacts } from './artifacts.ts'
import type { ArtifactsOptions } from './artifacts.ts'
import { RunArtifacts } from './run-artifacts.ts'
import { newScopeId } from './scope-id.ts'

function named(id: string): ArtifactCaller {
  return { principal: { id, isAnonymous: false, scopes: [], claims: {} } }
}

const nobody: Principal = { id: 'mcp_user', isAnonymous: true, scopes: [], claims: {} }

function session(): ArtifactCaller {
  return { principal: nobody, scope: newScopeId() }
}

async function* bytesOf(...texts: readonly string[]): AsyncGenerator<Uint8Array> {
  for (const text of texts) yield Buffer.from(text)
}

/** Time that stands still until a test moves it. Sweeps are called by the tests. */
class TestClock {
  time = 1_700_000_000_000
  now = (): number => this.time
  after = (): (() => void) => () => {}
}

interface World extends AsyncDisposable {
  readonly store: GatewayStore
  readonly clock: TestClock
  readonly artifacts: Artifacts
  another(options: Partial<ArtifactsOptions>): Artifacts
  /** Those that are kept, by looking for them. */
  keptBlobs(): Promise<readonly string[]>
}

const redis = await startRedisServer()
afterAll(() => redis?.[Symbol.asyncDispose]())

async function inMemory(now: () => number): Promise<GatewayStore> {
  return new MemoryGatewayStore({ now })
}

let opened = 0
const stores: Record<string, (now: () => number) => Promise<GatewayStore>> = {
  memory: inMemory,
  disk: async (now) => {
    const folder = await mkdtemp(join(tmpdir(), 'artifacts-'))
    const store = new DiskGatewayStore(folder, { now })
    const close = store.close.bind(store)
    store.close = async () => {
      await close()
      await rm(folder, { recursive: true, force: true })
    }
    return store
  },
}
if (redis) {
  const { url } = redis
  stores['redis'] = async () =>
    new RedisGatewayStore({ url, prefix: `artifacts-${opened++}`, timeoutMs: 20_000 })
}

async function openWorld(open: (now: () => number) => Promise<GatewayStore>): Promise<World> {
  const clock = new TestClock()
  const store = await open(clock.now)
  const written = new Set<string>()
  const watched = spied(store, written)
  const another = (options: Partial<ArtifactsOptions>): Artifacts =>
    new Artifacts({ store: watched, key: 'a'.repeat(32), clock, ...options })
  return {
    store: watched,
    clock,
    artifacts: another({}),
    another,
    async keptBlobs() {
      const found = await Promise.all(
        [...written].map(async (id) => ((await store.blobs.read(id)) ? [id] : [])),
      )
      return found.flat()
    },
    [Symbol.asyncDispose]: () => store.close(),
  }
}

/** The same store, and the ids of all the bytes it was ever given. */
function spied(store: GatewayStore, written: Set<string>): GatewayStore {
  const { values, logs, messages, rates, blobs } = store
  return {
    values,
    logs,
    messages,
    rates,
    isShared: store.isShared,
    blobs: {
      async write(bytes, limit) {
        const blob = await blobs.write(bytes, limit)
        written.add(blob.id)
        return blob
      },
      read: (id, range) => blobs.read(id, range),
      delete: (id) => blobs.delete(id),
    },
    isReady: () => store.isReady(),
    close: () => store.close(),
  }
}

async function textOf(artifacts: Artifacts, caller: ArtifactCaller, uri: string): Promise<string> {
  const { bytes } = await artifacts.read(caller, uri)
  return Buffer.from(bytes ?? []).toString()
}

const notFound = { code: 'NOT_FOUND', message: 'Artifact not found' }

describe.each(Object.entries(stores))('artifacts in %s', (_name, open) => {
  test('the same name is a new version, and every version is read by its own URI', async () => {
    await using world = await openWorld(open)
    const { artifacts, clock } = world
    const caller = named('ada')
    const first = await artifacts.write(caller, {
      name: 'a b.txt',
      bytes: bytesOf('one'),
      runId: 'r1',
    })
    clock.time += 1
    const second = await artifacts.write(caller, { name: 'a b.txt', bytes: bytesOf('two') })
    expect(first).toMatchObject({ version: 1, size: 3, mimeType: 'text/plain', runId: 'r1' })
    expect(second).toMatchObject({ version: 2, uri: first.uri, scope: first.scope })
    expect(first.uri).toBe(`artifact://${first.scope}/a%20b.txt`)
    expect(await textOf(artifacts, caller, first.uri)).toBe('two')
    expect(await textOf(artifacts, caller, first.versionUri)).toBe('one')
    await expect(artifacts.find(caller, `${first.uri}?version=3`)).rejects.toMatchObject(notFound)
    expect((await artifacts.list(caller)).artifacts).toEqual([second])
  })

  test('the very same file twice in a run is shown once', async () => {
    await using world = await openWorld(open)
    const { artifacts } = world
    const caller = named('ada')
    const file = (runId: string) => ({ name: 'f', bytes: bytesOf('same'), runId })
    const all = [
      await artifacts.write(caller, file('r1')),
      await artifacts.write(caller, file('r1')),
      await artifacts.write(caller, file('r2')),
    ]
    expect(all.map(({ version }) => version)).toEqual([1, 1, 2])
    expect(await world.keptBlobs()).toHaveLength(1)
    world.clock.time += 86_400_000
    await artifacts.sweep()
    expect(await world.keptBlobs()).toEqual([])
    expect(await world.store.values.list('artifacts/usage/')).toEqual([])
  })

  test('1,000 random reads across principals and sessions find nothing', async () => {
    await using world = await openWorld(open)
    const { artifacts } = world
    const random = seededRandom(11)
    const callers = [named('ada'), named('bob'), named('mcp_user'), session(), session()]
    const files: Artifact[] = []
    for (const [n, caller] of callers.entries()) {
      files.push(await artifacts.write(caller, { name: `f${n % 2}`, bytes: bytesOf(`of ${n}`) }))
    }
    const stranger: ArtifactCaller = { principal: nobody }
    let refused = 0
    while (refused < 1000) {
      const own = Math.floor(random() * (callers.length + 1))
      const other = Math.floor(random() * callers.length)
      if (own === other) continue
      const file = files[other]
      if (!file) throw new Error('No such file')
      const { scope, uri, versionUri } = file
      const caller = callers[own] ?? stranger
      const uris = [uri, versionUri, `artifact://${scope}/f0`, `artifact://${newScopeId()}/f0`]
      const asked = uris[Math.floor(random() * uris.length)] ?? ''
      await expect(artifacts.read(caller, asked)).rejects.toMatchObject(notFound)
      expect(await artifacts.followed(caller, asked)).toBeUndefined()
      const writing = artifacts.write(caller, { name: 'x', bytes: bytesOf('x'), scope })
      await expect(writing).rejects.toMatchObject({ code: 'NOT_FOUND' })
      expect(await artifacts.complete(caller, scope, { start: '', limit: 9 })).toEqual([])
      refused++
    }
    for (const [n, caller] of callers.entries()) {
      expect(await textOf(artifacts, caller, files[n]?.uri ?? '')).toBe(`of ${n}`)
      expect((await artifacts.list(caller)).artifacts).toEqual([files[n]])
    }
    expect(await artifacts.list(stranger)).toEqual({ artifacts: [] })
  })

  test('without a name and a session, whoever has the scope has the files', async () => {
    await using world = await openWorld(open)
    const { artifacts } = world
    const [one, other] = [{ principal: nobody }, { principal: nobody }]
    const first = await artifacts.write(one, { name: 'f', bytes: bytesOf('1') })
    const apart = await artifacts.write(one, { name: 'f', bytes: bytesOf('2') })
    expect(apart.scope).not.toBe(first.scope)
    const again = await artifacts.write(other, {
      name: 'f',
      bytes: bytesOf('3'),
      scope: first.scope,
    })
    expect(again).toMatchObject({ uri: first.uri, version: 2 })
    expect(await textOf(artifacts, other, first.uri)).toBe('3')
    expect(await artifacts.list(one)).toEqual({ artifacts: [] })
  })

  test('everybody sees the same "not found", whatever it was', async () => {
    await using world = await openWorld(open)
    const { artifacts, clock } = world
    const caller = named('ada')
    const { scope, uri } = await artifacts.write(caller, { name: 'f', bytes: bytesOf('1') })
    for (const absent of ['', 'nonsense', uri.slice(0, -1), `${uri}?version=9`, `${uri}2`]) {
      await expect(artifacts.read(caller, absent)).rejects.toMatchObject(notFound)
    }
    await expect(artifacts.read(named('bob'), uri)).rejects.toMatchObject(notFound)
    clock.time += 86_400_000
    await expect(artifacts.read(caller, uri)).rejects.toMatchObject(notFound)
    await expect(artifacts.openLinked({ scope, name: 'f' })).rejects.toMatchObject(notFound)
  })

  test('lists the newest first, page by page, and takes no cursor of another list', async () => {
    await using world = await openWorld(open)
    const { artifacts, clock } = world
    const caller = named('ada')
    for (let n = 0; n < 25; n++) {
      await artifacts.write(caller, { name: `f${n}`, bytes: bytesOf(`${n}`) })
      clock.time += n % 3 // some at the same time
    }
    clock.time += 1
    const latest = await artifacts.write(caller, { name: 'f0', bytes: bytesOf('again') })
    const names: string[] = []
    let cursor: string | undefined
    for (;;) {
      const page = await artifacts.list(caller, { cursor, limit: 10 })
      names.push(...page.artifacts.map(({ name }) => name))
      cursor = page.nextCursor
      if (cursor === undefined) break
      const foreign = artifacts.list(named('bob'), { cursor })
      await expect(foreign).rejects.toMatchObject({ code: 'NOT_FOUND' })
      await expect(artifacts.list(caller, { cursor: `x${cursor}` })).rejects.toThrow('cursor')
    }
    expect(latest.version).toBe(2)
    // In the order in which they were written, also those of the same time.
    expect(names).toEqual(['f0', ...Array.from({ length: 24 }, (_, n) => `f${24 - n}`)])
    const all = await artifacts.list(caller)
    expect(all.artifacts.map(({ name }) => name)).toEqual(names)
    const times = all.artifacts.map(({ createdAt }) => createdAt)
    expect(times).toEqual(times.toSorted((a, b) => b - a))
  })

  test('completes names in a scope of the caller', async () => {
    await using world = await openWorld(open)
    const { artifacts } = world
    const caller = named('ada')
    let scope = ''
    for (const name of ['re port', 'report', 'ré', 'other', 're/a', '..env']) {
      scope = (await artifacts.write(caller, { name, bytes: bytesOf('1') })).scope
    }
    const complete = (start: string, limit = 100) =>
      artifacts.complete(caller, scope, { start, limit })
    expect(new Set(await complete('re'))).toEqual(new Set(['re port', 're/a', 'report']))
    expect(await complete('re ')).toEqual(['re port'])
    expect(await complete('')).toHaveLength(6)
    expect(await complete('', 2)).toHaveLength(2)
    expect(await complete('re\u0301')).toEqual(['ré'])
    expect(await complete('.')).toEqual(['..env'])
    expect(await complete('..')).toEqual(['..env'])
    expect(await complete('\ud800')).toEqual([])
  })

  test('old versions go beyond the limit per name, with their bytes', async () => {
    await using world = await openWorld(open)
    const artifacts = world.another({ versionsPerName: 3 })
    const caller = named('ada')
    const written: Artifact[] = []
    for (let n = 1; n <= 5; n++) {
      written.push(await artifacts.write(caller, { name: 'f', bytes: bytesOf(`v${n}`) }))
    }
    await expect(artifacts.find(caller, written[1]?.versionUri ?? '')).rejects.toMatchObject(
      notFound,
    )
    expect(await textOf(artifacts, caller, written[2]?.versionUri ?? '')).toBe('v3')
    expect(await world.keptBlobs()).toHaveLength(3)
    const [usage] = await world.store.values.list('artifacts/usage/')
    expect(usage?.value).toEqual({ bytes: 6, count: 3 })
  })

  test('a quota ends a file while its bytes arrive, and leaves nothing of it', async () => {
    await using world = await openWorld(open)
    const quota = { bytesPerPrincipal: 12, countPerPrincipal: 3 }
    const artifacts = world.another({ quota, maxBytes: 8, versionsPerName: 2 })
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
    const overQuota = artifacts.write(caller, { name: 'g', bytes: bytesOf('123', '456', '78') })
    await expect(overQuota).rejects.toMatchObject({ code: 'QUOTA' })
    await artifacts.write(named('bob'), { name: 'g', bytes: bytesOf('123456') })
    await artifacts.write(caller, { name: 'f', bytes: bytesOf('54321') })
    // There is no room, but an old version of the same name makes some.
    const third = await artifacts.write(caller, { name: 'f', bytes: bytesOf('abcde') })
    expect(third.version).toBe(3)
    expect(await world.keptBlobs()).toHaveLength(3)
  })

  test('files at once do not get over the quota together', async () => {
    await using world = await openWorld(open)
    const artifacts = world.another({ quota: { bytesPerPrincipal: 50 } })
    const results = await Promise.allSettled(
      Array.from({ length: 30 }, (_, n) =>
        artifacts.write(named('ada'), { name: `f${n}`, bytes: bytesOf('12345', '67890') }),
      ),
    )
    const kept = results.filter(({ status }) => status === 'fulfilled')
    expect(kept.length).toBeLessThanOrEqual(5)
    expect((await artifacts.list(named('ada'))).artifacts).toHaveLength(kept.length)
    expect((await world.keptBlobs()).length).toBe(Math.min(1, kept.length)) // all have the same bytes
  })

  test('versions at once get numbers of their own', async () => {
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

  test('the same bytes are kept once, and exactly as long as somebody has them', async () => {
    await using world = await openWorld(open)
    const { clock } = world
    const short = world.another({ ttlMs: 1000 })
    const long = world.another({ ttlMs: 1_000_000 })
    const random = seededRandom(5)
    // Some come while others go, over and over: at any time, what is there can be read.
    for (let round = 0; round < 15; round++) {
      const writes = Array.from({ length: 6 }, (_, n) =>
        (random() < 0.5 ? short : long).write(named(`p${n}`), {
          name: 'f',
          bytes: bytesOf('same'),
        }),
      )
      const sweeps = [short.sweep(), long.sweep()]
      const written = await Promise.all(writes)
      await Promise.all(sweeps)
      for (const [n, { versionUri }] of written.entries()) {
        expect(await textOf(long, named(`p${n}`), versionUri)).toBe('same')
      }
      expect(await world.keptBlobs()).toHaveLength(1)
      clock.time += 1000
      if (round % 4 === 3) clock.time += 1_000_000
    }
    clock.time += 1_000_000
    for (let n = 0; n < 3; n++) await long.sweep()
    expect(await world.keptBlobs()).toEqual([])
    expect((await world.store.values.list('artifacts/held/')).length).toBe(0)
    expect((await world.store.values.list('artifacts/name/')).length).toBe(0)
    expect((await world.store.values.list('artifacts/usage/')).length).toBe(0)
    expect((await world.store.values.list('artifacts/unfinished/')).length).toBe(0)
  })

  test('what has ended is removed in bounded batches', async () => {
    await using world = await openWorld(open)
    const { artifacts, clock, store } = world
    for (let n = 0; n < 12; n++) {
      await artifacts.write(named('ada'), { name: `f${n}`, bytes: bytesOf(`${n}`) })
    }
    clock.time += 86_400_000
    const left: number[] = []
    for (let n = 0; n < 3; n++) {
      await artifacts.sweep(5)
      left.push((await store.values.list('artifacts/name/')).length)
    }
    expect(left).toEqual([7, 2, 0])
    expect(await world.keptBlobs()).toEqual([])
  })

  test.each([1, 2, 3, 4, 5, 6, 7, 8, 9])(
    'a write cut off after %i steps leaves nothing for ever',
    async (steps) => {
      await using world = await openWorld(open)
      const { store, clock } = world
      await world.artifacts.write(named('ada'), { name: 'other', bytes: bytesOf('same') })
      let left = Infinity
      const dying: GatewayStore = {
        ...store,
        values: new Proxy(store.values, {
          get: (target, name) => {
            const method: unknown = Reflect.get(target, name)
            if (typeof method !== 'function') return method
            const isWrite = name === 'put' || name === 'delete' || name === 'touch'
            return async (...args: unknown[]): Promise<unknown> => {
              if (isWrite && left-- <= 0) throw new Error('killed')
              return Reflect.apply(method, target, args)
            }
          },
        }),
        blobs: {
          ...store.blobs,
          async write(bytes, limit) {
            const written = await store.blobs.write(bytes, limit)
            left = steps // from here on it counts
            return written
          },
          async delete(id) {
            if (left > 0) await store.blobs.delete(id)
          },
        },
      }
      const victim = new Artifacts({ store: dying, key: 'k', clock })
      await victim.write(named('ada'), { name: 'f', bytes: bytesOf('same') }).catch(() => {})
      clock.time += 600_000
      await world.artifacts.sweep()
      const { artifacts: all } = await world.artifacts.list(named('ada'))
      for (const { uri } of all)
        expect(await textOf(world.artifacts, named('ada'), uri)).toBe('same')
      expect(all.length).toBeGreaterThanOrEqual(1)
      const [usage] = await store.values.list('artifacts/usage/')
      expect(usage?.value).toEqual({ bytes: 4 * all.length, count: all.length })
      clock.time += 86_400_000
      await world.artifacts.sweep()
      await world.artifacts.sweep()
      expect((await world.artifacts.list(named('ada'))).artifacts).toEqual([])
      expect((await store.values.list('artifacts/held/')).length).toBe(0)
      expect((await store.values.list('artifacts/blob/')).length).toBe(0)
    },
  )

  test('tells of new names and versions, and of names that ended', async () => {
    await using world = await openWorld(open)
    const { artifacts, clock } = world
    const changes: ArtifactChange[] = []
    let heard = (): void => {}
    const stop = await world.another({}).onChange((change) => {
      changes.push(change)
      heard()
    })
    const next = async (count: number): Promise<void> => {
      while (changes.length < count) await new Promise<void>((resolve) => (heard = resolve))
    }
    const caller = named('ada')
    const { uri, scope } = await artifacts.write(caller, { name: 'f', bytes: bytesOf('1') })
    await artifacts.write(caller, { name: 'f', bytes: bytesOf('2') })
    clock.time += 86_400_000
    await artifacts.sweep()
    await next(3)
    const list = artifacts.listOf(caller)
    expect(changes).toEqual([
      { uri, scope, list, isUpdate: true, isListChange: true },
      { uri, scope, list, isUpdate: true, isListChange: false },
      { uri, scope, list, isUpdate: false, isListChange: true },
    ])
    stop()
  })

  test('gives an agent the bytes of a file, as it pulls them', async () => {
    await using world = await openWorld(open)
    const { artifacts } = world
    const caller = session()
    const { uri } = await artifacts.write(caller, { name: 'f.csv', bytes: bytesOf('a,', 'b') })
    const file = await artifacts.inputFile(caller, uri)
    expect(file).toMatchObject({ uri, name: 'f.csv', mimeType: 'text/csv', size: 3 })
    let text = ''
    for await (const chunk of file.read()) text += Buffer.from(chunk).toString()
    expect(text).toBe('a,b')
    await expect(artifacts.inputFile(session(), uri)).rejects.toMatchObject(notFound)
    const climbing = await artifacts.write(caller, { name: '../../f.csv', bytes: bytesOf('a') })
    await expect(artifacts.inputFile(caller, climbing.uri)).resolves.toMatchObject({
      name: '.._.._f.csv',
    })
    const aborted = file.read(AbortSignal.abort(new Error('enough')))
    await expect(aborted[Symbol.asyncIterator]().next()).rejects.toThrow('enough')
  })
})

describe('the files of a run', () => {
  test('of a caller without a name go to one scope, in the order of the calls', async () => {
    await using world = await openWorld(inMemory)
    const { artifacts } = world
    const signal = new AbortController().signal
    const run = new RunArtifacts({ artifacts, caller: { principal: nobody }, runId: 'r', signal })
    const written = await Promise.all([
      run.write({ name: 'f', data: Buffer.from('1') }),
      run.write({ name: 'f', data: bytesOf('2'), mimeType: 'text/x;nonsense\r\n' }),
      run.write({ name: 'g', data: Buffer.from('3'), mimeType: 'text/csv; charset="utf-8"' }),
    ])
    expect(new Set(written.map(({ scope }) => scope)).size).toBe(1)
    expect(written.map(({ version }) => version)).toEqual([1, 2, 1])
    expect(written.map(({ mimeType }) => mimeType)).toEqual([
      'application/octet-stream',
      'application/octet-stream',
      'text/csv; charset="utf-8"',
    ])
    const byUrl = run.write({ name: 'h', data: { url: 'https://example.com/' } })
    await expect(byUrl).rejects.toMatchObject({ code: 'UNAVAILABLE' })
  })

  test('end with the run, also when a source of bytes hangs', async () => {
    await using world = await openWorld(inMemory)
    const { artifacts } = world
    const ending = new AbortController()
    const fetchFile = async (): Promise<{ bytes: AsyncIterable<Uint8Array> }> => ({
      bytes: {
        [Symbol.asyncIterator]: () => ({
          next: () => {
            ending.abort(new Error('the run is over'))
            return new Promise<never>(() => {})
          },
        }),
      },
    })
    const { signal } = ending
    const run = new RunArtifacts({ artifacts, caller: named('a'), runId: 'r', signal, fetchFile })
    const writing = run.write({ name: 'f', data: { url: 'https://example.com/' } })
    await expect(writing).rejects.toThrow('the run is over')
    expect(await world.keptBlobs()).toEqual([])
  })

  test('large ones are found, and not held in memory', async () => {
    await using world = await openWorld(inMemory)
    const artifacts = world.another({ readMaxBytes: 3 })
    const { uri } = await artifacts.write(named('a'), { name: 'f', bytes: bytesOf('1234') })
    const read = await artifacts.read(named('a'), uri)
    expect(read).toMatchObject({ artifact: { size: 4 }, bytes: undefined })
  })
})

test('the index and the files survive a restart', async () => {
  const folder = await mkdtemp(join(tmpdir(), 'artifacts-'))
  const caller = named('ada')
  try {
    let uri = ''
    {
      await using store = new DiskGatewayStore(folder)
      await using artifacts = new Artifacts({ store, key: 'k' })
      uri = (await artifacts.write(caller, { name: 'f', bytes: bytesOf('kept') })).uri
    }
    await using store = new DiskGatewayStore(folder)
    await using artifacts = new Artifacts({ store, key: 'k' })
    expect(await textOf(artifacts, caller, uri)).toBe('kept')
    expect((await readdir(join(folder, 'blobs', 'partial'))).length).toBe(0)
  } finally {
    await rm(folder, { recursive: true })
  }
})

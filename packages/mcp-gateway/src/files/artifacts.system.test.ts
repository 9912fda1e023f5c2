import { seededRandom } from '@x/mcp-testing'
import { afterAll, describe, expect, test } from 'vitest'

import {
  named,
  nobody,
  session,
  bytesOf,
  inMemory,
  storesOfTests,
  openWorld,
  textOf,
  notFound,
} from '../../test/artifact-world.ts'
import { ownerOf, type Caller } from '../internal/principal.ts'
import type { Artifact, ArtifactChange } from './artifacts.ts'
import { newScopeId } from './scopes.ts'

const stores = await storesOfTests()
afterAll(() => stores[Symbol.asyncDispose]())

describe.each(stores.all)('artifacts in %s', (_name, open) => {
  test('stores the same name as a new version, and reads each version by its URI', async () => {
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
    expect((await artifacts.list(caller)).artifacts).toMatchObject([second])
  })

  test('shows a file that a run wrote twice once', async () => {
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
    expect(await world.keptBlobs()).toHaveLength(2)
  })

  test('finds nothing in 200 random reads across principals and sessions', async () => {
    await using world = await openWorld(open)
    const { artifacts } = world
    const random = seededRandom(11)
    const callers = [named('ada'), named('bob'), named('mcp_user'), session(), session()]
    const files: Artifact[] = []
    for (const [n, caller] of callers.entries()) {
      files.push(await artifacts.write(caller, { name: `f${n % 2}`, bytes: bytesOf(`of ${n}`) }))
    }
    const stranger: Caller = { principal: nobody }
    let refused = 0
    while (refused < 200) {
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
      expect((await artifacts.list(caller)).artifacts).toMatchObject([files[n] ?? {}])
    }
    expect(await artifacts.list(stranger)).toEqual({ artifacts: [] })
  })

  test('gives files without a name and a session to every caller that knows the scope', async () => {
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

  test('gives the same error "not found" for all reasons', async () => {
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
    await expect(artifacts.findLinked({ scope, name: 'f' })).rejects.toMatchObject(notFound)
  })

  test('lists the newest first in pages, and refuses a cursor of another list', async () => {
    await using world = await openWorld(open)
    const { artifacts, clock } = world
    const caller = named('ada')
    for (let n = 0; n < 25; n++) {
      await artifacts.write(caller, { name: `f${n}`, bytes: bytesOf(`${n}`) })
      clock.time += 1
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

  test('reports new names and new versions', async () => {
    await using world = await openWorld(open)
    const changes: ArtifactChange[] = []
    const artifacts = world.another({ onChange: (change) => void changes.push(change) })
    const caller = named('ada')
    const { uri } = await artifacts.write(caller, { name: 'f', bytes: bytesOf('1') })
    await artifacts.write(caller, { name: 'f', bytes: bytesOf('2') })
    const owner = ownerOf(caller)
    expect(changes).toEqual([
      { uri, owner, isNew: true },
      { uri, owner, isNew: false },
    ])
  })

  test('streams a file to an agent', async () => {
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
    const climbing = { name: '../../photo\u202Egnp\u200B.exe', bytes: bytesOf('a') }
    const { uri: cleaned } = await artifacts.write(caller, climbing)
    expect(cleaned).toMatch(/photognp\.exe$/)
    await expect(artifacts.inputFile(caller, cleaned)).resolves.toMatchObject({
      name: '.._.._photognp.exe',
    })
    const aborted = file.read(AbortSignal.abort(new Error('enough')))
    await expect(aborted[Symbol.asyncIterator]().next()).rejects.toThrow('enough')
  })
})

test('finds large files without reading them into memory', async () => {
  await using world = await openWorld(inMemory)
  const artifacts = world.another({ readMaxBytes: 3 })
  const { uri } = await artifacts.write(named('a'), { name: 'f', bytes: bytesOf('1234') })
  const read = await artifacts.read(named('a'), uri)
  expect(read).toMatchObject({ artifact: { size: 4 }, bytes: undefined })
})

test('calls `check` after the wait for other large reads, and reads nothing if it throws', async () => {
  await using world = await openWorld(inMemory)
  const { artifacts } = world
  const large = 'x'.repeat(300_000)
  const { uri } = await artifacts.write(named('a'), { name: 'f', bytes: bytesOf(large) })
  let isFirstRead = false
  const first = artifacts.read(named('a'), uri).then(() => (isFirstRead = true))
  const second = artifacts.read(named('a'), uri, () => {
    throw new Error(`full, first read: ${isFirstRead}`)
  })
  await expect(second).rejects.toThrow('full, first read: true')
  expect(await first).toBe(true)
})

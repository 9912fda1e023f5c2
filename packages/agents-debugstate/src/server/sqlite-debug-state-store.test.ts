import { readFile, readdir, stat, writeFile } from 'node:fs/promises'
import { dirname } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { expect, test } from 'vitest'
import { temporaryFolder } from '../../test/temporary-folder.ts'
import type { DebugStateStoreError } from './debug-state-store-error.ts'
import { SqliteDebugStateStore } from './sqlite-debug-state-store.ts'

const address = { agentId: 'agent', key: 'key' }
const ttlMs = 1_000_000
const bytes = (text: string): Uint8Array => new TextEncoder().encode(text)

function errorOfOpening(path: string): DebugStateStoreError {
  try {
    void new SqliteDebugStateStore(path)
  } catch (error) {
    return error as DebugStateStoreError
  }
  throw new Error('It opened')
}

async function makeStore(path: string): Promise<void> {
  await using store = new SqliteDebugStateStore(path)
  for (let n = 0; n < 200; n++) {
    await store.put({ agentId: 'agent', key: `key-${n}` }, bytes('x'.repeat(500)), { ttlMs })
  }
}

test('makes the folder and a file that only its owner can read', async () => {
  await using folder = await temporaryFolder()
  const path = folder.file('new/deeper/state.db')
  await using store = new SqliteDebugStateStore(path)
  await store.put(address, bytes('a'), { ttlMs })
  expect(store.path).toBe(path)
  for (const name of await readdir(dirname(path))) {
    const { mode } = await stat(`${dirname(path)}/${name}`)
    expect([name, mode & 0o777]).toEqual([name, 0o600])
  }
})

test('finds again what was stored before', async () => {
  await using folder = await temporaryFolder()
  const path = folder.file('state.db')
  await makeStore(path)
  await using store = new SqliteDebugStateStore(path)
  expect(await store.list('agent', 1000)).toHaveLength(200)
})

test('an empty file is as good as none', async () => {
  await using folder = await temporaryFolder()
  const path = folder.file('state.db')
  await writeFile(path, '')
  await makeStore(path)
  await using store = new SqliteDebugStateStore(path)
  expect(await store.list('agent', 1000)).toHaveLength(200)
})

test('two that are open at once see each other, and only one wins a race', async () => {
  await using folder = await temporaryFolder()
  const path = folder.file('state.db')
  await using one = new SqliteDebugStateStore(path)
  await using other = new SqliteDebugStateStore(path)
  const precondition = { ifNoneMatch: '*' } as const
  const outcomes = await Promise.all(
    [one, other].map((store) => store.put(address, bytes('a'), { ttlMs, precondition })),
  )
  expect(outcomes.filter((outcome) => outcome === 'conflict')).toHaveLength(1)
  expect(await other.get(address)).toEqual(await one.get(address))
})

test.each<[string, DebugStateStoreError['code'], (path: string) => Promise<void>]>([
  ['a text file', 'CORRUPT', (path) => writeFile(path, 'my diary, page one. '.repeat(50))],
  ['a short file', 'CORRUPT', (path) => writeFile(path, 'x')],
  [
    'a database with holes',
    'CORRUPT',
    async (path) => {
      await makeStore(path)
      const content = await readFile(path)
      content.fill(0xff, 4096)
      await writeFile(path, content)
    },
  ],
  [
    'half a database',
    'CORRUPT',
    async (path) => {
      await makeStore(path)
      const content = await readFile(path)
      await writeFile(path, content.subarray(0, 3 * 4096))
    },
  ],
  [
    'the database of another program',
    'FOREIGN',
    async (path) => {
      const database = new DatabaseSync(path)
      database.exec('CREATE TABLE diary (page TEXT); PRAGMA journal_mode = WAL')
      database.close()
    },
  ],
  [
    'a database of a newer version',
    'NEWER',
    async (path) => {
      await makeStore(path)
      const database = new DatabaseSync(path)
      database.exec('PRAGMA journal_mode = DELETE; PRAGMA user_version = 2')
      database.close()
    },
  ],
])('%s is refused in one line that names it, and left as it is', async (_, code, make) => {
  await using folder = await temporaryFolder()
  const path = folder.file('state.db')
  await make(path)
  const before = await readFile(path)
  const error = errorOfOpening(path)
  expect(error).toMatchObject({ name: 'DebugStateStoreError', code, path })
  expect(error.message).toContain(path)
  expect(error.message).toMatch(/^[^\n]+: [^\n]+another file$/)
  expect(await readFile(path)).toEqual(before)
})

test('a folder in place of the file is out of reach', async () => {
  await using folder = await temporaryFolder()
  const error = errorOfOpening(dirname(folder.file('x')))
  expect(error).toMatchObject({ code: 'UNAVAILABLE' })
  expect(error.cause).toBeInstanceOf(Error)
})

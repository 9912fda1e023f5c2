import { chmod, chown, readFile, readdir, stat, writeFile } from 'node:fs/promises'
import { dirname } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { temporaryFolder } from '@x/internal/testing'
import { afterEach, expect, test, vi } from 'vitest'
import type { DebugStateStoreError, DebugStateStoreErrorCode } from './debug-state-store.ts'
import { SqliteDebugStateStore, toStoreError } from './sqlite-debug-state-store.ts'

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
    await store.put({ agentId: 'agent', key: `key-${n}` }, bytes('x'.repeat(500)), ttlMs)
  }
}

afterEach(() => vi.useRealTimers())

test('creates the folder, and a file that only its owner can read', async () => {
  await using folder = await temporaryFolder()
  const path = folder.file('new/deeper/state.db')
  await using store = new SqliteDebugStateStore(path)
  await store.put(address, bytes('a'), ttlMs)
  expect(store.path).toBe(path)
  for (const name of await readdir(dirname(path))) {
    const { mode } = await stat(`${dirname(path)}/${name}`)
    expect([name, mode & 0o777]).toEqual([name, 0o600])
  }
})

test('uses an empty file', async () => {
  await using folder = await temporaryFolder()
  const path = folder.file('state.db')
  await writeFile(path, '')
  await makeStore(path)
  await using store = new SqliteDebugStateStore(path)
  expect(await store.get({ agentId: 'agent', key: 'key-199' })).toBeDefined()
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
  ...['an older', 'a newer'].map(
    (age): [string, DebugStateStoreErrorCode, (path: string) => Promise<void>] => [
      `a database of ${age} version`,
      'VERSION',
      async (path) => {
        await makeStore(path)
        const database = new DatabaseSync(path)
        const version = age === 'an older' ? 1 : 3
        database.exec(`PRAGMA journal_mode = DELETE; PRAGMA user_version = ${version}`)
        database.close()
      },
    ],
  ),
])('refuses %s with one line that names it, and does not change it', async (_, code, make) => {
  await using folder = await temporaryFolder()
  const path = folder.file('state.db')
  await make(path)
  const before = await readFile(path)
  const error = errorOfOpening(path)
  expect(error).toMatchObject({ name: 'DebugStateStoreError', code })
  expect(error.message).toContain(path)
  expect(error.message).toMatch(/^[^\n]+: [^\n]+another file\. See \S+#\w+$/)
  expect(await readFile(path)).toEqual(before)
})

test('refuses a folder instead of a file', async () => {
  await using folder = await temporaryFolder()
  const error = errorOfOpening(dirname(folder.file('x')))
  expect(error).toMatchObject({ code: 'UNAVAILABLE' })
  expect(error.cause).toBeInstanceOf(Error)
})

test('reports a file that was damaged while it was open, and does not delete it', async () => {
  await using folder = await temporaryFolder()
  const path = folder.file('state.db')
  await makeStore(path)
  await using store = new SqliteDebugStateStore(path)
  const content = await readFile(path)
  content.fill(0xff, 4096)
  await writeFile(path, content)
  await expect(store.get(address)).rejects.toMatchObject({ code: 'CORRUPT' })
  await expect(store.put(address, bytes('a'), ttlMs)).rejects.toMatchObject({ code: 'CORRUPT' })
  await store.close()
  expect(await readFile(path)).toEqual(content)
})

/** Root may do everything, so this runs as another user. Synchronous, because the whole process changes its user. */
function asNobody<Result>(work: () => Result): Result {
  if (process.geteuid?.() !== 0) return work()
  process.seteuid?.(NOBODY)
  try {
    return work()
  } finally {
    process.seteuid?.(0)
  }
}
const NOBODY = 65_534

test('fails with DENIED when it opens a file without write permission', async () => {
  await using folder = await temporaryFolder()
  const path = folder.file('sub/state.db')
  await makeStore(path)
  for (const one of [folder.path, dirname(path), path]) {
    if (process.geteuid?.() === 0) await chown(one, NOBODY, NOBODY)
  }
  await chmod(path, 0o400)
  const error = asNobody(() => errorOfOpening(path))
  expect(error).toMatchObject({ code: 'DENIED', cause: expect.any(Error) })
  expect(error.message).toContain(path)
  await chmod(path, 0o600)
})

test('fails with TIMEOUT while another process locks the file', async () => {
  await using folder = await temporaryFolder()
  const path = folder.file('state.db')
  await using store = new SqliteDebugStateStore(path)
  await store.put(address, bytes('a'), ttlMs)
  const other = new DatabaseSync(path)
  other.exec('BEGIN IMMEDIATE')
  const [write, read] = await Promise.allSettled([
    store.put(address, bytes('b'), ttlMs),
    store.get(address),
  ])
  expect(write).toMatchObject({ status: 'rejected', reason: { code: 'TIMEOUT' } })
  expect(read).toMatchObject({ value: bytes('a') })
  other.exec('ROLLBACK')
  other.close()
  await expect(store.put(address, bytes('c'), ttlMs)).resolves.toBeUndefined()
})

test.each<[DebugStateStoreError['code'], (path: string) => void]>([
  [
    'FULL',
    (path) => {
      const database = new DatabaseSync(path)
      database.exec('CREATE TABLE t (x); PRAGMA max_page_count = 3')
      database.exec('INSERT INTO t VALUES (zeroblob(100000))')
    },
  ],
  [
    'READ_ONLY',
    (path) => {
      new DatabaseSync(path).close()
      new DatabaseSync(path, { readOnly: true }).exec('CREATE TABLE t (x)')
    },
  ],
  ['UNAVAILABLE', (path) => new DatabaseSync(path).exec('no SQL')],
  ['FULL', () => raise('ENOSPC')],
  ['FULL', () => raise('EDQUOT')],
  ['READ_ONLY', () => raise('EROFS')],
  ['DENIED', () => raise('EACCES')],
])('converts an error to %s, and keeps its cause', async (code, work) => {
  await using folder = await temporaryFolder()
  let cause: unknown
  try {
    work(folder.file('other.db'))
  } catch (error) {
    cause = error
  }
  expect(cause).toBeInstanceOf(Error)
  const error = toStoreError(cause, '/data/state.db')
  expect(error).toMatchObject({ code, cause })
  expect(error.message).toMatch(/^\/data\/state\.db [^\n]+$/)
})

function raise(code: string): never {
  throw Object.assign(new Error(code), { code })
}

test('uses WAL mode, so that readers and a writer do not wait for each other', async () => {
  await using folder = await temporaryFolder()
  const path = folder.file('state.db')
  await using store = new SqliteDebugStateStore(path)
  await store.put(address, bytes('a'), ttlMs)
  const other = new DatabaseSync(path, { readOnly: true })
  expect(other.prepare('PRAGMA journal_mode').get()).toEqual({ journal_mode: 'wal' })
  other.exec('BEGIN; SELECT * FROM debug_state')
  await expect(store.put(address, bytes('b'), ttlMs)).resolves.toBeUndefined()
  other.close()
})

test('does not grow with many writes of the same keys', async () => {
  await using folder = await temporaryFolder()
  const path = folder.file('state.db')
  await using store = new SqliteDebugStateStore(path)
  const value = bytes('x'.repeat(1000))
  const sizes: number[] = []
  for (let round = 0; round < 300; round++) {
    await Promise.all(
      Array.from({ length: 100 }, (_, n) =>
        store.put({ agentId: 'agent', key: `key-${n}` }, value, ttlMs),
      ),
    )
    const files = await Promise.all(['', '-wal'].map((end) => stat(path + end)))
    sizes.push(files.reduce((sum, { size }) => sum + size, 0))
  }
  // The writes are 30 MB of values, and more than 100 MB of pages in the log.
  expect(Math.max(...sizes)).toBeLessThan(16_000_000)
})

test('removes expired values in batches, and uses their space again', async () => {
  await using folder = await temporaryFolder()
  const path = folder.file('state.db')
  vi.setSystemTime(1_000_000)
  await using store = new SqliteDebugStateStore(path)
  const fill = (round: number): Promise<unknown> =>
    Promise.all(
      Array.from({ length: 1200 }, (_, n) =>
        store.put({ agentId: 'agent', key: `${round}-${n}` }, bytes('x'.repeat(500)), 1),
      ),
    )
  const other = new DatabaseSync(path, { readOnly: true })
  const rows = (): unknown => other.prepare('SELECT count(*) AS n FROM debug_state').get()?.['n']
  await fill(0)
  const pages: unknown[] = []
  const counts: unknown[] = []
  for (let round = 1; round <= 5; round++) {
    vi.setSystemTime(Date.now() + 120_000)
    counts.length = 0
    for (let n = 0; n < 4; n++) {
      await store.put(address, bytes('x'), ttlMs)
      counts.push(rows())
    }
    expect(counts).toEqual([701, 201, 1, 1])
    await fill(round)
    pages.push(other.prepare('PRAGMA page_count').get()?.['page_count'])
  }
  expect(new Set(pages.slice(1)).size).toBe(1)
  other.close()
})

import { mkdtemp, readdir, readFile, rm, stat, utimes, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileSystem } from '@x/internal'
import { temporaryFolder } from '@x/internal/testing'
import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest'
import { deferred } from '@x/mcp-testing'
import { fileTokenStore, withFileLock } from './token-store.ts'
import type { StoredCredentials } from './token-store.ts'

const credentials: StoredCredentials = {
  v: 1,
  client: { client_id: 'c', issuer: 'https://as.test' },
  tokens: { access_token: 'a', token_type: 'Bearer', refresh_token: 'r', expires_in: 60 },
}

test('stores credentials for the next process in a file that only its owner can read', async () => {
  await using here = await temporaryFolder()
  const path = join(here.path, 'deep', 'shop.json')
  await fileTokenStore(path).write(credentials)
  await expect(fileTokenStore(path).read()).resolves.toEqual(credentials)
  expect((await stat(path)).mode & 0o777).toBe(0o600)
  expect(await readdir(join(here.path, 'deep'))).toEqual(['shop.json'])
})

test('returns undefined without a file', async () => {
  await using here = await temporaryFolder()
  await expect(fileTokenStore(join(here.path, 'none.json')).read()).resolves.toBeUndefined()
})

test('reads what another process has written', async () => {
  await using here = await temporaryFolder()
  const path = join(here.path, 'shop.json')
  const [one, other] = [fileTokenStore(path), fileTokenStore(path)]
  await one.write(credentials)
  await one.read()
  await other.write({ v: 1 })
  await expect(one.read()).resolves.toEqual({ v: 1 })
})

test.each([
  '',
  '{"v":1',
  'null',
  '{"v":2}',
  '{"v":1,"client":{"client_id":7}}',
  '{"v":1,"tokens":{"access_token":"a"}}',
  '{"v":1,"codeVerifier":7}',
  '{"v":1,"discovery":{}}',
])(
  'returns undefined for a file with %j, and renames that file before the next write',
  async (text) => {
    await using here = await temporaryFolder()
    const path = join(here.path, 'shop.json')
    await writeFile(path, text)
    const store = fileTokenStore(path)
    await expect(store.read()).resolves.toBeUndefined()
    const [aside = ''] = await readdir(here.path)
    expect(aside).toMatch(/^shop\.json\.unreadable-/)
    expect(await readFile(join(here.path, aside), 'utf8')).toBe(text)
    await store.write(credentials)
    await expect(store.read()).resolves.toEqual(credentials)
  },
)

test('throws STORE_UNUSABLE when the file system fails', async () => {
  await using here = await temporaryFolder()
  const store = fileTokenStore(join(here.path, 'file', 'shop.json'))
  await writeFile(join(here.path, 'file'), '')
  await expect(store.write(credentials)).rejects.toMatchObject({
    code: 'STORE_UNUSABLE',
    cause: expect.anything(),
  })
})

const folders: string[] = []
afterEach(async () => {
  for (const path of folders.splice(0)) await rm(path, { recursive: true })
})

async function lockPath(): Promise<string> {
  const path = await mkdtemp(join(tmpdir(), 'lock-'))
  folders.push(path)
  return join(path, 'x.lock')
}

test('runs tasks one after another, and removes the lock at the end', async () => {
  const path = await lockPath()
  const order: string[] = []
  const held = deferred()
  const go = deferred()
  const first = withFileLock(path, async () => {
    held.resolve()
    await go.promise
    order.push('first')
  })
  await held.promise
  const second = withFileLock(path, async () => order.push('second'))
  go.resolve()
  await Promise.all([first, second])
  expect(order).toEqual(['first', 'second'])
  expect(await readdir(join(path, '..'))).toEqual([])
})

test('releases the lock after a failed task', async () => {
  const path = await lockPath()
  await expect(withFileLock(path, () => Promise.reject(new Error('no')))).rejects.toThrow('no')
  await expect(withFileLock(path, async () => 'yes')).resolves.toBe('yes')
})

test('takes over the lock of a dead process', async () => {
  const path = await lockPath()
  await writeFile(path, '')
  await utimes(path, 0, 0)
  await expect(withFileLock(path, async () => 'done')).resolves.toBe('done')
})

test('returns the result of work whose lock cannot be removed', async () => {
  const path = await lockPath()
  const denied = Object.assign(new Error('denied'), { code: 'EACCES' })
  vi.spyOn(fileSystem, 'rm').mockRejectedValueOnce(denied)
  await expect(withFileLock(path, async () => 'done')).resolves.toBe('done')
})

describe('on Windows, while another program has the file open', () => {
  const busy = Object.assign(new Error('busy'), { code: 'EBUSY' })
  beforeEach(() => void vi.spyOn(fileSystem, 'platform', 'get').mockReturnValue('win32'))

  test('reads and writes credentials', async () => {
    await using here = await temporaryFolder()
    const store = fileTokenStore(join(here.path, 'shop.json'))
    vi.spyOn(fileSystem, 'rename').mockRejectedValueOnce(busy)
    vi.spyOn(fileSystem, 'readFile').mockRejectedValueOnce(busy)
    await store.write(credentials)
    await expect(store.read()).resolves.toEqual(credentials)
  })

  test('takes a lock, and removes it', async () => {
    const path = await lockPath()
    vi.spyOn(fileSystem, 'writeFile').mockRejectedValueOnce(busy)
    vi.spyOn(fileSystem, 'rm').mockRejectedValueOnce(busy)
    await expect(withFileLock(path, async () => 'done')).resolves.toBe('done')
    expect(await readdir(join(path, '..'))).toEqual([])
  })
})

test('stops waiting for a lock after the limit', async () => {
  const path = await lockPath()
  await writeFile(path, '')
  await expect(withFileLock(path, async () => 'done', 1)).resolves.toBe('done')
  expect(await readdir(join(path, '..'))).toEqual(['x.lock'])
})

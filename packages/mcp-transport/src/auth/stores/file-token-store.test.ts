import { mkdtemp, readdir, readFile, rm, stat, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { fileTokenStore } from './file-token-store.ts'
import type { StoredCredentials } from './stored-credentials.ts'

const credentials: StoredCredentials = {
  v: 1,
  client: { client_id: 'c', issuer: 'https://as.test' },
  tokens: { access_token: 'a', token_type: 'Bearer', refresh_token: 'r', expires_in: 60 },
}

async function folder(): Promise<AsyncDisposable & { path: string }> {
  const path = await mkdtemp(join(tmpdir(), 'token-store-'))
  return { path, [Symbol.asyncDispose]: () => rm(path, { recursive: true }) }
}

test('keeps credentials for the next process, and for its user only', async () => {
  await using here = await folder()
  const path = join(here.path, 'deep', 'shop.json')
  await fileTokenStore(path).write(credentials)
  await expect(fileTokenStore(path).read()).resolves.toEqual(credentials)
  expect((await stat(path)).mode & 0o777).toBe(0o600)
  expect(await readdir(join(here.path, 'deep'))).toEqual(['shop.json'])
})

test('is empty where there is no file', async () => {
  await using here = await folder()
  await expect(fileTokenStore(join(here.path, 'none.json')).read()).resolves.toBeUndefined()
})

test('sees what another process writes', async () => {
  await using here = await folder()
  const path = join(here.path, 'shop.json')
  const [one, other] = [fileTokenStore(path), fileTokenStore(path)]
  await one.write(credentials)
  await one.read()
  await other.write({ v: 1 })
  await expect(one.read()).resolves.toEqual({ v: 1 })
})

test.each(['', '{"v":1', 'null', '{"v":2}'])('keeps %j aside, and is empty', async (text) => {
  await using here = await folder()
  const path = join(here.path, 'shop.json')
  await writeFile(path, text)
  const store = fileTokenStore(path)
  await expect(store.read()).resolves.toBeUndefined()
  const [aside = ''] = await readdir(here.path)
  expect(aside).toMatch(/^shop\.json\.unreadable-/)
  expect(await readFile(join(here.path, aside), 'utf8')).toBe(text)
  await store.write(credentials)
  await expect(store.read()).resolves.toEqual(credentials)
})

test('says so when the file system fails', async () => {
  await using here = await folder()
  const store = fileTokenStore(join(here.path, 'file', 'shop.json'))
  await writeFile(join(here.path, 'file'), '')
  await expect(store.write(credentials)).rejects.toMatchObject({
    code: 'STORE_UNUSABLE',
    cause: expect.anything(),
  })
})

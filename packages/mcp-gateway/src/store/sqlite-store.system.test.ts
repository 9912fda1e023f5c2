import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { chmod, mkdir, readdir, rm, stat, symlink, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { DatabaseSync } from 'node:sqlite'
import { fileURLToPath } from 'node:url'
import { fileSystem } from '@x/internal'
import { runUnderPlugNPlay, sourceNode, temporaryFolder } from '@x/internal/testing'
import { expect, test, vi } from 'vitest'
import { bytesOf, writeNew } from '../../test/stored-bytes.ts'
import { FileBlobs } from './blobs.ts'
import { DiskGatewayStore } from './sqlite-store.ts'

test('reads records, events and files after a restart', async () => {
  await using folder = await temporaryFolder()
  const store = new DiskGatewayStore(folder.path)
  const version = await store.records.put('key', { a: 1 })
  const options = { limits: { maxEvents: 5, ttlMs: 3_600_000 }, isLast: false }
  const id = await store.logs.append('s', 1, options)
  await store.logs.append('s', 2, options)
  const blob = await writeNew(store.blobs, bytesOf('text'), 10)
  await store.close()
  await expect(store.records.get('key')).rejects.toMatchObject({ code: 'CLOSED' })
  await using again = new DiskGatewayStore(folder.path)
  expect(await again.records.get('key')).toEqual({ value: { a: 1 }, version })
  expect(await again.logs.read('s', id)).toMatchObject([{ event: 2 }])
  expect(await again.blobs.read(blob.id)).toBeDefined()
})

test('refuses a folder that another process uses or another program owns', async () => {
  await using folder = await temporaryFolder()
  await using store = new DiskGatewayStore(folder.path)
  await store.records.put('key', 1)
  const config = expect.objectContaining({ code: 'CONFIG' })
  expect(() => new DiskGatewayStore(folder.path)).toThrow(config)
  const foreign = join(folder.path, 'foreign')
  await mkdir(foreign)
  await writeFile(join(foreign, 'gateway.db'), 'a text of somebody else'.repeat(100))
  expect(() => new DiskGatewayStore(foreign)).toThrow(config)
  expect(() => new DiskGatewayStore(join(foreign, 'gateway.db'))).toThrow(
    expect.objectContaining({ code: 'UNAVAILABLE' }),
  )
})

/** Opens a store, and returns a function that limits its pages. At the limit, SQLite fails as on a full disk. */
function openWithLimit(folder: string) {
  using exec = vi.spyOn(DatabaseSync.prototype, 'exec')
  const store = new DiskGatewayStore(folder)
  const database: unknown = exec.mock.contexts.at(-1)
  if (!(database instanceof DatabaseSync)) throw new Error('The store opened no database')
  const limit = (pages: number): void => database.exec(`PRAGMA max_page_count = ${pages}`)
  return { store, limit }
}

test('reports a full disk as the reason of a failed write, and is not ready until there is room', async () => {
  await using folder = await temporaryFolder()
  const { store, limit } = openWithLimit(folder.path)
  await using _ = store
  limit(1) // the present size, which is larger
  const full = {
    code: 'UNAVAILABLE',
    message: expect.stringContaining(
      `${join(folder.path, 'gateway.db')} cannot be written: its disk is full`,
    ),
  }
  const long = 'x'.repeat(1_000_000)
  const options = { limits: { maxEvents: 5, ttlMs: 3_600_000 }, isLast: false }
  await expect(store.logs.append('log', long, options)).rejects.toMatchObject(full)
  await expect(store.records.put('key', long)).rejects.toMatchObject(full)
  await expect(store.isReady()).rejects.toMatchObject(full)
  limit(1_000_000)
  expect(await store.isReady()).toBe(true)
  await store.logs.append('log', long, options) // the failed one left no transaction behind
})

test('is not ready while its files cannot be written', async () => {
  await using folder = await temporaryFolder()
  await using store = new DiskGatewayStore(folder.path)
  await writeFile(join(folder.path, 'blobs'), 'a file in place of the folder')
  await expect(store.isReady()).rejects.toMatchObject({
    code: 'UNAVAILABLE',
    message: expect.stringContaining(
      `${join(folder.path, 'blobs')} cannot be written (EEXIST): check the disk and its permissions`,
    ),
  })
  await rm(join(folder.path, 'blobs'))
  expect(await store.isReady()).toBe(true)
  expect(await readdir(join(folder.path, 'blobs'))).toEqual([])
  expect(await store.records.list('')).toEqual([])
})

test('creates files that other users cannot read', async () => {
  await using folder = await temporaryFolder()
  const path = join(folder.path, 'new')
  await using store = new DiskGatewayStore(path)
  const { id } = await writeNew(store.blobs, bytesOf('x'), 1)
  expect((await stat(path)).mode & 0o077).toBe(0)
  expect((await stat(await pathOf(join(path, 'blobs'), id))).mode & 0o077).toBe(0)
})

test('withdraws the permissions of other users in an existing folder', async () => {
  await using folder = await temporaryFolder()
  await chmod(folder.path, 0o755)
  await writeFile(join(folder.path, 'gateway.db'), '', { mode: 0o644 })
  await using store = new DiskGatewayStore(folder.path)
  await store.records.put('key', 1)
  const names = (await readdir(folder.path)).filter((name) => name.startsWith('gateway.db'))
  expect(names).toContain('gateway.db')
  for (const name of names) {
    expect([name, (await stat(join(folder.path, name))).mode & 0o077]).toEqual([name, 0])
  }
})

test('refuses a symbolic link in place of its file', async () => {
  await using folder = await temporaryFolder()
  const elsewhere = join(folder.path, 'elsewhere')
  await mkdir(join(folder.path, 'store'))
  await symlink(elsewhere, join(folder.path, 'store', 'gateway.db'))
  expect(() => new DiskGatewayStore(join(folder.path, 'store'))).toThrow(
    expect.objectContaining({ code: 'UNAVAILABLE' }),
  )
  await expect(stat(elsewhere)).rejects.toThrow('ENOENT')
})

test('deletes files that have ended, and those of killed writers with them', async () => {
  await using folder = await temporaryFolder()
  let now = Date.now()
  await using store = new DiskGatewayStore(folder.path, { now: () => now })
  const blobs = join(folder.path, 'blobs')
  const { id } = await writeNew(store.blobs, bytesOf('x'), 1)
  await writeFile(`${await pathOf(blobs, id)}.partial`, 'half')
  const lasting = await store.blobs.write(bytesOf('x'), { limit: 1, ttlMs: 86_400_000 })
  await store.blobs.sweep()
  expect(await readdir(blobs)).toHaveLength(2)
  now += 7_200_000
  await store.blobs.sweep()
  expect(await readdir(blobs)).toHaveLength(1)
  expect(await store.blobs.read(lasting.id)).toBeDefined()
})

test('reports expired files that cannot be deleted, with the folder and the reason', async () => {
  await using folder = await temporaryFolder()
  const noFolder = join(folder.path, 'blobs')
  await writeFile(noFolder, '')
  const errors: unknown[] = []
  await using blobs = new FileBlobs(noFolder, Date.now, (error) => errors.push(error))
  await blobs.sweep()
  expect(errors).toEqual([
    expect.objectContaining({
      message: expect.stringContaining(`${noFolder} cannot be written (ENOTDIR)`),
    }),
  ])
})

test('stores a file on Windows while another program has it open', async () => {
  await using folder = await temporaryFolder()
  await using blobs = new FileBlobs(folder.path, Date.now, () => {})
  vi.spyOn(fileSystem, 'platform', 'get').mockReturnValue('win32')
  const busy = Object.assign(new Error('busy'), { code: 'EPERM', syscall: 'rename' })
  vi.spyOn(fileSystem, 'rename').mockRejectedValueOnce(busy)
  const { id } = await writeNew(blobs, bytesOf('text'), 10)
  expect(await blobs.read(id)).toBeDefined()
})

test("stores a file with Yarn's Plug'n'Play", async () => {
  await using folder = await temporaryFolder()
  const script = `
    import { DiskGatewayStore } from '@x/mcp-gateway'
    await using store = new DiskGatewayStore(${JSON.stringify(folder.path)})
    async function* bytes() { yield Buffer.from('te'); yield Buffer.from('xt') }
    const { id } = await store.blobs.write(bytes(), { limit: 10, ttlMs: 60_000 })
    for await (const piece of await store.blobs.read(id)) console.log(String(piece))
    await store.isReady()`
  expect(await runUnderPlugNPlay(script, import.meta.dirname)).toBe('text')
})

/** Returns the path of a stored file. */
async function pathOf(folder: string, id: string): Promise<string> {
  const names = await readdir(folder, { recursive: true })
  return join(folder, names.find((name) => name.endsWith(id)) ?? id)
}

test('loses no acknowledged write when the process is killed at any moment', async () => {
  await using folder = await temporaryFolder()
  const program = fileURLToPath(new URL('../../test/write-until-killed.ts', import.meta.url))
  for (const killAfter of [1, 20, 150]) {
    const child = spawn(
      sourceNode,
      ['--conditions=mcp-source', program, folder.path, `${killAfter}`],
      {
        stdio: ['ignore', 'pipe', 'inherit'],
      },
    )
    const acknowledged: string[] = []
    for await (const line of createInterface(child.stdout)) {
      acknowledged.push(line)
      if (acknowledged.length === killAfter) child.kill('SIGKILL')
    }
    if (child.exitCode === null && child.signalCode === null) await once(child, 'exit')
    expect(child.signalCode).toBe('SIGKILL')
    await using store = new DiskGatewayStore(folder.path)
    for (const line of acknowledged) {
      const [key = '', blob = '', event = ''] = line.split(' ')
      expect(await store.records.get(key)).toMatchObject({ value: blob })
      expect(await store.blobs.read(blob)).toBeDefined()
      expect(await store.logs.find(event)).toMatchObject({ log: 's' })
    }
  }
})

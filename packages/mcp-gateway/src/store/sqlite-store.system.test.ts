import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { chmod, mkdir, readdir, stat, symlink, utimes, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'
import { sourceNode, temporaryFolder } from '@x/internal/testing'
import { expect, test } from 'vitest'
import { bytesOf, writeNew } from '../../test/stored-bytes.ts'
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

test('creates files that other users cannot read', async () => {
  await using folder = await temporaryFolder()
  const path = join(folder.path, 'new')
  await using store = new DiskGatewayStore(path)
  const { id } = await writeNew(store.blobs, bytesOf('x'), 1)
  expect((await stat(path)).mode & 0o077).toBe(0)
  expect((await stat(join(path, 'blobs', id.slice(0, 2), id))).mode & 0o077).toBe(0)
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

test('deletes the partial files of a killed process a day later', async () => {
  await using folder = await temporaryFolder()
  const partial = join(folder.path, 'blobs', 'partial')
  await mkdir(partial, { recursive: true })
  const [old, fresh] = ['a'.repeat(32), 'b'.repeat(32)]
  for (const name of [old, fresh]) await writeFile(join(partial, name), 'half')
  const yesterday = Date.now() / 1000 - 90_000
  await utimes(join(partial, old), yesterday, yesterday)
  await using store = new DiskGatewayStore(folder.path)
  await writeNew(store.blobs, bytesOf('x'), 1)
  expect(await readdir(partial)).toEqual([fresh])
})

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

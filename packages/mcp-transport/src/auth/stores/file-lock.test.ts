import { mkdtemp, readdir, rm, utimes, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, expect, test } from 'vitest'
import { deferred } from '@x/mcp-testing'
import { withFileLock } from './file-lock.ts'

const folders: string[] = []
afterEach(async () => {
  for (const folder of folders.splice(0)) await rm(folder, { recursive: true })
})

async function lockPath(): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), 'lock-'))
  folders.push(folder)
  return join(folder, 'x.lock')
}

test('one after the other, and nothing is left', async () => {
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

test('work that fails gives the lock back', async () => {
  const path = await lockPath()
  await expect(withFileLock(path, () => Promise.reject(new Error('no')))).rejects.toThrow('no')
  await expect(withFileLock(path, async () => 'yes')).resolves.toBe('yes')
})

test('the lock of a process that died is taken over', async () => {
  const path = await lockPath()
  await writeFile(path, '')
  await utimes(path, 0, 0)
  await expect(withFileLock(path, async () => 'done')).resolves.toBe('done')
})

test('nobody waits for ever', async () => {
  const path = await lockPath()
  await writeFile(path, '')
  await expect(withFileLock(path, async () => 'done', { waitMs: 1 })).resolves.toBe('done')
  expect(await readdir(join(path, '..'))).toEqual(['x.lock'])
})

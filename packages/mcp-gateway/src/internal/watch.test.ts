import { mkdir, mkdtemp, rename, rm, symlink, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

import { deferred } from '@x/mcp-testing'
import { expect, test } from 'vitest'

import { watchFile } from './watch.ts'

async function folder(): Promise<AsyncDisposable & { readonly path: string }> {
  const path = await mkdtemp(join(tmpdir(), 'watched-'))
  return { path, [Symbol.asyncDispose]: () => rm(path, { recursive: true }) }
}

/** Resolves with what is told first of a file that this happens to. */
async function toldOf(file: string, change: () => Promise<void>): Promise<unknown> {
  const told = deferred<unknown>()
  const end = watchFile(file, { onChange: () => told.resolve('changed'), onError: told.resolve })
  try {
    await change()
    return await told.promise
  } finally {
    end()
  }
}

test('a file that is written, or replaced by another, is told of', async () => {
  await using at = await folder()
  const file = join(at.path, 'gateway.yaml')
  await writeFile(file, 'one')
  expect(await toldOf(file, () => writeFile(file, 'two'))).toBe('changed')
  const replaced = toldOf(file, async () => {
    await writeFile(`${file}.new`, 'three')
    await rename(`${file}.new`, file)
  })
  expect(await replaced).toBe('changed')
})

test('so is one that Kubernetes mounts: a link behind it changes, and nothing of its own name', async () => {
  await using at = await folder()
  const version = async (name: string): Promise<void> => {
    await mkdir(join(at.path, name))
    await writeFile(join(at.path, name, 'gateway.yaml'), name)
    await symlink(name, join(at.path, '..data_tmp'))
    await rename(join(at.path, '..data_tmp'), join(at.path, '..data'))
  }
  await version('..one')
  const file = join(at.path, 'gateway.yaml')
  await symlink('..data/gateway.yaml', file)
  expect(await toldOf(file, () => version('..two'))).toBe('changed')
})

test('a folder that is not there is told at once, and its end is harmless', () => {
  const errors: unknown[] = []
  const onError = (error: unknown): void => void errors.push(error)
  watchFile('/nowhere/at/all.yaml', { onChange: () => undefined, onError })()
  expect(errors).toEqual([expect.objectContaining({ code: 'ENOENT' })])
})

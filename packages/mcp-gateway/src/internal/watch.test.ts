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

/** Resolves to the first event of a watched file while it is changed. */
async function firstEventOf(file: string, change: () => Promise<void>): Promise<unknown> {
  const event = deferred<unknown>()
  const end = watchFile(file, { onChange: () => event.resolve('changed'), onError: event.resolve })
  try {
    await change()
    return await event.promise
  } finally {
    end()
  }
}

test('notices a file that is written, or replaced by another one', async () => {
  await using at = await folder()
  const file = join(at.path, 'gateway.yaml')
  await writeFile(file, 'one')
  expect(await firstEventOf(file, () => writeFile(file, 'two'))).toBe('changed')
  const replaced = firstEventOf(file, async () => {
    await writeFile(`${file}.new`, 'three')
    await rename(`${file}.new`, file)
  })
  expect(await replaced).toBe('changed')
})

test('notices a new version of a file that Kubernetes mounts', async () => {
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
  expect(await firstEventOf(file, () => version('..two'))).toBe('changed')
})

test('reports a missing folder at once, and can be ended', () => {
  const errors: unknown[] = []
  const onError = (error: unknown): void => void errors.push(error)
  watchFile('/nowhere/at/all.yaml', { onChange: () => undefined, onError })()
  expect(errors).toEqual([expect.objectContaining({ code: 'ENOENT' })])
})

import { execFileSync } from 'node:child_process'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, expect, test } from 'vitest'
import { openSqliteFile } from './index.ts'
import { sourceNode } from './testing/index.ts'

const format = { applicationId: 7, schemaVersion: 1, schema: 'CREATE TABLE t (a INTEGER) STRICT;' }

const folders: string[] = []
async function newPath(): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), 'sqlite-file-'))
  folders.push(folder)
  return join(folder, 'test.db')
}
afterEach(async () => {
  await Promise.all(folders.splice(0).map((folder) => rm(folder, { recursive: true })))
})

/** Returns whether another process can lock the file for itself alone. */
function canBeLocked(path: string): boolean {
  const program = `const db = new (require('node:sqlite').DatabaseSync)(process.argv[1])
    try { db.exec('PRAGMA locking_mode = EXCLUSIVE; BEGIN EXCLUSIVE; COMMIT'); console.log('yes') }
    catch (error) { console.log(error.errcode) }`
  const output = execFileSync(sourceNode, ['--no-warnings', '-e', program, path]).toString().trim()
  expect(['yes', '5']).toContain(output) // 5 is SQLITE_BUSY
  return output === 'yes'
}

test('keeps the lock of a connection when the file is opened again', async () => {
  const path = await newPath()
  const use = { synchronous: 'normal', isExclusive: false } as const
  const first = openSqliteFile(path, format, use)
  openSqliteFile(path, format, use).close()
  expect(canBeLocked(path)).toBe(false)
  first.close()
  expect(canBeLocked(path)).toBe(true)
})

test('keeps the lock of an exclusive connection when opening the file again fails', async () => {
  const path = await newPath()
  const use = { synchronous: 'normal', isExclusive: true } as const
  const first = openSqliteFile(path, format, use)
  const busy = expect.objectContaining({ code: 'TIMEOUT' })
  expect(() => openSqliteFile(path, format, use)).toThrow(busy)
  expect(canBeLocked(path)).toBe(false)
  first.close()
  expect(canBeLocked(path)).toBe(true)
})

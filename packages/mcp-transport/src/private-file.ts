import { randomUUID } from 'node:crypto'
import { mkdir, open, rename, rm } from 'node:fs/promises'
import { dirname } from 'node:path'

/**
 * Puts `text` in the place of a file, whole or not at all, readable for its owner only (mode 0600); the
 * folder is made where it is missing.
 *
 * @throws the error of the file system.
 */
export async function replacePrivateFile(path: string, text: string): Promise<void> {
  await mkdir(dirname(path), { recursive: true, mode: 0o700 })
  const temporary = `${path}.${randomUUID()}.tmp`
  try {
    const file = await open(temporary, 'wx', 0o600)
    try {
      await file.writeFile(text)
      await file.sync()
    } finally {
      await file.close()
    }
    await rename(temporary, path)
  } catch (error) {
    await rm(temporary, { force: true })
    throw error
  }
}

/** Moves a file that cannot be used out of the way, so that nothing of it is lost; it may be gone already. */
export async function setAside(path: string): Promise<void> {
  try {
    await rename(path, `${path}.unreadable-${randomUUID()}`)
  } catch (error) {
    const isGone = error instanceof Error && 'code' in error && error.code === 'ENOENT'
    if (!isGone) throw error
  }
}

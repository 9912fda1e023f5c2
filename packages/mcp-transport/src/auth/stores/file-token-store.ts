import { readFile, stat } from 'node:fs/promises'
import { resolve } from 'node:path'
import { optionError } from '@x/internal'
import { replacePrivateFile, setAside } from '../../private-file.ts'
import { AuthError } from '../auth-error.ts'
import { withFileLock } from './file-lock.ts'
import { storedCredentialsFrom } from './stored-credentials.ts'
import type { StoredCredentials } from './stored-credentials.ts'
import type { TokenStore } from './token-store.ts'

/**
 * Keeps credentials in a file that only its user may read (mode 0600, not encrypted). Writes are atomic,
 * so that processes may share it: a change that another one makes is seen at the next request, and only
 * one at a time refreshes (`<path>.lock`). A file
 * that is no credentials counts as empty, and is kept aside as `<path>.unreadable-…`.
 *
 * @throws AuthError `STORE_UNUSABLE` on reading and writing, if the file system fails.
 * @throws TypeError for a path that is empty or not a string.
 */
export function fileTokenStore(path: string): TokenStore {
  if (typeof path !== 'string' || path === '') {
    throw optionError('fileTokenStore(): the path of the file must be a string that is not empty')
  }
  const file = resolve(path)
  let seen:
    | { readonly stamp: string; readonly credentials: StoredCredentials | undefined }
    | undefined
  return {
    async read() {
      try {
        const stamp = await stampOf(file)
        if (stamp === undefined) return undefined
        if (seen?.stamp === stamp) return seen.credentials
        const credentials = parsed(await readFile(file, 'utf8'))
        if (credentials === undefined) await setAside(file)
        seen = { stamp, credentials }
        return credentials
      } catch (cause) {
        if (isMissing(cause)) return undefined // taken away between two looks
        throw unusable('read', file, cause)
      }
    },
    async write(credentials) {
      try {
        await replacePrivateFile(file, `${JSON.stringify(credentials, undefined, 2)}\n`)
      } catch (cause) {
        throw unusable('written', file, cause)
      }
    },
    exclusively: (work) => withFileLock(`${file}.lock`, work),
  }
}

/** Changes with every write: each one makes a new file. */
async function stampOf(file: string): Promise<string | undefined> {
  try {
    const { ino, size, mtimeNs } = await stat(file, { bigint: true })
    return `${ino}:${size}:${mtimeNs}`
  } catch (error) {
    if (isMissing(error)) return undefined
    throw error
  }
}

function parsed(text: string): StoredCredentials | undefined {
  try {
    return storedCredentialsFrom(JSON.parse(text))
  } catch {
    return undefined // not JSON
  }
}

function isMissing(error: unknown): boolean {
  return error instanceof Error && 'code' in error && error.code === 'ENOENT'
}

function unusable(how: string, file: string, cause: unknown): AuthError {
  return new AuthError('STORE_UNUSABLE', `The token store ${file} could not be ${how}`, { cause })
}

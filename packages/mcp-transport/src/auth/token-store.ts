import { mkdir, stat } from 'node:fs/promises'
import { dirname, resolve } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { assertOptions, check, fileSystem, isRecord, whileBusy } from '@x/internal'
import type { Check } from '@x/internal'
import { parseJson } from '../json-rpc.ts'
import { hasCode, replacePrivateFile, setAside } from '../session-info.ts'
import { AuthError } from './auth-provider.ts'
import type { OAuthClientInformation, OAuthDiscoveryState, OAuthTokens } from './auth-provider.ts'

/** The stored credentials for one MCP server. JSON; the field names are public. */
export interface StoredCredentials {
  /** Version of the format. Credentials with another version are ignored. */
  readonly v: 1
  readonly client?: OAuthClientInformation | undefined
  readonly tokens?: OAuthTokens | undefined
  /** PKCE verifier of an authorization in progress. */
  readonly codeVerifier?: string | undefined
  readonly discovery?: OAuthDiscoveryState | undefined
}

/**
 * Stores the credentials for one MCP server and one user of it. Write your own for a keychain or a database;
 * `read` is called before every request.
 */
export interface TokenStore {
  /** Undefined if nothing is stored. */
  read(): StoredCredentials | undefined | Promise<StoredCredentials | undefined>
  write(credentials: StoredCredentials): void | Promise<void>
  /**
   * Runs `work`, a refresh, while no other process runs one with these credentials: some servers treat a
   * refresh token that is used twice as stolen. Must end, and may run the work without the lock.
   * @default no lock: a process that loses the race uses the tokens of the other
   */
  exclusively?(work: () => Promise<void>): Promise<void>
}

export const tokenStoreCheck: Check = {
  ...check.methods('read', 'write'),
  takes: 'a token store, such as fileTokenStore(path)',
}

/**
 * Stores credentials in memory, for the lifetime of the object.
 *
 * @example
 * ```ts
 * import { createAuthProvider, memoryTokenStore } from '@x/mcp-transport/auth'
 *
 * const authProvider = createAuthProvider({
 *   store: memoryTokenStore(),
 *   redirectUrl: 'https://app.example/callback',
 *   clientName: 'app',
 *   redirect: (url) => console.log(`Sign in at ${url.href}`),
 * })
 * ```
 */
export function memoryTokenStore(): TokenStore {
  let stored: StoredCredentials | undefined
  let last: Promise<void> = Promise.resolve()
  return {
    read: () => stored,
    write(credentials) {
      stored = credentials
    },
    // Several providers of this process may use the store.
    exclusively(work) {
      const done = last.then(work)
      last = done.catch(() => {}) // the caller gets the error
      return done
    },
  }
}

/**
 * Keeps credentials in a file that only its user may read (mode 0600, not encrypted). Windows has no modes: there, use a
 * folder that only the user can read, such as one below `%LOCALAPPDATA%`. Processes may share the file: writes are
 * atomic, each request sees the changes of other processes, and one process at a time refreshes (`<path>.lock`). A file
 * with other content counts as empty and is renamed to `<path>.unreadable-…`.
 *
 * @throws AuthError `STORE_UNUSABLE` on reading and writing, if the file system fails.
 * @throws TypeError for a path that is empty or not a string.
 * @example
 * ```ts
 * import { fileTokenStore, loopbackOAuth } from '@x/mcp-transport/auth'
 *
 * const store = fileTokenStore('.mcp/shop-tokens.json')
 * const authProvider = loopbackOAuth({
 *   store,
 *   clientName: 'shop',
 *   openBrowser: (url) => console.log(`Sign in at ${url.href}`),
 * })
 * ```
 */
export function fileTokenStore(path: string): TokenStore {
  assertOptions('fileTokenStore()', { path }, { path: check.required(check.text) })
  const file = resolve(path)
  return {
    async read() {
      try {
        const content = parseJson(await whileBusy(() => fileSystem.readFile(file, 'utf8')))
        if (isStoredCredentials(content)) return content
        await setAside(file)
        return undefined
      } catch (cause) {
        if (hasCode(cause, 'ENOENT')) return undefined
        throw new AuthError('STORE_UNUSABLE', `Token store ${file} cannot be read`, { cause })
      }
    },
    async write(credentials) {
      try {
        await replacePrivateFile(file, `${JSON.stringify(credentials, undefined, 2)}\n`)
      } catch (cause) {
        throw new AuthError('STORE_UNUSABLE', `Token store ${file} cannot be written`, { cause })
      }
    },
    async exclusively(work) {
      await mkdir(dirname(file), { recursive: true, mode: 0o700 })
      await withFileLock(`${file}.lock`, work)
    },
  }
}

function isStoredCredentials(value: unknown): value is StoredCredentials {
  if (!isRecord(value) || value['v'] !== 1) return false
  const { client, tokens, codeVerifier, discovery } = value
  return (
    hasTexts(client, 'client_id') &&
    hasTexts(tokens, 'access_token', 'token_type') &&
    ['string', 'undefined'].includes(typeof codeVerifier) &&
    hasTexts(discovery, 'authorizationServerUrl')
  )
}

function hasTexts(value: unknown, ...names: readonly string[]): boolean {
  if (value === undefined) return true
  return isRecord(value) && names.every((name) => typeof value[name] === 'string')
}

const LOCK_POLL_MS = 50
/** An older lock is removed, because its process has died. */
const LOCK_STALE_MS = 60_000

/**
 * Runs `work` while no other process holds the lock file at `path`. If the lock is not free in `waitMs`, the
 * work runs without it: the lock only makes collisions rare.
 */
export async function withFileLock<Result>(
  path: string,
  work: () => Promise<Result>,
  waitMs = 45_000,
): Promise<Result> {
  const deadline = performance.now() + waitMs
  let isHeld = await createLock(path)
  while (!isHeld && performance.now() < deadline) {
    const lock = await stat(path).catch(() => undefined)
    const isStale = lock !== undefined && Date.now() - lock.mtimeMs > LOCK_STALE_MS
    if (isStale) await removeLock(path)
    await sleep(LOCK_POLL_MS)
    isHeld = await createLock(path)
  }
  try {
    return await work()
  } finally {
    if (isHeld) await removeLock(path)
  }
}

async function createLock(path: string): Promise<boolean> {
  try {
    await whileBusy(() => fileSystem.writeFile(path, '', { flag: 'wx', mode: 0o600 }))
    return true
  } catch (error) {
    if (hasCode(error, 'EEXIST')) return false
    throw error
  }
}

/** Never rejects: a lock that stays is old after a minute, and the result of its work counts. */
async function removeLock(path: string): Promise<void> {
  await whileBusy(() => fileSystem.rm(path, { force: true })).catch(() => {})
}

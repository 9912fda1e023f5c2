import { open, readFile, rm, stat } from 'node:fs/promises'
import { resolve } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { check, optionError, isRecord } from '@x/internal'
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

/** Stores credentials in memory, for the lifetime of the object. */
export function memoryTokenStore(): TokenStore {
  let stored: StoredCredentials | undefined
  return {
    read: () => stored,
    write(credentials) {
      stored = credentials
    },
  }
}

/**
 * Keeps credentials in a file that only its user may read (mode 0600, not encrypted). Processes may share the
 * file: writes are atomic, each request sees the changes of other processes, and one process at a time
 * refreshes (`<path>.lock`). A file with other content counts as empty and is renamed to `<path>.unreadable-…`.
 *
 * @throws AuthError `STORE_UNUSABLE` on reading and writing, if the file system fails.
 * @throws TypeError for a path that is empty or not a string.
 */
export function fileTokenStore(path: string): TokenStore {
  if (typeof path !== 'string' || path === '') {
    throw optionError('fileTokenStore(): the path of the file must be a string that is not empty')
  }
  const file = resolve(path)
  let seen: { stamp: string; credentials: StoredCredentials | undefined } | undefined
  return {
    async read() {
      try {
        const { ino, size, mtimeNs } = await stat(file, { bigint: true })
        const stamp = `${ino}:${size}:${mtimeNs}` // each write makes a new file
        if (seen?.stamp === stamp) return seen.credentials
        const credentials = storedCredentialsFrom(parseJson(await readFile(file, 'utf8')))
        if (credentials === undefined) await setAside(file)
        seen = { stamp, credentials }
        return credentials
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
    exclusively: (work) => withFileLock(`${file}.lock`, work),
  }
}

/** Checks stored credentials: leaves out malformed parts. Undefined for another format. */
export function storedCredentialsFrom(value: unknown): StoredCredentials | undefined {
  if (!isRecord(value) || value['v'] !== 1) return undefined
  const { client, tokens, codeVerifier, discovery } = value
  return {
    v: 1,
    client: isClient(client) ? client : undefined,
    tokens: isTokens(tokens) ? tokens : undefined,
    codeVerifier: typeof codeVerifier === 'string' ? codeVerifier : undefined,
    discovery: parseDiscovery(discovery),
  }
}

function isClient(value: unknown): value is OAuthClientInformation {
  return (
    hasTexts(value, ['client_id'], ['client_secret', 'token_endpoint_auth_method', 'issuer']) &&
    isNumberOrAbsent(value['client_secret_expires_at']) &&
    check.listOf(check.string).accepts(value['redirect_uris'] ?? [])
  )
}

function isTokens(value: unknown): value is OAuthTokens {
  const optional = ['refresh_token', 'scope', 'id_token', 'issuer', 'server']
  return (
    hasTexts(value, ['access_token', 'token_type'], optional) &&
    isNumberOrAbsent(value['expires_in'])
  )
}

function isNumberOrAbsent(value: unknown): boolean {
  return value === undefined || typeof value === 'number'
}

function parseDiscovery(value: unknown): OAuthDiscoveryState | undefined {
  if (!hasTexts(value, ['authorizationServerUrl'])) return undefined
  const { authorizationServerUrl, resourceMetadataUrl, state } = value
  return {
    authorizationServerUrl: String(authorizationServerUrl),
    ...(typeof resourceMetadataUrl === 'string' ? { resourceMetadataUrl } : {}),
    ...(typeof state === 'string' ? { state } : {}),
  }
}

function hasTexts(
  value: unknown,
  required: readonly string[],
  optional: readonly string[] = [],
): value is Readonly<Record<string, unknown>> {
  return (
    isRecord(value) &&
    required.every((name) => typeof value[name] === 'string' && value[name] !== '') &&
    optional.every((name) => ['undefined', 'string'].includes(typeof value[name]))
  )
}

const LOCK_POLL_MS = 50

/**
 * Runs `work` while no other process holds the lock file at `path`. If the lock is not free in `waitMs`, the
 * work runs without it: the lock only makes collisions rare. A lock older than `staleMs` is removed, because
 * its process died.
 */
export async function withFileLock<Result>(
  path: string,
  work: () => Promise<Result>,
  { staleMs = 60_000, waitMs = 45_000 }: { staleMs?: number; waitMs?: number } = {},
): Promise<Result> {
  const deadline = performance.now() + waitMs
  let isHeld = await createLock(path)
  while (!isHeld && performance.now() < deadline) {
    if (await isOlder(path, staleMs)) await rm(path, { force: true })
    else await sleep(LOCK_POLL_MS)
    isHeld = await createLock(path)
  }
  try {
    return await work()
  } finally {
    if (isHeld) await rm(path, { force: true })
  }
}

async function createLock(path: string): Promise<boolean> {
  try {
    await (await open(path, 'wx', 0o600)).close()
    return true
  } catch (error) {
    if (hasCode(error, 'EEXIST')) return false
    throw error
  }
}

async function isOlder(path: string, ms: number): Promise<boolean> {
  try {
    return Date.now() - (await stat(path)).mtimeMs > ms
  } catch (error) {
    if (hasCode(error, 'ENOENT')) return false
    throw error
  }
}

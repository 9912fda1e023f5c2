import { check } from '@x/internal'
import type { Check } from '@x/internal'
import type { StoredCredentials } from './stored-credentials.ts'

/**
 * Where the credentials for one MCP server, and one user of it, are kept. Write your own for a keychain or
 * a database; `read` is asked before every request.
 */
export interface TokenStore {
  /** Undefined if nothing is stored. */
  read(): StoredCredentials | undefined | Promise<StoredCredentials | undefined>
  write(credentials: StoredCredentials): void | Promise<void>
  /**
   * Does `work`, a refresh, while no other process does the like with these credentials: some servers
   * take a refresh token that is used twice for a stolen one. Must end; may do the work all the same.
   * @default no lock: whoever comes second finds the tokens of the first
   */
  exclusively?(work: () => Promise<void>): Promise<void>
}

export const tokenStoreCheck: Check = {
  ...check.methods('read', 'write'),
  takes: 'a token store, such as fileTokenStore(path)',
}

/** Keeps credentials for as long as the object lives. */
export function memoryTokenStore(): TokenStore {
  let stored: StoredCredentials | undefined
  return {
    read: () => stored,
    write(credentials) {
      stored = credentials
    },
  }
}

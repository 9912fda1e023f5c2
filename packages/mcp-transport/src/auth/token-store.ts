import type { StoredCredentials } from './stored-credentials.ts'

/**
 * Where the credentials for one MCP server, and one user of it, are kept. Write your own for a keychain or
 * a database; `read` is asked before every request.
 */
export interface TokenStore {
  /** Undefined if nothing is stored. */
  read(): StoredCredentials | undefined | Promise<StoredCredentials | undefined>
  write(credentials: StoredCredentials): void | Promise<void>
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

import type { Precondition } from './precondition.ts'

/** Names one value. Both parts fit their rules (PROTOCOL.md, "Names"); no further check is needed. */
export interface DebugStateAddress {
  readonly agentId: string
  readonly key: string
}

/** One value as it is kept. */
export interface StoredValue {
  readonly bytes: Uint8Array
  /** New with every write, never used again, not derived from the value: 1 to 64 of `[A-Za-z0-9_-]`. */
  readonly version: string
}

/** What a list says of a value. The value itself is a secret. */
export interface StoredEntry {
  readonly key: string
  /** Size of the value. */
  readonly bytes: number
  /** Milliseconds since the epoch. */
  readonly updatedAt: number
  /** Milliseconds since the epoch. */
  readonly expiresAt: number
}

export interface PutOptions {
  /** The value is gone this long after the write. */
  readonly ttlMs: number
  /** @default none */
  readonly precondition?: Precondition | undefined
}

/** `conflict`: the precondition did not hold, and nothing was changed. */
export type PutOutcome = 'conflict' | { readonly version: string }
/** `conflict`: the precondition did not hold, and nothing was changed. `absent`: there was nothing. */
export type DeleteOutcome = 'conflict' | 'deleted' | 'absent'

/**
 * Where the service keeps its values. A write has been stored when its promise resolves: killing the
 * process after that loses nothing. Precondition and write are one step, also between processes that
 * share a store. An expired value is not there. What a method rejects with is told to `onError` or the
 * logger, and the service answers 503.
 */
export interface DebugStateStore {
  get(address: DebugStateAddress): Promise<StoredValue | undefined>
  put(address: DebugStateAddress, bytes: Uint8Array, options: PutOptions): Promise<PutOutcome>
  delete(address: DebugStateAddress, precondition?: Precondition): Promise<DeleteOutcome>
  /** The first `limit` entries of an agent, in the order of the bytes of their keys. */
  list(agentId: string, limit: number): Promise<readonly StoredEntry[]>
  /** Idempotent. Other methods reject afterwards. */
  close(): Promise<void>
}

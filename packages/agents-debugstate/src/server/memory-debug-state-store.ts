import { DebugStateStoreError } from './debug-state-store.ts'
import type { DebugStateAddress, DebugStateStore } from './debug-state-store.ts'

const SWEEP_EVERY_MS = 60_000

/**
 * Stores values in memory until the process ends, for tests and trials.
 *
 * @example
 * ```ts
 * import { createDebugStateServer, MemoryDebugStateStore } from '@x/agents-debugstate/server'
 *
 * const server = createDebugStateServer({ store: new MemoryDebugStateStore() }) // for tests
 * ```
 */
export class MemoryDebugStateStore implements DebugStateStore, AsyncDisposable {
  /** By agent id and key. An agent id has no slash. */
  readonly #entries = new Map<string, Entry>()
  #nextSweepAt: number = Date.now() + SWEEP_EVERY_MS
  #isClosed = false

  async get(address: DebugStateAddress): Promise<Uint8Array | undefined> {
    return this.#find(address)?.bytes
  }

  async put(address: DebugStateAddress, bytes: Uint8Array, ttlMs: number): Promise<void> {
    this.#checkOpen()
    const now = Date.now()
    if (now >= this.#nextSweepAt) this.#sweep(now)
    this.#entries.set(toName(address), { bytes: bytes.slice(), expiresAt: now + ttlMs })
  }

  async delete(address: DebugStateAddress): Promise<boolean> {
    return this.#find(address) !== undefined && this.#entries.delete(toName(address))
  }

  async close(): Promise<void> {
    this.#isClosed = true
    this.#entries.clear()
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close()
  }

  #find(address: DebugStateAddress): Entry | undefined {
    this.#checkOpen()
    const entry = this.#entries.get(toName(address))
    return entry !== undefined && entry.expiresAt > Date.now() ? entry : undefined
  }

  #sweep(now: number): void {
    this.#nextSweepAt = now + SWEEP_EVERY_MS
    for (const [name, { expiresAt }] of this.#entries) {
      if (expiresAt <= now) this.#entries.delete(name)
    }
  }

  #checkOpen(): void {
    if (this.#isClosed) throw new DebugStateStoreError('CLOSED', 'The store is closed')
  }
}

interface Entry {
  readonly bytes: Uint8Array
  readonly expiresAt: number
}

function toName({ agentId, key }: DebugStateAddress): string {
  return `${agentId}/${key}`
}

import { randomUUID } from 'node:crypto'
import { compareBytes } from '@x/internal'
import { DebugStateStoreError, isExpected } from './debug-state-store.ts'
import type {
  DebugStateAddress,
  DebugStateStore,
  DeleteOutcome,
  ExpectedVersion,
  PutOptions,
  PutOutcome,
  StoredEntry,
  StoredValue,
} from './debug-state-store.ts'

const SWEEP_EVERY_MS = 60_000

/** Stores values in memory until the process ends, for tests and trials. */
export class MemoryDebugStateStore implements DebugStateStore, AsyncDisposable {
  /** By agent id and key. An agent id has no slash. */
  readonly #entries = new Map<string, Entry>()
  #nextSweepAt: number = Date.now() + SWEEP_EVERY_MS
  #isClosed = false

  async get(address: DebugStateAddress): Promise<StoredValue | undefined> {
    return this.#find(address)
  }

  async put(
    address: DebugStateAddress,
    bytes: Uint8Array,
    options: PutOptions,
  ): Promise<PutOutcome> {
    if (!isExpected(options.expected, this.#find(address)?.version)) return 'conflict'
    const updatedAt = Date.now()
    if (updatedAt >= this.#nextSweepAt) this.#sweep(updatedAt)
    const version = randomUUID()
    const expiresAt = updatedAt + options.ttlMs
    this.#entries.set(toName(address), { bytes: bytes.slice(), version, updatedAt, expiresAt })
    return { version }
  }

  async delete(address: DebugStateAddress, expected?: ExpectedVersion): Promise<DeleteOutcome> {
    const entry = this.#find(address)
    if (!isExpected(expected, entry?.version)) return 'conflict'
    if (entry === undefined) return 'absent'
    this.#entries.delete(toName(address))
    return 'deleted'
  }

  async list(agentId: string, limit: number): Promise<readonly StoredEntry[]> {
    this.#checkOpen()
    const now = Date.now()
    const prefix = toName({ agentId, key: '' })
    return [...this.#entries]
      .filter(([name, { expiresAt }]) => name.startsWith(prefix) && expiresAt > now)
      .map(([name, { bytes, updatedAt, expiresAt }]) => {
        const key = name.slice(prefix.length)
        return { key, bytes: bytes.byteLength, updatedAt, expiresAt }
      })
      .toSorted((one, other) => compareBytes(one.key, other.key))
      .slice(0, limit)
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

interface Entry extends StoredValue {
  readonly updatedAt: number
  readonly expiresAt: number
}

function toName({ agentId, key }: DebugStateAddress): string {
  return `${agentId}/${key}`
}

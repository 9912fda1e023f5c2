import { randomUUID } from 'node:crypto'
import { assertOptions, check, compareBytes } from '@x/internal'
import type { Checks } from '@x/internal'
import { DebugStateStoreError, holds } from './debug-state-store.ts'
import type {
  DebugStateAddress,
  DebugStateStore,
  DeleteOutcome,
  Precondition,
  PutOptions,
  PutOutcome,
  StoredEntry,
  StoredValue,
} from './debug-state-store.ts'

export interface MemoryDebugStateStoreOptions {
  /** Milliseconds since the epoch. @default Date.now */
  readonly now?: (() => number) | undefined
}

const optionChecks: Checks<MemoryDebugStateStoreOptions> = { now: check.func }

/** Keeps values as long as the process lives: for tests and trials. */
export class MemoryDebugStateStore implements DebugStateStore, AsyncDisposable {
  readonly #agents = new Map<string, Map<string, Entry>>()
  readonly #now: () => number
  #nextSweepAt: number
  #isClosed = false

  constructor(options: MemoryDebugStateStoreOptions = {}) {
    assertOptions('MemoryDebugStateStore', options, optionChecks)
    this.#now = options.now ?? Date.now
    this.#nextSweepAt = this.#now() + SWEEP_EVERY_MS
  }

  async get(address: DebugStateAddress): Promise<StoredValue | undefined> {
    return this.#find(address)
  }

  async put(
    address: DebugStateAddress,
    bytes: Uint8Array,
    options: PutOptions,
  ): Promise<PutOutcome> {
    if (!holds(options.precondition, this.#find(address)?.version)) return 'conflict'
    const updatedAt = this.#now()
    if (updatedAt >= this.#nextSweepAt) this.#sweep(updatedAt)
    const version = randomUUID()
    const entry = { bytes: bytes.slice(), version, updatedAt, expiresAt: updatedAt + options.ttlMs }
    const values = this.#agents.get(address.agentId) ?? new Map<string, Entry>()
    this.#agents.set(address.agentId, values.set(address.key, entry))
    return { version }
  }

  async delete(address: DebugStateAddress, precondition?: Precondition): Promise<DeleteOutcome> {
    const entry = this.#find(address)
    if (!holds(precondition, entry?.version)) return 'conflict'
    if (entry === undefined) return 'absent'
    this.#remove(address)
    return 'deleted'
  }

  async list(agentId: string, limit: number): Promise<readonly StoredEntry[]> {
    this.#checkOpen()
    const entries: StoredEntry[] = []
    for (const key of [...(this.#agents.get(agentId)?.keys() ?? [])].toSorted(compareBytes)) {
      if (entries.length >= limit) break
      const entry = this.#find({ agentId, key })
      if (entry === undefined) continue
      const { updatedAt, expiresAt } = entry
      entries.push({ key, bytes: entry.bytes.byteLength, updatedAt, expiresAt })
    }
    return entries
  }

  async close(): Promise<void> {
    this.#isClosed = true
    this.#agents.clear()
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close()
  }

  /** Removes the value if it has expired. */
  #find(address: DebugStateAddress): Entry | undefined {
    this.#checkOpen()
    const entry = this.#agents.get(address.agentId)?.get(address.key)
    if (entry === undefined || entry.expiresAt > this.#now()) return entry
    this.#remove(address)
    return undefined
  }

  /** Removes expired values that are never requested again. */
  #sweep(now: number): void {
    this.#nextSweepAt = now + SWEEP_EVERY_MS
    for (const [agentId, values] of this.#agents) {
      for (const [key, { expiresAt }] of values) {
        if (expiresAt <= now) this.#remove({ agentId, key })
      }
    }
  }

  #remove({ agentId, key }: DebugStateAddress): void {
    const values = this.#agents.get(agentId)
    values?.delete(key)
    if (values?.size === 0) this.#agents.delete(agentId)
  }

  #checkOpen(): void {
    if (this.#isClosed) throw new DebugStateStoreError('CLOSED', 'The store is closed')
  }
}

const SWEEP_EVERY_MS = 60_000

interface Entry extends StoredValue {
  readonly updatedAt: number
  readonly expiresAt: number
}

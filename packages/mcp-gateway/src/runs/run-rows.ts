import type { z } from 'zod'
import { Sweeper } from '../internal/timers.ts'
import { listAll } from '../store/gateway-store.ts'
import type { RunStorage } from './order.ts'

/** A run that is late by this much has died with its process. */
export const DEAD_AFTER_MS = 60_000
/** Rows are kept this long after they expire, so that a process can clean up. */
const SWEEP_GRACE_MS = 600_000

interface RunRow {
  readonly agentId: string
  readonly expiresAt: number
}

/** A row of the store, and its version for the next change of it. */
export interface Versioned<Row> {
  readonly row: Row
  readonly version: string
}

const SWEEP_MS = 60_000

export interface RunRowsOptions<Row> {
  readonly prefix: string
  readonly schema: z.ZodType<Row>
  /** Cleans up after a row that has expired, of an agent that is there. */
  readonly onExpired: (key: string, found: Versioned<Row>) => Promise<void>
}

/** Rows of one kind in the store. All processes that share the store clean up after the rows that expired. */
export class RunRows<Row extends RunRow> {
  readonly #storage: RunStorage
  readonly #options: RunRowsOptions<Row>
  readonly #sweeper: Sweeper

  constructor(storage: RunStorage, options: RunRowsOptions<Row>) {
    this.#storage = storage
    this.#options = options
    const { clock } = storage
    this.#sweeper = new Sweeper({ clock, everyMs: SWEEP_MS, sweep: () => this.#sweep() })
  }

  /** @returns the row, if there is one that can be read, and the version of whatever has this key */
  async get(
    key: string,
  ): Promise<{ readonly row: Row | undefined; readonly version: string | null }> {
    const { prefix, schema } = this.#options
    const found = await this.#storage.records.get(prefix + key)
    return { row: schema.safeParse(found?.value).data, version: found?.version ?? null }
  }

  /** @returns the new version; `undefined` if another process changed the row in the meantime */
  put(key: string, row: Row, ifVersion: string | null): Promise<string | undefined> {
    const { clock, records } = this.#storage
    const ttlMs = row.expiresAt - clock.now() + SWEEP_GRACE_MS
    return records.put(this.#options.prefix + key, row, { ttlMs, ifVersion })
  }

  delete(key: string, ifVersion: string): Promise<boolean> {
    return this.#storage.records.delete(this.#options.prefix + key, ifVersion)
  }

  close(): void {
    void this.#sweeper.close()
  }

  async #sweep(): Promise<void> {
    const { agents, clock, records } = this.#storage
    const { prefix, schema, onExpired } = this.#options
    for await (const { key, value, version } of listAll(records, prefix)) {
      if (this.#sweeper.isClosed) return
      const row = schema.safeParse(value).data
      if (row === undefined || row.expiresAt > clock.now()) continue
      if (agents.sourceOf(row.agentId) === undefined) continue
      await onExpired(key.slice(prefix.length), { row, version })
    }
  }
}

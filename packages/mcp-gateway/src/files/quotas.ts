import { z } from 'zod'
import { GatewayError } from '../errors.ts'
import type { GatewayStore, Records } from '../store/gateway-store.ts'

/** Limits of one account. */
export interface ArtifactQuota {
  /** Maximum bytes of all versions together. @default 1_073_741_824 */
  readonly bytesPerPrincipal: number
  /** Maximum number of versions of all names together. @default 1000 */
  readonly countPerPrincipal: number
}

export interface Usage {
  readonly bytes: number
  readonly count: number
}

const Usage: z.ZodType<Usage> = z.object({ bytes: z.number(), count: z.number() })
const NOTHING: Usage = { bytes: 0, count: 0 }

/** Counts what each account uses, and enforces its limits. */
export class ArtifactUsage {
  readonly #records: Records
  readonly #updates: AtomicUpdates
  readonly #quota: ArtifactQuota
  /** Bytes of each account that this process is receiving. */
  readonly #arriving = new Map<string, number>()

  constructor(records: Records, updates: AtomicUpdates, quota: ArtifactQuota) {
    this.#records = records
    this.#updates = updates
    this.#quota = quota
  }

  async of(account: string): Promise<Usage> {
    return usageFrom((await this.#records.get(usageKey(account)))?.value)
  }

  /** Counts nothing if it throws. @throws GatewayError `QUOTA` */
  async add(account: string, bytes: number): Promise<void> {
    await this.#updates.update(usageKey(account), (value) => {
      const usage = usageFrom(value)
      const next = { bytes: usage.bytes + bytes, count: usage.count + 1 }
      const { bytesPerPrincipal, countPerPrincipal } = this.#quota
      if (next.bytes > bytesPerPrincipal || next.count > countPerPrincipal)
        throw noRoom(this.#quota)
      return { put: next, result: undefined }
    })
  }

  async subtract(account: string, freed: Usage): Promise<void> {
    if (freed.count === 0) return
    await this.#updates.update(usageKey(account), (value) => {
      const usage = usageFrom(value)
      const bytes = Math.max(0, usage.bytes - freed.bytes)
      const count = Math.max(0, usage.count - freed.count)
      return count === 0
        ? { remove: true, result: undefined }
        : { put: { bytes, count }, result: undefined }
    })
  }

  /**
   * Passes bytes on until the account has no room for more. Counts bytes that arrive concurrently.
   *
   * @param spare what will be freed to make room
   * @throws GatewayError `QUOTA`
   */
  async *within(
    account: string,
    bytes: AsyncIterable<Uint8Array>,
    spare: Usage,
  ): AsyncGenerator<Uint8Array> {
    const usage = await this.of(account)
    const room = this.#quota.bytesPerPrincipal - usage.bytes + spare.bytes
    if (usage.count - spare.count >= this.#quota.countPerPrincipal) throw noRoom(this.#quota)
    let own = 0
    try {
      for await (const chunk of bytes) {
        own += chunk.byteLength
        const arriving = (this.#arriving.get(account) ?? 0) + chunk.byteLength
        this.#arriving.set(account, arriving)
        if (arriving > room) throw noRoom(this.#quota)
        yield chunk
      }
    } finally {
      const left = (this.#arriving.get(account) ?? 0) - own
      if (left > 0) this.#arriving.set(account, left)
      else this.#arriving.delete(account)
    }
  }

  /** Corrects a count that a killed process may have left wrong. Does nothing if the count changes meanwhile. */
  async correct(account: string, count: () => Promise<Usage>): Promise<void> {
    const before = await this.#records.get(usageKey(account))
    const usage = await count()
    const ifVersion = before?.version ?? null
    await this.#records.put(usageKey(account), usage, { ifVersion })
  }
}

function usageKey(account: string): string {
  return `artifacts/usage/${account}`
}

function usageFrom(value: unknown): Usage {
  return Usage.safeParse(value).data ?? NOTHING
}

function noRoom({ bytesPerPrincipal, countPerPrincipal }: ArtifactQuota): GatewayError {
  const message = `No room for more files: ${bytesPerPrincipal} bytes and ${countPerPrincipal} versions are allowed, and files end by themselves`
  return new GatewayError('QUOTA', message)
}

/** Bytes that are stored once for all versions that have them. */
interface StoredBlob {
  readonly id: string
  /** Marks bytes that are about to be deleted. A new hold removes the mark. */
  readonly isGoing: boolean
}

const StoredBlob: z.ZodType<StoredBlob> = z.object({ id: z.string(), isGoing: z.boolean() })

/**
 * Holds of versions on their bytes. Equal bytes are stored once, and deleted with their last hold.
 *
 * A hold is a row of its own: taking or releasing it twice changes nothing, and the rows of a killed process can be
 * repaired. A hold is written before the bytes are looked up, and bytes are marked before the last search for holds. So
 * either the release sees the new hold, or the new hold sees the mark.
 */
export class BlobHolds {
  readonly #store: GatewayStore
  readonly #updates: AtomicUpdates

  constructor(store: GatewayStore, updates: AtomicUpdates) {
    this.#store = store
    this.#updates = updates
  }

  /** Returns the id of the stored bytes: the given ones, or equal ones from earlier. Then the given ones are deleted. */
  async take(sha256: string, hold: string, id: string): Promise<string> {
    await this.#store.records.put(holdKey(sha256, hold), true)
    const kept = await this.#updates.update(blobKey(sha256), (value) => {
      const blob = StoredBlob.safeParse(value).data
      if (!blob) return { put: { id, isGoing: false }, result: id }
      if (blob.isGoing) return { put: { ...blob, isGoing: false }, result: blob.id }
      return { result: blob.id }
    })
    if (kept !== id) await this.#store.blobs.delete(id)
    return kept
  }

  /** Can be called twice. */
  async release(sha256: string, hold: string): Promise<void> {
    const { records, blobs } = this.#store
    await records.delete(holdKey(sha256, hold))
    if (await this.#isHeld(sha256)) return
    const found = await records.get(blobKey(sha256))
    const blob = StoredBlob.safeParse(found?.value).data
    if (!found || !blob) return
    const key = blobKey(sha256)
    const marked = await records.put(key, { ...blob, isGoing: true }, { ifVersion: found.version })
    if (marked === undefined || (await this.#isHeld(sha256))) return
    // Bytes are deleted only after no reader can find them.
    if (await records.delete(key, marked)) await blobs.delete(blob.id)
  }

  async has(sha256: string, hold: string): Promise<boolean> {
    return (await this.#store.records.get(holdKey(sha256, hold))) !== undefined
  }

  /** Deletes bytes whose writer may have been killed before it took a hold. */
  async discard(sha256: string, hold: string, id: string): Promise<void> {
    await this.release(sha256, hold)
    const found = await this.#store.records.get(blobKey(sha256))
    if (StoredBlob.safeParse(found?.value).data?.id !== id) await this.#store.blobs.delete(id)
  }

  async #isHeld(sha256: string): Promise<boolean> {
    const holds = await this.#store.records.list(`artifacts/held/${sha256}/`, { limit: 1 })
    return holds.length > 0
  }
}

function blobKey(sha256: string): string {
  return `artifacts/blob/${sha256}`
}

function holdKey(sha256: string, hold: string): string {
  return `artifacts/held/${sha256}/${hold}`
}

/** Maximum number of attempts while other processes change the same key. */
const MAX_TRIES = 100

/** Change of a value: a new value, its deletion, or none. */
export type Change<Result> =
  | { readonly put: unknown; readonly result: Result }
  | { readonly remove: true; readonly result: Result }
  | { readonly result: Result }

/**
 * Reads, decides and writes as one step. Updates of one key in this process run one after the other, so that the process
 * does not compete with itself.
 */
export class AtomicUpdates {
  readonly #records: Records
  readonly #last = new Map<string, Promise<unknown>>()

  constructor(records: Records) {
    this.#records = records
  }

  /** Writes nothing if `decide` throws. @throws the error of `decide`; GatewayError `UNAVAILABLE` */
  update<Result>(key: string, decide: (value: unknown) => Change<Result>): Promise<Result> {
    const before = this.#last.get(key)
    const work = (before ?? Promise.resolve()).then(() => this.#try(key, decide))
    const settled = work
      .catch(() => {})
      .finally(() => {
        if (this.#last.get(key) === settled) this.#last.delete(key)
      })
    this.#last.set(key, settled)
    return work
  }

  async #try<Result>(key: string, decide: (value: unknown) => Change<Result>): Promise<Result> {
    for (let tries = 0; tries < MAX_TRIES; tries++) {
      const before = await this.#records.get(key)
      const change = decide(before?.value)
      if ('put' in change) {
        const version = await this.#records.put(key, change.put, {
          ifVersion: before?.version ?? null,
        })
        if (version !== undefined) return change.result
      } else if ('remove' in change && before) {
        if (await this.#records.delete(key, before.version)) return change.result
      } else {
        return change.result
      }
    }
    throw new GatewayError('UNAVAILABLE', 'Too many writers change the same key at once: try again')
  }
}

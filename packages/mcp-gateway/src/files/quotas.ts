import { z } from 'zod'
import { GatewayError } from '../errors.ts'
import type { GatewayStore, Values } from '../store/gateway-store.ts'

/** What one account may have. */
export interface ArtifactQuota {
  /** Bytes of all its versions together. @default 1_073_741_824 */
  readonly bytesPerPrincipal: number
  /** How many versions there may be, of all names together. @default 1000 */
  readonly countPerPrincipal: number
}

export interface Usage {
  readonly bytes: number
  readonly count: number
}

const Usage: z.ZodType<Usage> = z.object({ bytes: z.number(), count: z.number() })
const NOTHING: Usage = { bytes: 0, count: 0 }

/** What each account has, and whether there is room for more. */
export class ArtifactUsage {
  readonly #values: Values
  readonly #updates: AtomicUpdates
  readonly #quota: ArtifactQuota
  /** Bytes that arrive in this process right now. */
  readonly #arriving = new Map<string, number>()

  constructor(values: Values, updates: AtomicUpdates, quota: ArtifactQuota) {
    this.#values = values
    this.#updates = updates
    this.#quota = quota
  }

  async of(account: string): Promise<Usage> {
    return usageFrom((await this.#values.get(usageKey(account)))?.value)
  }

  /** @throws GatewayError `QUOTA`, and then nothing is counted */
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
   * Bytes on their way in: ends them as soon as there is no room for more, with what arrives at the same
   * time counted in. `spare`: what will be freed to make room.
   *
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

  /** Puts right what a killed process may have counted wrong. Does nothing if it changed meanwhile. */
  async correct(account: string, count: () => Promise<Usage>): Promise<void> {
    const before = await this.#values.get(usageKey(account))
    const usage = await count()
    const ifVersion = before?.version ?? null
    await this.#values.put(usageKey(account), usage, { ifVersion })
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

/** Bytes that are kept once for all who hold them. */
interface StoredBlob {
  readonly id: string
  /** Somebody looks whether they are still held. Whoever comes to hold them says so by taking this away. */
  readonly isGoing: boolean
}

const StoredBlob: z.ZodType<StoredBlob> = z.object({ id: z.string(), isGoing: z.boolean() })

/**
 * Who holds which bytes: the same bytes are kept once, and go with their last hold.
 *
 * A hold is a row of its own, so that taking and releasing one twice changes nothing, and what a killed
 * process left can be put right. It is written before the bytes are looked up, and bytes are marked before
 * the last look for holds: so either whoever releases sees the new hold, or whoever takes it sees the mark.
 */
export class BlobHolds {
  readonly #store: GatewayStore
  readonly #updates: AtomicUpdates

  constructor(store: GatewayStore, updates: AtomicUpdates) {
    this.#store = store
    this.#updates = updates
  }

  /** @returns the id of the bytes that are kept: the given ones, or the same from earlier (then the given ones are gone) */
  async take(sha256: string, hold: string, id: string): Promise<string> {
    await this.#store.values.put(holdKey(sha256, hold), true)
    const kept = await this.#updates.update(blobKey(sha256), (value) => {
      const blob = StoredBlob.safeParse(value).data
      if (!blob) return { put: { id, isGoing: false }, result: id }
      if (blob.isGoing) return { put: { ...blob, isGoing: false }, result: blob.id }
      return { result: blob.id }
    })
    if (kept !== id) await this.#store.blobs.delete(id)
    return kept
  }

  /** Idempotent. */
  async release(sha256: string, hold: string): Promise<void> {
    const { values, blobs } = this.#store
    await values.delete(holdKey(sha256, hold))
    if (await this.#isHeld(sha256)) return
    const found = await values.get(blobKey(sha256))
    const blob = StoredBlob.safeParse(found?.value).data
    if (!found || !blob) return
    const key = blobKey(sha256)
    const marked = await values.put(key, { ...blob, isGoing: true }, { ifVersion: found.version })
    if (marked === undefined || (await this.#isHeld(sha256))) return
    // Bytes go only after nobody can find them any more.
    if (await values.delete(key, marked)) await blobs.delete(blob.id)
  }

  async has(sha256: string, hold: string): Promise<boolean> {
    return (await this.#store.values.get(holdKey(sha256, hold))) !== undefined
  }

  /** Bytes that were written by somebody who may have been killed before they were held. */
  async discard(sha256: string, hold: string, id: string): Promise<void> {
    await this.release(sha256, hold)
    const found = await this.#store.values.get(blobKey(sha256))
    if (StoredBlob.safeParse(found?.value).data?.id !== id) await this.#store.blobs.delete(id)
  }

  async #isHeld(sha256: string): Promise<boolean> {
    const holds = await this.#store.values.list(`artifacts/held/${sha256}/`, { limit: 1 })
    return holds.length > 0
  }
}

function blobKey(sha256: string): string {
  return `artifacts/blob/${sha256}`
}

function holdKey(sha256: string, hold: string): string {
  return `artifacts/held/${sha256}/${hold}`
}

/** Other processes may be faster so often. */
const MAX_TRIES = 100

/** What becomes of a value: another one, none, or what it was. */
export type Change<Result> =
  | { readonly put: unknown; readonly result: Result }
  | { readonly remove: true; readonly result: Result }
  | { readonly result: Result }

/**
 * Reads, decides and writes as if it were one step. What this process does to one key comes one after the
 * other, so that it does not compete with itself.
 */
export class AtomicUpdates {
  readonly #values: Values
  readonly #last = new Map<string, Promise<unknown>>()

  constructor(values: Values) {
    this.#values = values
  }

  /** @throws what `decide` throws, and then nothing is written; GatewayError `UNAVAILABLE` */
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
      const before = await this.#values.get(key)
      const change = decide(before?.value)
      if ('put' in change) {
        const version = await this.#values.put(key, change.put, {
          ifVersion: before?.version ?? null,
        })
        if (version !== undefined) return change.result
      } else if ('remove' in change && before) {
        if (await this.#values.delete(key, before.version)) return change.result
      } else {
        return change.result
      }
    }
    throw new GatewayError('UNAVAILABLE', 'Too many write the same at once: try again')
  }
}

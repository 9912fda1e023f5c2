import { z } from 'zod'
import type { GatewayStore } from '../../store/gateway-store.ts'
import type { AtomicUpdates } from './atomic-updates.ts'

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

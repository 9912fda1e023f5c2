import { z } from 'zod'
import { GatewayError } from '../errors.ts'
import { ArtifactQuotas, AtomicUpdates, usageOf } from './quotas.ts'
import { encodedName } from './uri.ts'
import type { Clock } from '../internal/clock.ts'
import { randomId } from '../internal/random-hex.ts'
import type { QuotaSettings } from '../options.ts'
import type { GatewayStore, WrittenBlob } from '../store/gateway-store.ts'

/** A version to add. */
export interface NewVersion {
  readonly scope: string
  readonly name: string
  readonly title: string
  readonly list: string
  readonly version: Omit<StoredVersion, 'version' | 'blob'>
  /** Key of the record that `store` wrote. */
  readonly journal: string
}

/** Bytes of a version that is not added yet. */
export interface StoredBytes extends WrittenBlob, Pick<StoredVersion, 'hold'> {
  /** Key of the record by which the sweep deletes them if the version is not added. */
  readonly journal: string
}

/** A version that is not added after this time never will be: its writer was killed. */
const ABANDONED_MS = 86_400_000

/** A name after a version was added. */
export interface AddedVersion {
  readonly name: StoredName
  /** `undefined`: the run wrote the same bytes before, and its version was found. */
  readonly change: IndexChange | undefined
}

/** A change that readers of the name may see. */
export interface IndexChange {
  readonly scope: string
  readonly name: string
  readonly list: string
  /** The new version. `undefined`: the last version of the name has expired. */
  readonly version: number | undefined
  readonly isNewName: boolean
}

export interface SweptVersions {
  /** Changes to report to the owners. */
  readonly changes: readonly IndexChange[]
  /** False if more versions have expired. */
  readonly isAll: boolean
}

/**
 * All names, their versions and the bytes of these. Equal bytes are stored once, and deleted with their last version.
 *
 * The record of its end is written before the bytes of a version, and deleted last. Each step of a removal can be repeated.
 * So the sweep removes all parts of a version whose writer was killed, once that time has come.
 */
export class ArtifactIndex {
  readonly #store: GatewayStore
  readonly #clock: Clock
  readonly #versionsPerName: number
  readonly #updates: AtomicUpdates
  readonly #quotas: ArtifactQuotas
  #written = 0

  constructor(store: GatewayStore, clock: Clock, quota: QuotaSettings) {
    this.#store = store
    this.#clock = clock
    this.#versionsPerName = quota.versionsPerName
    this.#updates = new AtomicUpdates(store.records)
    this.#quotas = new ArtifactQuotas(store.records, this.#updates, quota)
  }

  /** Returns a name with its versions that have not expired. */
  async find(scope: string, name: string): Promise<StoredName | undefined> {
    const found = await this.#store.records.get(nameKey(scope, name))
    return liveFrom(found?.value, this.#clock.now())
  }

  /**
   * Stores the bytes of the next version of a name, as long as the account has room for more. `add` adds the version.
   *
   * @throws GatewayError `QUOTA`, `LIMIT`; the error of the bytes
   */
  async store(
    { scope, name, account }: Pick<NewVersion, 'scope' | 'name'> & Pick<StoredVersion, 'account'>,
    bytes: AsyncIterable<Uint8Array>,
    limit: number,
  ): Promise<StoredBytes> {
    const { records, blobs } = this.#store
    const oldest = this.#oldest((await this.find(scope, name))?.versions ?? [])
    const spare = usageOf(oldest.filter((version) => version.account === account))
    const hold = randomId()
    const place = { scope, name, hold, blob: hold, sha256: '', account }
    const journal = `${endKey(this.#clock.now() + ABANDONED_MS, hold)}-unfinished`
    await records.put(journal, place)
    try {
      const within = this.#quotas.within(bytes, account, spare)
      return { hold, journal, ...(await blobs.write(hold, within, limit)) }
    } catch (error) {
      await records.delete(journal).catch(() => {}) // the first error says more
      throw error
    }
  }

  /**
   * Adds a version whose bytes are stored. Keeps nothing of it, and deletes its bytes, if it fails.
   *
   * @throws GatewayError `QUOTA`
   */
  async add(added: NewVersion): Promise<AddedVersion> {
    const { scope, name, version, journal } = added
    const { hold, sha256, account, expiresAt } = version
    const place = { scope, name, hold, blob: hold, sha256, account }
    const end = endKey(expiresAt, hold)
    try {
      await this.#store.records.put(end, place)
      await this.#store.records.delete(journal)
      await this.#takeRoom(added)
      const blob = await this.#hold(sha256, hold)
      if (blob !== hold) {
        await this.#store.records.put(end, { ...place, blob })
        await this.#store.blobs.delete(hold)
      }
      return await this.#insert(added, { ...place, blob })
    } catch (error) {
      // The first error says more. If this fails, too, the sweep removes the rest.
      await this.#remove(place, end)
        .then(() => this.#store.records.delete(journal))
        .catch(() => {})
      throw error
    }
  }

  /** Removes at most `limit` expired versions. */
  async sweep(limit: number): Promise<SweptVersions> {
    const { records } = this.#store
    const changes: IndexChange[] = []
    let count = 0
    for (const { key, value } of await records.list(ENDS, { limit })) {
      if (Number(key.slice(ENDS.length).split('-')[0]) > this.#clock.now()) break
      count++
      const place = StoredPlace.safeParse(value).data
      const change = place && (await this.#remove(place, key))
      if (change) changes.push(change)
      if (!place) await records.delete(key)
    }
    return { changes, isAll: count < limit }
  }

  async #takeRoom({ scope, name, version }: NewVersion): Promise<void> {
    const ttlMs = version.expiresAt - this.#clock.now()
    try {
      await this.#quotas.take(version, ttlMs)
    } catch (error) {
      if (!GatewayError.is(error) || error.code !== 'QUOTA') throw error
      await this.#removeOldest(scope, name)
      await this.#quotas.take(version, ttlMs)
    }
  }

  /** Adds a version to its name. If the run wrote the same bytes before, frees the version and returns the earlier one. */
  async #insert(added: NewVersion, place: StoredPlace): Promise<AddedVersion> {
    const { records } = this.#store
    const { scope, name, title, list } = added
    const version = { ...added.version, blob: place.blob }
    const { createdAt, expiresAt, hold } = version
    const listedAs = listedKey(list, { createdAt, count: ++this.#written, id: hold })
    await records.put(listedAs, { scope, name }, { ttlMs: expiresAt - this.#clock.now() })
    const outcome = await this.#updates.update<AddOutcome>(nameKey(scope, name), (value) => {
      const before = StoredName.safeParse(value).data
      const live = liveFrom(value, this.#clock.now())
      const last = live?.versions.at(-1)
      if (live && last && isSameFile(last, version)) {
        return { result: { stored: live, before, removed: [], isAdded: false } }
      }
      const next = before?.next ?? 1
      const all = [...(before?.versions ?? []), { ...version, version: next }]
      const removed = all.slice(0, -this.#versionsPerName)
      const stored = { list, title, listedAs, next: next + 1, versions: all.slice(removed.length) }
      return { put: stored, result: { stored, before, removed, isAdded: true } }
    })
    const { stored, before, removed, isAdded } = outcome
    if (!isAdded) {
      await records.delete(listedAs)
      await this.#free(place, endKey(expiresAt, hold))
      return { name: stored, change: undefined }
    }
    if (before) await records.delete(before.listedAs)
    await this.#freeAll(scope, name, removed)
    const isNewName = before === undefined
    return { name: stored, change: { scope, name, list, version: stored.next - 1, isNewName } }
  }

  /** Removes the oldest versions, so that one more is within the limit per name. */
  async #removeOldest(scope: string, name: string): Promise<void> {
    const removed = await this.#updates.update(nameKey(scope, name), (value) => {
      const before = StoredName.safeParse(value).data
      const oldest = this.#oldest(before?.versions ?? [])
      if (!before || oldest.length === 0) return { result: [] }
      return {
        put: { ...before, versions: before.versions.slice(oldest.length) },
        result: oldest,
      }
    })
    await this.#freeAll(scope, name, removed)
  }

  /** Returns the versions of a name that make room for one more. The latest version never does. */
  #oldest(versions: readonly StoredVersion[]): readonly StoredVersion[] {
    const count = Math.max(0, versions.length - (this.#versionsPerName - 1))
    return count === versions.length ? [] : versions.slice(0, count)
  }

  /** Removes a version from its name, and all that belongs to it. Returns the change if it was the last one of the name. */
  async #remove(place: StoredPlace, end: string): Promise<IndexChange | undefined> {
    const { scope, name, hold } = place
    const gone = await this.#updates.update<StoredName | undefined>(
      nameKey(scope, name),
      (value) => {
        const before = StoredName.safeParse(value).data
        const versions = before?.versions.filter((version) => version.hold !== hold) ?? []
        if (!before || versions.length === before.versions.length) return { result: undefined }
        if (versions.length > 0) return { put: { ...before, versions }, result: undefined }
        return { remove: true, result: before }
      },
    )
    if (gone) await this.#store.records.delete(gone.listedAs)
    await this.#free(place, end)
    return gone && { scope, name, list: gone.list, version: undefined, isNewName: false }
  }

  async #freeAll(scope: string, name: string, removed: readonly StoredVersion[]): Promise<void> {
    for (const old of removed) {
      await this.#free({ scope, name, ...old }, endKey(old.expiresAt, old.hold))
    }
  }

  /** Frees the room and the bytes of a version that is in no name. @param end key of the record of its end */
  async #free(place: StoredPlace, end: string): Promise<void> {
    await this.#quotas.free(place)
    await this.#release(place)
    await this.#store.records.delete(end)
  }

  /** Returns the id of the bytes of a version: its own, or equal ones from earlier. */
  #hold(sha256: string, hold: string): Promise<string> {
    return this.#updates.update(contentKey(sha256), (value) => {
      const { blob, holds } = StoredContent.safeParse(value).data ?? { blob: hold, holds: [] }
      return { put: { blob, holds: [...holds, hold] }, result: blob }
    })
  }

  /** Deletes the bytes of a version, unless other versions hold them. */
  async #release({ sha256, hold, blob }: StoredPlace): Promise<void> {
    const unused = await this.#updates.update(contentKey(sha256), (value) => {
      const found = StoredContent.safeParse(value).data
      // The bytes of a version are in use only if the record names them.
      if (!found) return { result: [hold, blob] }
      const holds = found.holds.filter((each) => each !== hold)
      if (holds.length === 0) return { remove: true, result: [hold, blob, found.blob] }
      const result = [hold, blob].filter((id) => id !== found.blob)
      const isHeld = holds.length < found.holds.length
      return isHeld ? { put: { ...found, holds }, result } : { result }
    })
    for (const id of new Set(unused)) await this.#store.blobs.delete(id)
  }
}

interface AddOutcome {
  readonly stored: StoredName
  readonly before: StoredName | undefined
  readonly removed: readonly StoredVersion[]
  readonly isAdded: boolean
}

/** Returns a name without its expired versions. `undefined`: all have expired. */
export function liveFrom(value: unknown, now: number): StoredName | undefined {
  const stored = StoredName.safeParse(value).data
  const versions = stored?.versions.filter(({ expiresAt }) => expiresAt > now) ?? []
  return stored && versions.length > 0 ? { ...stored, versions } : undefined
}

function isSameFile(a: StoredVersion, b: Omit<StoredVersion, 'version'>): boolean {
  return a.runId !== undefined && a.runId === b.runId && a.sha256 === b.sha256
}

/** Returns the key of a name. Names of a scope are in the order of their escaped form. */
export function nameKey(scope: string, name: string): string {
  return `artifacts/name/${scope}/${encodedName(name)}`
}

interface ListedAt {
  readonly createdAt: number
  /** Number of the file among those of this process: two files may have the same time. */
  readonly count: number
  readonly id: string
}

/** Returns the key of an entry in a list. The newest entry has the smallest key. */
function listedKey(list: string, { createdAt, count, id }: ListedAt): string {
  const [time, order] = [createdAt, count].map((n) => timeText(Number.MAX_SAFE_INTEGER - n))
  return `${listedPrefix(list)}${time}-${order}-${id}`
}

export function listedPrefix(list: string): string {
  return `artifacts/listed/${list}/`
}

const ENDS = 'artifacts/ends/'

/** Returns the key of the end of a version. The first one to expire has the smallest key. */
function endKey(expiresAt: number, hold: string): string {
  return `${ENDS}${timeText(expiresAt)}-${hold}`
}

function timeText(ms: number): string {
  return String(Math.floor(ms)).padStart(16, '0')
}

function contentKey(sha256: string): string {
  return `artifacts/content/${sha256}`
}

/** A name as one record, so that versions are added and removed in one step. */
export interface StoredName {
  /** Id of its list. */
  readonly list: string
  /** Name that the agent or the client gave. */
  readonly title: string
  readonly next: number
  /** Key of its entry in the list. */
  readonly listedAs: string
  /** The versions, oldest first. */
  readonly versions: readonly StoredVersion[]
}

export interface StoredVersion {
  readonly version: number
  /** Id under which the bytes of this version were written. */
  readonly hold: string
  /** Id under which its bytes are stored: `hold`, or that of equal bytes. */
  readonly blob: string
  readonly sha256: string
  readonly size: number
  readonly mimeType: string
  readonly account: string
  readonly principal: string
  readonly runId?: string | undefined
  /** The agent that wrote it. */
  readonly agentId?: string | undefined
  readonly createdAt: number
  readonly expiresAt: number
}

const StoredVersion = z.object({
  version: z.int(),
  hold: z.string(),
  blob: z.string(),
  sha256: z.string(),
  size: z.int(),
  mimeType: z.string(),
  account: z.string(),
  principal: z.string(),
  runId: z.string().optional(),
  agentId: z.string().optional(),
  createdAt: z.number(),
  expiresAt: z.number(),
})

const StoredName: z.ZodType<StoredName> = z.object({
  list: z.string(),
  title: z.string(),
  next: z.int(),
  listedAs: z.string(),
  versions: z.array(StoredVersion),
})

/** Everything that is needed to remove a version. */
const StoredPlace = StoredVersion.pick({
  hold: true,
  blob: true,
  sha256: true,
  account: true,
}).extend({ scope: z.string(), name: z.string() })

type StoredPlace = z.infer<typeof StoredPlace>

/** Bytes with one hash: the id under which they are stored, and `hold` of each version that has them. */
const StoredContent = z.object({ blob: z.string(), holds: z.array(z.string()) })

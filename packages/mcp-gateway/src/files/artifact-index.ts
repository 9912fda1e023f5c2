import { z } from 'zod'
import type { ArtifactUsage, AtomicUpdates, BlobHolds, Usage } from './quotas.ts'
import { encodedName } from './uri.ts'
import type { Clock } from '../internal/clock.ts'
import { listAll } from '../store/gateway-store.ts'
import type { GatewayStore } from '../store/gateway-store.ts'

/** A writer that has not finished after this time was killed. */
const ABANDONED_MS = 600_000

export interface ArtifactIndexOptions {
  readonly store: GatewayStore
  readonly updates: AtomicUpdates
  readonly holds: BlobHolds
  readonly usage: ArtifactUsage
  readonly clock: Clock
  readonly versionsPerName: number
}

/** A version to add. Its bytes are stored already. */
export interface NewVersion {
  readonly scope: string
  readonly name: string
  readonly title: string
  readonly list: string
  readonly version: Omit<StoredVersion, 'version'>
}

/** A version whose addition has begun. */
export interface Addition extends NewVersion {
  readonly journal: string
  /** Key of its entry in the list. */
  readonly listedAs: string
}

/** A name after a version was added. */
export interface AddedVersion {
  readonly name: StoredName
  readonly change?: IndexChange | undefined
}

/** A change that readers of the name may see. */
export interface IndexChange {
  readonly scope: string
  readonly name: string
  readonly list: string
  /** The new version. @default the last version of the name has expired */
  readonly version?: number | undefined
  readonly isNewName: boolean
}

export interface SweptVersions {
  /** Changes to report to the owners. */
  readonly changes: readonly IndexChange[]
  /** Whether no expired version is left. */
  readonly isAll: boolean
}

/** All names and their versions. Each step can be repeated, so that a killed process leaves nothing behind. */
export class ArtifactIndex {
  readonly #options: ArtifactIndexOptions
  #written = 0

  constructor(options: ArtifactIndexOptions) {
    this.#options = options
  }

  /** Returns a name with its versions that have not expired. */
  async find(scope: string, name: string): Promise<StoredName | undefined> {
    const found = await this.#options.store.records.get(nameKey(scope, name))
    return liveFrom(found?.value, this.#options.clock.now())
  }

  /** Records an addition before it is counted, so that it can be repaired if this process is killed. */
  async begin(added: NewVersion): Promise<Addition> {
    const { list, version } = added
    const { createdAt, hold: id } = version
    const listedAs = listedKey(list, { createdAt, count: ++this.#written, id })
    const journal = unfinishedKey(this.#options.clock.now(), id)
    await this.#options.store.records.put(journal, placeOf(added))
    return { ...added, journal, listedAs }
  }

  /** Drops an addition for which there is no room. */
  async abandon({ version, journal }: Addition): Promise<void> {
    await this.#options.store.blobs.delete(version.blob)
    await this.#options.store.records.delete(journal)
  }

  /**
   * Adds a version that was counted already. If a run writes the same bytes again, the existing version is returned.
   *
   * @returns the name, and the change unless the version existed
   */
  async add(added: Addition): Promise<AddedVersion> {
    const { store, holds, updates, clock } = this.#options
    const { scope, name, title, list, version, journal, listedAs } = added
    const place = placeOf(added)
    const ttlMs = version.expiresAt - clock.now()
    const blob = await holds.take(version.sha256, version.hold, version.blob)
    await store.records.put(endKey(version.expiresAt, version.hold), { ...place, blob })
    await store.records.put(listedAs, { ...place, blob }, { ttlMs })
    const outcome = await updates.update<AddOutcome>(nameKey(scope, name), (value) => {
      const before = storedNameFrom(value)
      const live = liveFrom(value, clock.now())
      const last = live?.versions.at(-1)
      if (live && last && isSameFile(last, version)) {
        return { result: { stored: live, before, removed: [], isAdded: false } }
      }
      const all = [...(before?.versions ?? []), { ...version, blob, version: before?.next ?? 1 }]
      const removed = all.slice(0, -this.#options.versionsPerName)
      const versions = all.slice(removed.length)
      const stored = { list, title, listedAs, next: (before?.next ?? 1) + 1, versions }
      return { put: stored, result: { stored, before, removed, isAdded: true } }
    })
    const { stored, before, removed, isAdded } = outcome
    if (isAdded) {
      if (before) await store.records.delete(before.listedAs)
    } else {
      await store.records.delete(listedAs)
      await this.#free(place, version)
    }
    for (const old of removed) await this.#free({ ...place, ...old }, old)
    await store.records.delete(journal)
    if (!isAdded) return { name: stored }
    const change = { scope, name, list, version: stored.next - 1, isNewName: before === undefined }
    return { name: stored, change }
  }

  /** Deletes the oldest versions, so that one more is within the limit per name. */
  async makeRoom(scope: string, name: string): Promise<void> {
    const { updates, versionsPerName } = this.#options
    const removed = await updates.update(nameKey(scope, name), (value) => {
      const before = storedNameFrom(value)
      const count = Math.max(0, (before?.versions.length ?? 0) - (versionsPerName - 1))
      if (!before || count === 0 || count === before.versions.length) return { result: [] }
      const put = { ...before, versions: before.versions.slice(count) }
      return { put, result: before.versions.slice(0, count) }
    })
    for (const old of removed) await this.#free({ scope, name, ...old }, old)
  }

  /** Deletes at most `limit` expired versions, and repairs at most `limit` unfinished ones. */
  async sweep(limit: number): Promise<SweptVersions> {
    const { store, clock } = this.#options
    const changes: IndexChange[] = []
    let count = 0
    for (const { key, value } of await store.records.list(ENDS, { limit })) {
      if (timeOf(key) > clock.now()) break
      count++
      const place = storedPlaceFrom(value)
      if (place) changes.push(...(await this.#end(place)))
      await store.records.delete(key)
    }
    for (const { key, value } of await store.records.list(UNFINISHED, { limit })) {
      if (timeOf(key) > clock.now() - ABANDONED_MS) break
      const place = storedPlaceFrom(value)
      if (place) await this.#repair(place, true)
      await store.records.delete(key)
    }
    return { changes, isAll: count < limit }
  }

  async #end(place: StoredPlace): Promise<readonly IndexChange[]> {
    const { scope, name, hold } = place
    const { store, updates } = this.#options
    const { removed, gone } = await updates.update<Removal>(nameKey(scope, name), (value) => {
      const before = storedNameFrom(value)
      const ended = before?.versions.find((version) => version.hold === hold)
      if (!before || !ended) return { result: {} }
      const versions = before.versions.filter((version) => version !== ended)
      if (versions.length > 0) {
        return { put: { ...before, versions }, result: { removed: ended } }
      }
      return { remove: true, result: { removed: ended, gone: before } }
    })
    if (removed) await this.#free(place, removed)
    else await this.#repair(place, false)
    if (!gone) return []
    await store.records.delete(gone.listedAs)
    return [{ scope, name, list: gone.list, isNewName: false }]
  }

  async #free(
    place: StoredPlace,
    version: Pick<StoredVersion, 'size' | 'expiresAt'>,
  ): Promise<void> {
    const { store, usage, holds } = this.#options
    await usage.subtract(place.account, { bytes: version.size, count: 1 })
    await holds.release(place.sha256, place.hold)
    await store.records.delete(endKey(version.expiresAt, place.hold))
  }

  /** Repairs a version that is not in its name, because the process that added or removed it was killed. */
  async #repair(place: StoredPlace, mayBeCounted: boolean): Promise<void> {
    const { scope, name, hold, blob, sha256, account } = place
    const { store, holds, usage } = this.#options
    const found = storedNameFrom((await store.records.get(nameKey(scope, name)))?.value)
    if (found?.versions.some((version) => version.hold === hold)) return
    const isHeld = await holds.has(sha256, hold)
    await holds.discard(sha256, hold, blob)
    if (isHeld || mayBeCounted) await usage.correct(account, () => this.#usageOf(account))
  }

  async #usageOf(account: string): Promise<Usage> {
    let [bytes, count] = [0, 0]
    for await (const { value } of listAll(this.#options.store.records, NAMES)) {
      for (const version of storedNameFrom(value)?.versions ?? []) {
        if (version.account !== account) continue
        bytes += version.size
        count++
      }
    }
    return { bytes, count }
  }
}

interface AddOutcome {
  readonly stored: StoredName
  readonly before: StoredName | undefined
  readonly removed: readonly StoredVersion[]
  readonly isAdded: boolean
}

interface Removal {
  readonly removed?: StoredVersion
  /** The name, if this was its last version. */
  readonly gone?: StoredName
}

/** Returns a name without its expired versions. `undefined`: all have expired. */
export function liveFrom(value: unknown, now: number): StoredName | undefined {
  const stored = storedNameFrom(value)
  const versions = stored?.versions.filter(({ expiresAt }) => expiresAt > now) ?? []
  return stored && versions.length > 0 ? { ...stored, versions } : undefined
}

function isSameFile(a: Omit<StoredVersion, 'version'>, b: Omit<StoredVersion, 'version'>): boolean {
  return a.runId !== undefined && a.runId === b.runId && a.sha256 === b.sha256
}

function placeOf({ scope, name, version }: NewVersion): StoredPlace {
  const { hold, blob, sha256, account } = version
  return { scope, name, hold, blob, sha256, account }
}

const NAMES = 'artifacts/name/'

/** Returns the key of a name. Names of a scope are in the order of their escaped form. */
export function nameKey(scope: string, name: string): string {
  return `${NAMES}${scope}/${encodedName(name)}`
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

/** Returns the key of the expiry of a version. The first one to expire has the smallest key. */
function endKey(expiresAt: number, hold: string): string {
  return `${ENDS}${timeText(expiresAt)}-${hold}`
}

const UNFINISHED = 'artifacts/unfinished/'

/** Returns the key of an addition that is not finished. */
function unfinishedKey(startedAt: number, hold: string): string {
  return `${UNFINISHED}${timeText(startedAt)}-${hold}`
}

/** Returns the time in a key of `ENDS` or `UNFINISHED`. */
function timeOf(key: string): number {
  return Number(key.slice(key.lastIndexOf('/') + 1).split('-')[0])
}

function timeText(ms: number): string {
  return String(Math.floor(ms)).padStart(16, '0')
}

/** A name as one record, so that versions are added and deleted in one step. */
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
  /** Id of the hold on its bytes. */
  readonly hold: string
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

const StoredVersion: z.ZodType<StoredVersion> = z.object({
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

/** Everything that is needed to repair or delete a version. */
export interface StoredPlace {
  readonly scope: string
  readonly name: string
  readonly hold: string
  readonly blob: string
  readonly sha256: string
  readonly account: string
}

const StoredPlace: z.ZodType<StoredPlace> = z.object({
  scope: z.string(),
  name: z.string(),
  hold: z.string(),
  blob: z.string(),
  sha256: z.string(),
  account: z.string(),
})

/** `undefined`: there is no name, or a newer version of the gateway wrote it. */
function storedNameFrom(value: unknown): StoredName | undefined {
  return StoredName.safeParse(value).data
}

export function storedPlaceFrom(value: unknown): StoredPlace | undefined {
  return StoredPlace.safeParse(value).data
}

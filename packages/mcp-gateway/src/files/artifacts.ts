import { setImmediate, setTimeout } from 'node:timers/promises'
import { z } from 'zod'
import { GatewayError } from '../errors.ts'
import type { Clock } from '../internal/clock.ts'
import { randomId } from '../internal/random-hex.ts'
import { SignedCursors } from '../internal/signing.ts'
import { Sweeper } from '../internal/timers.ts'
import type { ArtifactSettings } from '../options.ts'
import { listAll } from '../store/gateway-store.ts'
import type { GatewayStore, ListedRecord, WrittenBlob } from '../store/gateway-store.ts'
import { HeldBytes } from './blocks.ts'
import { fileTypeOf, mediaTypeFrom, namedTypeOf } from './media-types.ts'
import { ArtifactScopes, accountOf, listKey, listOf } from './namespaces.ts'
import type { ArtifactCaller, OwnedScope } from './namespaces.ts'
import { ArtifactQuotas, AtomicUpdates } from './stored-bytes.ts'
import type { InputFile, StoredFile } from './result-files.ts'
import {
  artifactAddressFrom,
  artifactNameFrom,
  artifactUriOf,
  decodedName,
  encodedName,
  fileNameFrom,
  isArtifactName,
} from './uri.ts'
import type { ArtifactAddress } from './uri.ts'

export interface ArtifactsOptions extends Pick<
  ArtifactSettings,
  'uriScheme' | 'ttlMs' | 'maxBytes' | 'quota'
> {
  /** Size up to which `resources/read` answers. A larger file is downloaded. */
  readonly readMaxBytes: number
  readonly store: GatewayStore
  /** Key that signs cursors. The same in every process. */
  readonly key: Uint8Array | string
  readonly clock: Clock
  /** Called for each change that this process makes. The change is stored already. */
  readonly onChange: (change: ArtifactChange) => void
  /** Called with the error of a sweep. The next sweep tries again. */
  readonly onError: (error: unknown) => void
}

/** Size up to which `resources/read` answers: the base64 of it is a message that clients still accept. */
export const READ_MAX_BYTES = 8_388_608

/** Most versions of one name. A further one replaces the oldest. */
const MAX_VERSIONS = 20

/** Interval at which expired versions are deleted. Milliseconds. */
const SWEEP_MS = 10_000

/** Maximum number of rows that one sweep deletes. */
const SWEEP_ROWS = 100

/** A version that is not added after this time never will be: its writer was killed. */
const ABANDONED_MS = 86_400_000

/**
 * Named files with versions. Each belongs to the principal, the session or the scope for which it was written.
 *
 * The record of its end is written before the bytes of a version, and deleted last. Each step of a removal can be repeated.
 * So the sweep removes all parts of a version whose writer was killed, once that time has come.
 */
export class Artifacts implements AsyncDisposable {
  readonly scopes: ArtifactScopes
  readonly #options: ArtifactsOptions
  readonly #store: GatewayStore
  readonly #cursors: SignedCursors
  readonly #updates: AtomicUpdates
  readonly #quotas: ArtifactQuotas
  readonly #sweeper: Sweeper
  readonly #reads = new LargeReads()
  #written = 0

  constructor(options: ArtifactsOptions) {
    const { store, key, ttlMs, quota, clock, onError } = options
    this.scopes = new ArtifactScopes(store.records, ttlMs)
    this.#options = options
    this.#store = store
    this.#cursors = new SignedCursors(key)
    this.#updates = new AtomicUpdates(store.records)
    this.#quotas = new ArtifactQuotas(store.records, this.#updates, quota)
    const sweep = async (): Promise<void> => {
      // Lets other work run in between: a store in memory never waits.
      while (!this.#sweeper.isClosed && !(await this.sweep())) await setImmediate()
    }
    this.#sweeper = new Sweeper({ clock, everyMs: SWEEP_MS, sweep, onError })
  }

  /** Returns `artifact://{scope}/{name}{?version}` (RFC 6570). */
  get uriTemplate(): string {
    return `${this.#options.uriScheme}://{scope}/{name}{?version}`
  }

  /**
   * Stores a version and reports the change. Keeps nothing of a write that fails.
   *
   * @throws GatewayError `LIMIT`, `QUOTA`; `NOT_FOUND` for a scope that the caller does not own; the error of the bytes
   */
  async write(caller: ArtifactCaller, file: NewArtifact): Promise<Artifact> {
    const { records } = this.#store
    const { clock, ttlMs } = this.#options
    const owned = await this.scopes.forWriting(caller, file.scope)
    const name = artifactNameFrom(file.name)
    const blobId = randomId()
    const account = accountOf(caller)
    const place: Place = { scope: owned.scope, name, blobId, account }
    const unfinished = `${endKey(clock.now() + ABANDONED_MS, blobId)}-unfinished`
    let end = unfinished
    await records.put(unfinished, place)
    try {
      const head = new HeldBytes(0)
      const written = await this.#writeBytes(place, head.through(file.bytes))
      const declared = mediaTypeFrom(file.mimeType) ?? namedTypeOf(name)
      const { mimeType } = fileTypeOf(declared, head.head)
      const { runId, agentId } = file
      const createdAt = clock.now()
      const facts = {
        ...written,
        blobId,
        account,
        mimeType,
        runId,
        agentId,
      }
      const version = { ...facts, createdAt, expiresAt: createdAt + ttlMs }
      end = endKey(version.expiresAt, blobId)
      await records.put(end, place)
      await records.delete(unfinished)
      return await this.#add(owned, name, version)
    } catch (error) {
      // The first error says more. If this fails, too, the sweep removes the rest.
      await this.#remove(place, end)
        .then(() => records.delete(unfinished))
        .catch(() => {})
      throw error
    }
  }

  /**
   * Returns an artifact of the caller, by its URI or its address.
   *
   * @throws GatewayError `NOT_FOUND`, with the same message for an invalid URI, for an artifact of another owner, and for
   *   one that does not exist or has expired
   */
  async find(caller: ArtifactCaller, at: string | ArtifactAddress): Promise<FoundArtifact> {
    const address = typeof at === 'string' ? artifactAddressFrom(at, this.#options.uriScheme) : at
    // The owner is checked before the artifact.
    if (!address || !(await this.scopes.mayRead(caller, address.scope))) throw notFound()
    return this.findLinked(address)
  }

  /** Returns an artifact for a client with a valid download link. @throws GatewayError `NOT_FOUND` */
  async findLinked(address: ArtifactAddress): Promise<FoundArtifact> {
    const found = await this.#find(address)
    if (!found) throw notFound()
    return found
  }

  /**
   * Returns all bytes of an artifact, or no bytes if there are more than `readMaxBytes`.
   *
   * @param check called right before the bytes are read, which may be after a wait. Throws if they are not needed any more
   * @throws GatewayError `NOT_FOUND`, and the error of `check`
   */
  async read(
    caller: ArtifactCaller,
    uri: string,
    check?: () => void,
  ): Promise<{ readonly artifact: Artifact; readonly bytes: Uint8Array | undefined }> {
    const artifact = await this.find(caller, uri)
    if (artifact.size > this.#options.readMaxBytes) return { artifact, bytes: undefined }
    const whole = async (): Promise<Buffer> => {
      check?.()
      const chunks: Uint8Array[] = []
      for await (const chunk of await artifact.open()) chunks.push(chunk)
      return Buffer.concat(chunks)
    }
    const isSmall = artifact.size <= SMALL_READ_BYTES
    return { artifact, bytes: await (isSmall ? whole() : this.#reads.run(whole)) }
  }

  /**
   * Returns the latest version of each name of the caller, newest first. A caller without a name and without a session has
   * none.
   *
   * @throws GatewayError `NOT_FOUND` for a cursor of another list
   */
  async list(
    caller: ArtifactCaller,
    { cursor, limit = 100 }: { readonly cursor?: string | undefined; readonly limit?: number } = {},
  ): Promise<{ readonly artifacts: readonly Artifact[]; readonly nextCursor?: string }> {
    const list = listOf(caller)
    if (list === undefined) return { artifacts: [] }
    const prefix = listedPrefix(list)
    let after = cursor === undefined ? undefined : this.#cursors.open(prefix, cursor)
    if (cursor !== undefined && after === undefined) {
      throw new GatewayError('NOT_FOUND', 'The cursor is not valid for this list')
    }
    const artifacts: Artifact[] = []
    for (;;) {
      const rows = await this.#store.records.list(prefix, { after, limit })
      for (const { key, value } of rows) {
        after = key
        const listed = ListedName.safeParse(value).data
        const found = listed && (await this.#find(listed))
        // A newer version has its own entry, nearer to the front.
        if (found?.listedAs === key) artifacts.push(found)
        if (artifacts.length >= limit) {
          return { artifacts, nextCursor: this.#cursors.seal(prefix, key) }
        }
      }
      if (rows.length < limit) return { artifacts }
    }
  }

  /** Returns at most `limit` names in a scope of the caller that begin with `start`. */
  async complete(
    caller: ArtifactCaller,
    scope: string,
    { start, limit }: { readonly start: string; readonly limit: number },
  ): Promise<readonly string[]> {
    const begun = start.normalize('NFC')
    // Only the beginning of a name can be encoded.
    if (!isArtifactName(`${begun}a`) || !(await this.scopes.mayRead(caller, scope))) return []
    const rows = await this.#store.records.list(nameKey(scope, begun), { limit })
    return rows.flatMap((row) => this.#inRow(scope, row)?.name ?? [])
  }

  /** Returns a file for an agent, by a URI that the caller gave. @throws GatewayError `NOT_FOUND` */
  async inputFile(caller: ArtifactCaller, uri: string): Promise<InputFile> {
    return toInputFile(uri, await this.find(caller, uri))
  }

  /** Returns a file that an agent wrote in a scope of the caller. @param file `version`: the latest if `undefined` */
  async agentFile(
    caller: ArtifactCaller,
    { scope, agentId }: AgentScope,
    { name, version }: { readonly name: string; readonly version: number | undefined },
  ): Promise<InputFile | undefined> {
    if (!(await this.scopes.mayRead(caller, scope))) return undefined
    const address = { scope, name: artifactNameFrom(name), version }
    const found = await this.#find(address, agentId)
    return found && toInputFile(found.versionUri, found)
  }

  /** Returns the latest versions of all files that an agent wrote in a scope of the caller. */
  async agentFiles(
    caller: ArtifactCaller,
    { scope, agentId }: AgentScope,
  ): Promise<readonly StoredFile[]> {
    if (!(await this.scopes.mayRead(caller, scope))) return []
    const files: StoredFile[] = []
    for await (const row of listAll(this.#store.records, nameKey(scope, ''))) {
      const found = this.#inRow(scope, row, agentId)
      if (!found) continue
      const { versionUri: uri, name, version, mimeType, size, createdAt } = found
      files.push({ uri, name, version, mimeType, size, createdAt })
    }
    return files
  }

  /** Returns the normal form of a URI, without its version. `undefined`: the caller does not own it. */
  async followed(caller: ArtifactCaller, uri: string): Promise<string | undefined> {
    const { uriScheme } = this.#options
    const address = artifactAddressFrom(uri, uriScheme)
    if (!address || !(await this.scopes.mayRead(caller, address.scope))) return undefined
    const { scope, name } = address
    return artifactUriOf({ scope, name }, uriScheme)
  }

  /** Deletes some expired versions. A timer calls it. Returns whether none is left. */
  async sweep(limit: number = SWEEP_ROWS): Promise<boolean> {
    const { records } = this.#store
    let count = 0
    for (const { key, value } of await records.list(ENDS, { limit })) {
      if (Number(key.slice(ENDS.length).split('-')[0]) > this.#options.clock.now()) break
      count++
      const place = Place.safeParse(value).data
      const last = place && (await this.#remove(place, key))
      if (last) this.#changed(place, { list: last.list, isListChange: true, isUpdate: false })
      if (!place) await records.delete(key)
    }
    return count < limit
  }

  /** Waits for a running sweep. */
  async [Symbol.asyncDispose](): Promise<void> {
    await this.#sweeper.close()
  }

  /** Writes the bytes of the next version of a name, as long as the account has room for more. */
  async #writeBytes(
    { scope, name, account, blobId }: Place,
    bytes: AsyncIterable<Uint8Array>,
  ): Promise<WrittenBlob> {
    const { versions } = (await this.#stored(scope, name)) ?? { versions: [] }
    // These make room for the new version. The latest version never does.
    const spare = versions.slice(0, -1).slice(0, Math.max(0, versions.length + 1 - MAX_VERSIONS))
    const own = spare.filter((version) => version.account === account)
    return this.#store.blobs.write(
      blobId,
      this.#quotas.within(bytes, account, own),
      this.#options.maxBytes,
    )
  }

  /** Adds a version to its name. Returns the earlier version instead if the same run wrote the same bytes before. */
  async #add({ scope, owner }: OwnedScope, name: string, version: NewVersion): Promise<Artifact> {
    const { records } = this.#store
    const { blobId, createdAt, expiresAt } = version
    const ttlMs = expiresAt - this.#options.clock.now()
    const list = listKey(scope, owner)
    // The newest entry has the smallest key. The count orders files of this process with the same time.
    const [time, count] = [createdAt, ++this.#written].map((n) =>
      sortable(Number.MAX_SAFE_INTEGER - n),
    )
    const listedAs = `${listedPrefix(list)}${time}-${count}-${blobId}`
    await records.put(listedAs, { scope, name }, { ttlMs })
    const key = nameKey(scope, name)
    const { before, after, added, removed } = await this.#updates.update(key, (value) => {
      const found = StoredName.safeParse(value).data
      const last = liveFrom(value, this.#options.clock.now())?.versions.at(-1)
      if (found && last && isSameFile(last, version)) {
        return { result: { before: found, after: found, added: last, removed: [] } }
      }
      const own = { ...version, version: found?.next ?? 1 }
      const all = [...(found?.versions ?? []), own]
      const versions = all.slice(-MAX_VERSIONS)
      const put = { list, listedAs, next: own.version + 1, versions }
      const rest = all.slice(0, -versions.length)
      return { put, result: { before: found, after: put, added: own, removed: rest } }
    })
    const artifact = this.#toArtifact({ scope, name }, added)
    if (after === before) {
      await records.delete(listedAs)
      await this.#free({ scope, name, ...version }, endKey(expiresAt, blobId))
      return artifact
    }
    if (before) await records.delete(before.listedAs)
    for (const old of removed) {
      await this.#free({ scope, name, ...old }, endKey(old.expiresAt, old.blobId))
    }
    await this.#quotas.take(version, ttlMs)
    this.#changed(artifact, { list, isListChange: before === undefined, isUpdate: true })
    return artifact
  }

  /** Removes a version from its name, and all that belongs to it. Returns the name if that was its last version. */
  async #remove(place: Place, end: string): Promise<StoredName | undefined> {
    const { scope, name, blobId } = place
    const key = nameKey(scope, name)
    const gone = await this.#updates.update<StoredName | undefined>(key, (value) => {
      const before = StoredName.safeParse(value).data
      const versions = before?.versions.filter((version) => version.blobId !== blobId) ?? []
      if (!before || versions.length === before.versions.length) return { result: undefined }
      if (versions.length > 0) return { put: { ...before, versions }, result: undefined }
      return { remove: true, result: before }
    })
    if (gone) await this.#store.records.delete(gone.listedAs)
    await this.#free(place, end)
    return gone
  }

  /** Frees the room and the bytes of a version that is in no name. @param end key of the record of its end */
  async #free(place: Place, end: string): Promise<void> {
    await this.#quotas.free(place)
    await this.#store.blobs.delete(place.blobId)
    await this.#store.records.delete(end)
  }

  #changed(address: ArtifactAddress, change: Omit<ArtifactChange, 'uri'>): void {
    const { scope, name } = address
    const uri = artifactUriOf({ scope, name }, this.#options.uriScheme)
    this.#options.onChange({ uri, ...change })
  }

  async #stored(scope: string, name: string): Promise<StoredName | undefined> {
    const found = await this.#store.records.get(nameKey(scope, name))
    return liveFrom(found?.value, this.#options.clock.now())
  }

  async #find(address: ArtifactAddress, agentId?: string): Promise<FoundArtifact | undefined> {
    const { scope, name } = address
    const found = await this.#store.records.get(nameKey(scope, name))
    return this.#foundIn(found?.value, address, agentId)
  }

  /** Returns the latest version in the record of a name that an agent wrote: this agent, if there is an id. */
  #foundIn(
    value: unknown,
    { scope, name, version: number }: ArtifactAddress,
    agentId: string | undefined,
  ): FoundArtifact | undefined {
    const stored = liveFrom(value, this.#options.clock.now())
    const version = stored?.versions.findLast(
      (each) =>
        (number === undefined || each.version === number) &&
        (agentId === undefined || each.agentId === agentId),
    )
    if (!stored || !version) return undefined
    const open = async (): Promise<AsyncIterable<Uint8Array>> => {
      const bytes = await this.#store.blobs.read(version.blobId)
      if (!bytes) throw notFound()
      return bytes
    }
    const artifact = this.#toArtifact({ scope, name }, version)
    return { ...artifact, listedAs: stored.listedAs, open }
  }

  /** Reads a row of the names in a scope. */
  #inRow(scope: string, { key, value }: ListedRecord, agentId?: string): FoundArtifact | undefined {
    const name = decodedName(key.slice(nameKey(scope, '').length))
    return name === undefined ? undefined : this.#foundIn(value, { scope, name }, agentId)
  }

  #toArtifact({ scope, name }: ArtifactAddress, found: StoredVersion): Artifact {
    const { version, mimeType, size, sha256, runId, createdAt, expiresAt } = found
    const { uriScheme } = this.#options
    const uri = artifactUriOf({ scope, name }, uriScheme)
    const versionUri = artifactUriOf({ scope, name, version }, uriScheme)
    const facts = { mimeType, size, sha256, runId, createdAt, expiresAt }
    return { uri, versionUri, scope, name, version, ...facts }
  }
}

/** Larger artifacts are read whole one after the other: each needs several times its size until it is written. */
const SMALL_READ_BYTES = 262_144

/** Longest pause between two large reads, in milliseconds: a slow store must not double the time of each read. */
const MAX_PAUSE_MS = 250

/**
 * Does one read at a time, and pauses after it for as long as it took. So large reads use half of the event loop at most.
 * A fixed number of turns would not be enough: Node accepts one connection in a turn, and hundreds may wait.
 */
class LargeReads {
  #last: Promise<unknown> = Promise.resolve()

  run<T>(work: () => Promise<T>): Promise<T> {
    let startedAt = 0
    const pause = async (): Promise<void> => {
      await setImmediate() // until the result is encoded, too
      await setTimeout(Math.min(performance.now() - startedAt, MAX_PAUSE_MS), undefined, {
        ref: false,
      })
    }
    const done = this.#last.then(() => {
      startedAt = performance.now()
      return work()
    })
    this.#last = done.then(pause, pause)
    return done
  }
}

function toInputFile(uri: string, { name, mimeType, size, open }: FoundArtifact): InputFile {
  return {
    uri,
    name: fileNameFrom(name), // agents save files by it
    mimeType,
    size,
    async *read(signal) {
      signal?.throwIfAborted()
      for await (const chunk of await open()) {
        signal?.throwIfAborted()
        yield chunk
      }
    },
  }
}

/** An agent, and the scope in which its files are. */
export interface AgentScope {
  readonly scope: string
  readonly agentId: string
}

function notFound(): GatewayError {
  return new GatewayError('NOT_FOUND', 'Artifact not found')
}

/** One version of a file, with the facts that its owner may see. */
export interface Artifact extends StoredFile {
  /** URI of the latest version. */
  readonly uri: string
  /** URI of this version. */
  readonly versionUri: string
  readonly scope: string
  /** hex */
  readonly sha256: string
  /** Run that wrote it. `undefined` for an upload. */
  readonly runId: string | undefined
  /** Milliseconds since 1970. */
  readonly expiresAt: number
}

export interface FoundArtifact extends Artifact {
  /** Key of its name in the list. */
  readonly listedAs: string
  /** Returns its bytes. No file is opened before they are read. @throws GatewayError `NOT_FOUND` */
  readonly open: () => Promise<AsyncIterable<Uint8Array>>
}

/** A file to store, as a new name or as the next version of a name. */
export interface NewArtifact {
  /** May be any text: the name in the URI is made from it. */
  readonly name: string
  /** Corrected if the bytes contradict it. @default the type of the name, else of the bytes */
  readonly mimeType?: string | undefined
  readonly bytes: AsyncIterable<Uint8Array>
  readonly runId?: string | undefined
  /** Agent that writes it. */
  readonly agentId?: string | undefined
  /** An existing scope of the caller. @default the caller's own scope, or a new one */
  readonly scope?: string | undefined
}

/** A change of an artifact, or of the list of artifacts. */
export interface ArtifactChange {
  /** URI without a version. */
  readonly uri: string
  /** Id of the list that has the artifact, as `listOf(caller)` returns it. */
  readonly list: string
  /** True if a name was added to the list or removed from it. */
  readonly isListChange: boolean
  /** True for a new version. */
  readonly isUpdate: boolean
}

/** Returns a name without its expired versions. `undefined`: all have expired. */
function liveFrom(value: unknown, now: number): StoredName | undefined {
  const stored = StoredName.safeParse(value).data
  const versions = stored?.versions.filter(({ expiresAt }) => expiresAt > now) ?? []
  return stored && versions.length > 0 ? { ...stored, versions } : undefined
}

function isSameFile(a: StoredVersion, b: NewVersion): boolean {
  return a.runId !== undefined && a.runId === b.runId && a.sha256 === b.sha256
}

/** Returns the key of a name. Names of a scope are in the order of their escaped form. */
function nameKey(scope: string, name: string): string {
  return `artifacts/name/${scope}/${encodedName(name)}`
}

function listedPrefix(list: string): string {
  return `artifacts/listed/${list}/`
}

const ENDS = 'artifacts/ends/'

/** Returns the key of the end of a version. The first one to expire has the smallest key. */
function endKey(expiresAt: number, blobId: string): string {
  return `${ENDS}${sortable(expiresAt)}-${blobId}`
}

/** Returns a text for a number, so that texts sort as the numbers do. */
function sortable(number: number): string {
  return String(Math.floor(number)).padStart(16, '0')
}

/** An entry of a list. */
const ListedName = z.object({ scope: z.string(), name: z.string() })

const StoredVersion = z.object({
  version: z.int(),
  /** Id under which its bytes are stored. */
  blobId: z.string(),
  sha256: z.string(),
  size: z.int(),
  mimeType: z.string(),
  account: z.string(),
  runId: z.string().optional(),
  /** The agent that wrote it. */
  agentId: z.string().optional(),
  createdAt: z.number(),
  expiresAt: z.number(),
})

/** A name as one record, so that versions are added and removed in one step. */
const StoredName = z.object({
  /** Id of its list. */
  list: z.string(),
  next: z.int(),
  /** Key of its entry in the list. */
  listedAs: z.string(),
  /** Oldest first. */
  versions: z.array(StoredVersion),
})

/** Everything that is needed to remove a version. */
const Place = StoredVersion.pick({ blobId: true, account: true }).extend(ListedName.shape)

type StoredVersion = Readonly<z.infer<typeof StoredVersion>>
type NewVersion = Omit<StoredVersion, 'version'>
type StoredName = Readonly<z.infer<typeof StoredName>>
type Place = Readonly<z.infer<typeof Place>>

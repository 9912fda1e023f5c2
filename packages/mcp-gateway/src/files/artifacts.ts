import { setImmediate, setTimeout } from 'node:timers/promises'
import { GatewayError } from '../errors.ts'
import {
  ArtifactIndex,
  listedPrefix,
  liveFrom,
  nameKey,
  storedPlaceFrom,
} from './artifact-index.ts'
import type {
  AddedVersion,
  Addition,
  IndexChange,
  NewVersion,
  StoredName,
  StoredVersion,
} from './artifact-index.ts'
import { fileTypeOf, mediaTypeFrom, namedTypeOf } from './media-types.ts'
import { ArtifactScopes, accountOf, listKey, principalKey, sessionListKey } from './namespaces.ts'
import type { ArtifactCaller } from './namespaces.ts'
import { ArtifactUsage, AtomicUpdates, BlobHolds } from './quotas.ts'
import type { ArtifactQuota, Usage } from './quotas.ts'
import type { InputFile, StoredFile } from './result-files.ts'
import {
  artifactAddressFrom,
  artifactNameFrom,
  artifactTitleFrom,
  artifactUriOf,
  decodedName,
  fileNameFrom,
  isArtifactName,
} from './uri.ts'
import type { ArtifactAddress } from './uri.ts'
import { systemClock } from '../internal/clock.ts'
import type { Clock } from '../internal/clock.ts'
import { randomId } from '../internal/random-hex.ts'
import { SignedCursors } from '../internal/signed-cursor.ts'
import { Sweeper } from '../internal/sweeper.ts'
import { listAll } from '../store/gateway-store.ts'
import type { ByteRange, GatewayStore } from '../store/gateway-store.ts'

export interface ArtifactsOptions {
  readonly store: GatewayStore
  /** Key that signs cursors. The same in every process. */
  readonly key: Uint8Array | string
  /** Scheme of the URIs. @default 'artifact' */
  readonly uriScheme?: string | undefined
  /** Time for which a version is kept. Milliseconds. @default 86_400_000 */
  readonly ttlMs?: number | undefined
  /** Maximum size of one file. Bytes. @default 104_857_600 */
  readonly maxBytes?: number | undefined
  /** Size up to which `read` reads a file into memory. Bytes. @default 8_388_608 */
  readonly readMaxBytes?: number | undefined
  /** Limits of one owner. @default 1 GiB and 1000 versions */
  readonly quota?: Partial<ArtifactQuota> | undefined
  /** Number of versions of one name. Older versions are deleted. @default 20 */
  readonly versionsPerName?: number | undefined
  /** Interval at which expired versions are deleted. Milliseconds. @default 10_000 */
  readonly sweepMs?: number | undefined
  /** @default the clock of the system */
  readonly clock?: Clock | undefined
  /** Called with the error of a sweep. The next sweep tries again. @default the error is ignored */
  readonly onError?: ((error: unknown) => void) | undefined
}

/** Maximum number of rows that one sweep deletes. */
const SWEEP_ROWS = 100

/** Named files with versions. Each belongs to the principal, the session or the scope for which it was written. */
export class Artifacts implements AsyncDisposable {
  /** Size up to which `read` returns the bytes of a file. */
  readonly readMaxBytes: number
  /** Maximum size of one file. Bytes. */
  readonly maxBytes: number
  readonly #store: GatewayStore
  readonly #scheme: string
  readonly #clock: Clock
  readonly #cursors: SignedCursors
  readonly #scopes: ArtifactScopes
  readonly #index: ArtifactIndex
  readonly #intake: ArtifactIntake
  readonly #changeListeners: ((change: ArtifactChange) => void)[] = []
  readonly #sweeper: Sweeper
  readonly #reads = new Turnstile()

  constructor(options: ArtifactsOptions) {
    const {
      store,
      key,
      uriScheme = 'artifact',
      ttlMs = 86_400_000,
      maxBytes = 104_857_600,
    } = options
    const { readMaxBytes = 8_388_608, versionsPerName = 20, clock = systemClock } = options
    const { sweepMs: everyMs = 10_000, onError } = options
    const { bytesPerPrincipal = 1_073_741_824, countPerPrincipal = 1000 } = options.quota ?? {}
    this.readMaxBytes = readMaxBytes
    this.maxBytes = maxBytes
    this.#store = store
    this.#scheme = uriScheme
    this.#clock = clock
    this.#cursors = new SignedCursors(key)
    const updates = new AtomicUpdates(store.records)
    this.#scopes = new ArtifactScopes(store.records, ttlMs)
    const quota = { bytesPerPrincipal, countPerPrincipal }
    const usage = new ArtifactUsage(store.records, updates, quota)
    const holds = new BlobHolds(store, updates)
    this.#index = new ArtifactIndex({ store, updates, holds, usage, clock, versionsPerName })
    this.#intake = new ArtifactIntake({
      store,
      scopes: this.#scopes,
      usage,
      index: this.#index,
      clock,
      ttlMs,
      maxBytes,
      versionsPerName,
    })
    this.#sweeper = new Sweeper({ clock, everyMs, sweep: () => this.#sweepAll(), onError })
  }

  /** Returns `artifact://{scope}/{name}{?version}` (RFC 6570). */
  get uriTemplate(): string {
    return `${this.#scheme}://{scope}/{name}{?version}`
  }

  /**
   * Stores a version and notifies its subscribers. Keeps nothing of a write that fails.
   *
   * @throws GatewayError `LIMIT`, `QUOTA`; `NOT_FOUND` for a scope that the caller does not own; the error of the bytes
   */
  async write(caller: ArtifactCaller, file: NewArtifact): Promise<Artifact> {
    const { scope, name, stored, change } = await this.#intake.take(caller, file)
    if (change) this.#changed(change)
    const version = stored.versions.at(-1)
    if (!version) throw notFound()
    return this.#shown(scope, name, { stored, version })
  }

  /**
   * Returns the facts about an artifact of the caller.
   *
   * @throws GatewayError `NOT_FOUND`, with the same message for an invalid URI, for an artifact of another owner, and for
   *   one that does not exist or has expired
   */
  async find(caller: ArtifactCaller, uri: string): Promise<Artifact> {
    return (await this.#found(caller, uri)).artifact
  }

  /** Streams an artifact of the caller. @throws GatewayError `NOT_FOUND` */
  async open(caller: ArtifactCaller, uri: string, range?: ByteRange): Promise<OpenArtifact> {
    return this.#opened(await this.#found(caller, uri), range)
  }

  /** Streams an artifact for a client with a valid download link. @throws GatewayError `NOT_FOUND` */
  async openLinked(address: ArtifactAddress, range?: ByteRange): Promise<OpenArtifact> {
    return this.#opened(await this.#at(address), range)
  }

  /**
   * Returns all bytes of an artifact, or no bytes if there are more than `readMaxBytes`.
   *
   * @param check called right before the bytes are read, which may be after a wait. Throws if they are not needed any more
   * @throws GatewayError `NOT_FOUND`, and the error of `check`
   */
  async read(caller: ArtifactCaller, uri: string, check?: () => void): Promise<ReadArtifact> {
    const found = await this.#found(caller, uri)
    const { artifact } = found
    if (artifact.size > this.readMaxBytes) return { artifact, bytes: undefined }
    const whole = async (): Promise<Buffer> => {
      check?.()
      return this.#whole(found)
    }
    const isSmall = artifact.size <= SMALL_READ_BYTES
    return { artifact, bytes: await (isSmall ? whole() : this.#reads.run(whole)) }
  }

  async #whole(found: FoundArtifact): Promise<Buffer> {
    const chunks: Uint8Array[] = []
    for await (const chunk of (await this.#opened(found)).bytes) chunks.push(chunk)
    return Buffer.concat(chunks)
  }

  /**
   * Returns the latest version of each name of the caller, newest first. A caller without a name and without a session has
   * none.
   *
   * @throws GatewayError `NOT_FOUND` for a cursor of another list
   */
  async list(caller: ArtifactCaller, options: ListArtifactsOptions = {}): Promise<ArtifactPage> {
    const { cursor, limit = 100 } = options
    const list = this.listOf(caller)
    if (list === undefined) return { artifacts: [] }
    const prefix = listedPrefix(list)
    let after: string | undefined
    if (cursor !== undefined) {
      const opened = this.#cursors.open(prefix, cursor)
      if (opened === undefined) throw new GatewayError('NOT_FOUND', 'Not a cursor of this list')
      after = opened
    }
    const artifacts: Artifact[] = []
    for (;;) {
      const rows = await this.#store.records.list(prefix, { after, limit })
      for (const { key, value } of rows) {
        after = key
        const artifact = await this.#listed(key, value)
        if (artifact) artifacts.push(artifact)
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
    if (!isArtifactName(`${begun}a`) || !(await this.#scopes.mayRead(caller, scope))) return []
    const prefix = nameKey(scope, '')
    const rows = await this.#store.records.list(nameKey(scope, begun), { limit })
    const live = rows.filter(({ value }) => liveFrom(value, this.#clock.now()))
    return live.flatMap(({ key }) => decodedName(key.slice(prefix.length)) ?? [])
  }

  /** Returns a file for an agent, by a URI that the caller gave. @throws GatewayError `NOT_FOUND` */
  async inputFile(caller: ArtifactCaller, uri: string): Promise<InputFile> {
    return this.#toInputFile(uri, await this.#found(caller, uri))
  }

  /** Returns a file that an agent wrote in a scope of the caller. */
  async agentFile(
    caller: ArtifactCaller,
    { scope, agentId }: AgentScope,
    { name, version }: { readonly name: string; readonly version: number | undefined },
  ): Promise<InputFile | undefined> {
    if (!(await this.#scopes.mayRead(caller, scope))) return undefined
    const safeName = artifactNameFrom(name)
    const stored = await this.#index.find(scope, safeName)
    const found = stored?.versions.findLast(
      (one) => one.agentId === agentId && (version === undefined || one.version === version),
    )
    if (!stored || !found) return undefined
    const artifact = this.#shown(scope, safeName, { stored, version: found })
    return this.#toInputFile(artifact.versionUri, { artifact, blob: found.blob })
  }

  /** Returns the latest versions of all files that an agent wrote in a scope of the caller. */
  async agentFiles(
    caller: ArtifactCaller,
    { scope, agentId }: AgentScope,
  ): Promise<readonly StoredFile[]> {
    if (!(await this.#scopes.mayRead(caller, scope))) return []
    const prefix = nameKey(scope, '')
    const files: StoredFile[] = []
    for await (const { key, value } of listAll(this.#store.records, prefix)) {
      const stored = liveFrom(value, this.#clock.now())
      const found = stored?.versions.findLast((one) => one.agentId === agentId)
      const name = decodedName(key.slice(prefix.length))
      if (!stored || !found || name === undefined) continue
      const artifact = this.#shown(scope, name, { stored, version: found })
      const { versionUri: uri, version, mimeType, size, createdAt } = artifact
      files.push({ uri, name, version, mimeType, size, createdAt })
    }
    return files
  }

  #toInputFile(uri: string, { artifact, blob }: FoundArtifact): InputFile {
    const { blobs } = this.#store
    return {
      uri,
      name: fileNameFrom(artifact.title), // agents save files by it
      mimeType: artifact.mimeType,
      size: artifact.size,
      async *read(signal) {
        signal?.throwIfAborted()
        const bytes = await blobs.read(blob)
        if (!bytes) throw notFound()
        for await (const chunk of bytes) {
          signal?.throwIfAborted()
          yield chunk
        }
      },
    }
  }

  /** Returns the normal form of a URI, without its version. `undefined`: the caller does not own it. */
  async followed(caller: ArtifactCaller, uri: string): Promise<string | undefined> {
    const address = artifactAddressFrom(uri, this.#scheme)
    if (!address || !(await this.#scopes.mayRead(caller, address.scope))) return undefined
    const { scope, name } = address
    return artifactUriOf({ scope, name }, this.#scheme)
  }

  /** Returns the scope in which files of the caller are stored by default. `undefined`: there is none yet, or each run gets a new one. */
  ownScope(caller: ArtifactCaller): Promise<string | undefined> {
    return this.#scopes.own(caller)
  }

  /** Returns the scope in which a file of the caller is stored by default. Makes one if there is none. */
  async scopeForWriting(caller: ArtifactCaller): Promise<string> {
    return (await this.#scopes.forWriting(caller, undefined)).scope
  }

  /** Returns the caller that owns a scope. `undefined`: there is no such scope. */
  ownerOf(scope: string): Promise<ArtifactCaller | undefined> {
    return this.#scopes.ownerOf(scope)
  }

  /** Returns the id of the list that a caller reads: that of its principal or of its session. */
  listOf({ principal, scope }: ArtifactCaller): string | undefined {
    if (!principal.isAnonymous) return principalKey(principal)
    return scope === undefined ? undefined : sessionListKey(scope)
  }

  /**
   * Adds a listener for changes that this process makes. They are stored already.
   */
  onChange(listener: (change: ArtifactChange) => void): void {
    this.#changeListeners.push(listener)
  }

  /** Deletes some expired versions. A timer calls it. Returns whether none is left. */
  async sweep(limit: number = SWEEP_ROWS): Promise<boolean> {
    const { changes, isAll } = await this.#index.sweep(limit)
    for (const change of changes) this.#changed(change)
    return isAll
  }

  /** Waits for a running sweep. */
  async close(): Promise<void> {
    await this.#sweeper.close()
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close()
  }

  #changed({ scope, name, list, version, isNewName }: IndexChange): void {
    const isUpdate = version !== undefined
    const uri = artifactUriOf({ scope, name }, this.#scheme)
    const change = { uri, scope, list, isUpdate, isListChange: isNewName || !isUpdate }
    for (const listener of this.#changeListeners) listener(change)
  }

  async #sweepAll(): Promise<void> {
    // Lets other work run in between: a store in memory never waits.
    while (!this.#sweeper.isClosed && !(await this.sweep())) await setImmediate()
  }

  /** Checks the owner before the artifact. All failures have the same message, so callers learn nothing about other owners. */
  async #found(caller: ArtifactCaller, uri: string): Promise<FoundArtifact> {
    const address = artifactAddressFrom(uri, this.#scheme)
    if (!address || !(await this.#scopes.mayRead(caller, address.scope))) throw notFound()
    return this.#at(address)
  }

  async #at(address: ArtifactAddress): Promise<FoundArtifact> {
    const { scope, name } = address
    const stored = await this.#index.find(scope, name)
    const version =
      address.version === undefined
        ? stored?.versions.at(-1)
        : stored?.versions.find((one) => one.version === address.version)
    if (!stored || !version) throw notFound()
    return { artifact: this.#shown(scope, name, { stored, version }), blob: version.blob }
  }

  async #opened({ artifact, blob }: FoundArtifact, range?: ByteRange): Promise<OpenArtifact> {
    const bytes = await this.#store.blobs.read(blob, range)
    if (!bytes) throw notFound()
    return { artifact, bytes }
  }

  async #listed(key: string, value: unknown): Promise<Artifact | undefined> {
    const place = storedPlaceFrom(value)
    const stored = place && (await this.#index.find(place.scope, place.name))
    const version = stored?.versions.at(-1)
    // The newer version has its own entry, nearer to the front.
    if (!place || !stored || !version || stored.listedAs !== key) return undefined
    return this.#shown(place.scope, place.name, { stored, version })
  }

  #shown(
    scope: string,
    name: string,
    { stored, version: found }: { readonly stored: StoredName; readonly version: StoredVersion },
  ): Artifact {
    const { version, mimeType, size, sha256, runId, createdAt, expiresAt } = found
    const uri = artifactUriOf({ scope, name }, this.#scheme)
    const versionUri = artifactUriOf({ scope, name, version }, this.#scheme)
    const facts = { mimeType, size, sha256, runId, createdAt, expiresAt }
    return { uri, versionUri, scope, name, title: stored.title, version, ...facts }
  }
}

/** Larger artifacts are read whole one after the other: each needs several times its size until it is written. */
const SMALL_READ_BYTES = 262_144

/** Longest pause between two large reads, in milliseconds: a slow store must not double the time of each read. */
const MAX_PAUSE_MS = 250

/**
 * Does one thing at a time, and pauses after it for as long as it took: large reads use half of the event loop at most.
 * A number of turns would not do: Node accepts one connection in a turn, and hundreds may wait.
 */
class Turnstile {
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

interface FoundArtifact {
  readonly artifact: Artifact
  readonly blob: string
}

/** An agent, and the scope in which its files are. */
export interface AgentScope {
  readonly scope: string
  readonly agentId: string
}

export interface OpenArtifact {
  readonly artifact: Artifact
  readonly bytes: AsyncIterable<Uint8Array>
}

export interface ReadArtifact {
  readonly artifact: Artifact
  /** `undefined`: the file is too large to be read, but can be downloaded. */
  readonly bytes: Uint8Array | undefined
}

export interface ListArtifactsOptions {
  readonly cursor?: string | undefined
  /** @default 100 */
  readonly limit?: number | undefined
}

export interface ArtifactPage {
  readonly artifacts: readonly Artifact[]
  readonly nextCursor?: string | undefined
}

function notFound(): GatewayError {
  return new GatewayError('NOT_FOUND', 'Artifact not found')
}

/** One version of a file, with the facts that its owner may see. */
export interface Artifact {
  /** URI of the latest version. */
  readonly uri: string
  /** URI of this version. */
  readonly versionUri: string
  readonly scope: string
  readonly name: string
  /** Name that the agent or the client gave, in one line. */
  readonly title: string
  readonly version: number
  readonly mimeType: string
  /** bytes */
  readonly size: number
  /** hex */
  readonly sha256: string
  /** Run that wrote it. `undefined` for an upload. */
  readonly runId?: string | undefined
  /** Milliseconds since 1970. */
  readonly createdAt: number
  readonly expiresAt: number
}

/** A file to store, as a new name or as the next version of a name. */
export interface NewArtifact {
  /** May be any text: the name in the URI is made from it. */
  readonly name: string
  /** Corrected if the bytes contradict it. @default the type of the name, else of the bytes */
  readonly mimeType?: string | undefined
  readonly bytes: AsyncIterable<Uint8Array>
  /** Maximum size of this file. Bytes. @default the limit of all files, which it cannot exceed */
  readonly maxBytes?: number | undefined
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
  readonly scope: string
  /** Id of the list that has the artifact, as `Artifacts.listOf(caller)` returns it. */
  readonly list: string
  /** Whether the list has one more or one less entry. */
  readonly isListChange: boolean
  /** Whether there is a new version. */
  readonly isUpdate: boolean
}

export interface ArtifactIntakeOptions {
  readonly store: GatewayStore
  readonly scopes: ArtifactScopes
  readonly usage: ArtifactUsage
  readonly index: ArtifactIndex
  readonly clock: Clock
  readonly ttlMs: number
  /** Maximum size of one file. Bytes. */
  readonly maxBytes: number
  readonly versionsPerName: number
}

/** A version that was stored. */
export interface TakenVersion {
  readonly scope: string
  readonly name: string
  /** All versions of the name. The new version is the last one. */
  readonly stored: StoredName
  /** `undefined`: the same version existed already. */
  readonly change: IndexChange | undefined
}

/** Stores new versions: first the bytes, then the entry in the index, then the usage of the account. */
export class ArtifactIntake {
  readonly #options: ArtifactIntakeOptions

  constructor(options: ArtifactIntakeOptions) {
    this.#options = options
  }

  /**
   * Keeps nothing of a version that fails.
   *
   * @throws GatewayError `LIMIT`, `QUOTA`; `NOT_FOUND` for a scope that the caller does not own; the error of the bytes
   */
  async take(caller: ArtifactCaller, file: NewArtifact): Promise<TakenVersion> {
    const { scopes, usage, store, clock, ttlMs, maxBytes } = this.#options
    const { scope, owner } = await scopes.forWriting(caller, file.scope)
    const name = artifactNameFrom(file.name)
    const account = accountOf(caller)
    const spare = await this.#spareOf(scope, name, account)
    const head = new HeldBytes(0)
    const bytes = head.through(usage.within(account, file.bytes, spare))
    const written = await store.blobs.write(bytes, Math.min(file.maxBytes ?? maxBytes, maxBytes))
    const { id: blob, sha256, size } = written
    const createdAt = clock.now()
    const declared = mediaTypeFrom(file.mimeType) ?? namedTypeOf(name)
    const { mimeType } = fileTypeOf(declared, head.head)
    const { runId, agentId } = file
    const principal = caller.principal.id
    const facts = { size, mimeType, account, principal, createdAt, runId, agentId }
    const version = { ...facts, hold: randomId(), blob, sha256, expiresAt: createdAt + ttlMs }
    const list = listKey(scope, owner)
    const added = await this.#added({
      scope,
      name,
      title: artifactTitleFrom(file.name),
      list,
      version,
    })
    return { scope, name, stored: added.name, change: added.change }
  }

  /** Returns what the versions use that would be deleted to make room for one more. */
  async #spareOf(scope: string, name: string, account: string): Promise<Usage> {
    const { index, versionsPerName } = this.#options
    const versions = (await index.find(scope, name))?.versions ?? []
    const excess = Math.max(0, versions.length - (versionsPerName - 1))
    const going = excess === versions.length ? [] : versions.slice(0, excess)
    const own = going.filter((version) => version.account === account)
    return { bytes: own.reduce((sum, { size }) => sum + size, 0), count: own.length }
  }

  async #added(file: NewVersion): Promise<AddedVersion> {
    const { index, store } = this.#options
    const { scope, name, version } = file
    let addition: Addition | undefined
    try {
      addition = await index.begin(file)
      await this.#count(version.account, version.size, () => index.makeRoom(scope, name))
    } catch (error) {
      // The first error says more.
      if (addition) await index.abandon(addition).catch(() => {})
      else await store.blobs.delete(version.blob).catch(() => {})
      throw error
    }
    return index.add(addition)
  }

  async #count(account: string, size: number, makeRoom: () => Promise<void>): Promise<void> {
    const { usage } = this.#options
    try {
      await usage.add(account, size)
    } catch (error) {
      if (!GatewayError.is(error) || error.code !== 'QUOTA') throw error
      await makeRoom()
      await usage.add(account, size)
    }
  }
}

/** Bytes kept of every file, for the preview of one that is too large: 2,000 characters of up to four bytes. */
const HEAD_BYTES = 8000

/** Passes a file on, and keeps its bytes for the result if there are at most `maxBytes`, else only its beginning. */
export class HeldBytes {
  readonly #maxBytes: number
  #chunks: Uint8Array[] = []
  #held = 0
  #size = 0

  constructor(maxBytes: number) {
    this.#maxBytes = maxBytes
  }

  /** All bytes. `undefined` if there are more than `maxBytes`. */
  get all(): Uint8Array | undefined {
    return this.#size <= this.#maxBytes ? Buffer.concat(this.#chunks) : undefined
  }

  /** The first bytes, at most 8,000. */
  get head(): Uint8Array {
    return Buffer.concat(this.#chunks).subarray(0, HEAD_BYTES)
  }

  async *through(bytes: AsyncIterable<Uint8Array>): AsyncGenerator<Uint8Array> {
    for await (const chunk of bytes) {
      this.#take(chunk)
      yield chunk
    }
  }

  #take(chunk: Uint8Array): void {
    this.#size += chunk.byteLength
    const limit = this.#size <= this.#maxBytes ? this.#maxBytes : HEAD_BYTES
    const room = limit - this.#held
    if (room > 0) {
      // A copy, because the owner of the chunk may use its memory again.
      const kept = Uint8Array.prototype.slice.call(chunk, 0, room)
      this.#chunks.push(kept)
      this.#held += kept.byteLength
    } else if (room < 0) {
      this.#chunks = [Uint8Array.prototype.slice.call(Buffer.concat(this.#chunks), 0, limit)]
      this.#held = limit
    }
  }
}

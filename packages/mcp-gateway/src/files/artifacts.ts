import { setImmediate, setTimeout } from 'node:timers/promises'
import { z } from 'zod'
import { GatewayError } from '../errors.ts'
import { ArtifactIndex, listedPrefix, liveFrom, nameKey } from './artifact-index.ts'
import type { IndexChange, StoredName, StoredVersion } from './artifact-index.ts'
import { HeldBytes } from './blocks.ts'
import { fileTypeOf, mediaTypeFrom, namedTypeOf } from './media-types.ts'
import { ArtifactScopes, accountOf, listKey, principalKey, sessionListKey } from './namespaces.ts'
import type { ArtifactCaller } from './namespaces.ts'
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
import type { Clock } from '../internal/clock.ts'
import { SignedCursors } from '../internal/signing.ts'
import { Sweeper } from '../internal/timers.ts'
import type { ArtifactSettings } from '../options.ts'
import { listAll } from '../store/gateway-store.ts'
import type { ByteRange, GatewayStore } from '../store/gateway-store.ts'

export interface ArtifactsOptions extends Pick<
  ArtifactSettings,
  'uriScheme' | 'ttlMs' | 'maxBytes' | 'readMaxBytes' | 'quota'
> {
  readonly store: GatewayStore
  /** Key that signs cursors. The same in every process. */
  readonly key: Uint8Array | string
  readonly clock: Clock
  /** Called with the error of a sweep. The next sweep tries again. */
  readonly onError: (error: unknown) => void
}

/** Interval at which expired versions are deleted. Milliseconds. */
const SWEEP_MS = 10_000

/** Maximum number of rows that one sweep deletes. */
const SWEEP_ROWS = 100

/** Named files with versions. Each belongs to the principal, the session or the scope for which it was written. */
export class Artifacts implements AsyncDisposable {
  /** Maximum size of one file. Bytes. */
  readonly maxBytes: number
  readonly #options: ArtifactsOptions
  readonly #store: GatewayStore
  readonly #cursors: SignedCursors
  readonly #scopes: ArtifactScopes
  readonly #index: ArtifactIndex
  readonly #changeListeners: ((change: ArtifactChange) => void)[] = []
  readonly #sweeper: Sweeper
  readonly #reads = new LargeReads()

  constructor(options: ArtifactsOptions) {
    const { store, key, ttlMs, quota, clock, onError } = options
    this.maxBytes = options.maxBytes
    this.#options = options
    this.#store = store
    this.#cursors = new SignedCursors(key)
    this.#scopes = new ArtifactScopes(store.records, ttlMs)
    this.#index = new ArtifactIndex(store, clock, quota)
    const sweep = (): Promise<void> => this.#sweepAll()
    this.#sweeper = new Sweeper({ clock, everyMs: SWEEP_MS, sweep, onError })
  }

  /** Returns `artifact://{scope}/{name}{?version}` (RFC 6570). */
  get uriTemplate(): string {
    return `${this.#options.uriScheme}://{scope}/{name}{?version}`
  }

  /**
   * Stores a version and notifies its subscribers. Keeps nothing of a write that fails.
   *
   * @throws GatewayError `LIMIT`, `QUOTA`; `NOT_FOUND` for a scope that the caller does not own; the error of the bytes
   */
  async write(caller: ArtifactCaller, file: NewArtifact): Promise<Artifact> {
    const { clock, ttlMs } = this.#options
    const { scope, owner } = await this.#scopes.forWriting(caller, file.scope)
    const name = artifactNameFrom(file.name)
    const account = accountOf(caller)
    const head = new HeldBytes(() => 0)
    const bytes = head.through(file.bytes)
    const limit = Math.min(file.maxBytes ?? Infinity, this.maxBytes)
    const at = { scope, name, account }
    const { hold, sha256, size, journal } = await this.#index.store(at, bytes, limit)
    const declared = mediaTypeFrom(file.mimeType) ?? namedTypeOf(name)
    const { mimeType } = fileTypeOf(declared, head.head)
    const { runId, agentId } = file
    const createdAt = clock.now()
    const times = { createdAt, expiresAt: createdAt + ttlMs }
    const facts = { size, mimeType, account, principal: caller.principal.id, runId, agentId }
    const version = { ...facts, ...times, hold, sha256 }
    const title = artifactTitleFrom(file.name)
    const list = listKey(scope, owner)
    const { name: stored, change } = await this.#index.add({
      scope,
      name,
      title,
      list,
      version,
      journal,
    })
    if (change) this.#changed(change)
    const added = stored.versions.at(-1)
    if (!added) throw notFound()
    return this.#shown(scope, name, { stored, version: added })
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
    if (artifact.size > this.#options.readMaxBytes) return { artifact, bytes: undefined }
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
      if (opened === undefined)
        throw new GatewayError('NOT_FOUND', 'The cursor is not valid for this list')
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
    const live = rows.filter(({ value }) => liveFrom(value, this.#options.clock.now()))
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
      const stored = liveFrom(value, this.#options.clock.now())
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
    const address = artifactAddressFrom(uri, this.#options.uriScheme)
    if (!address || !(await this.#scopes.mayRead(caller, address.scope))) return undefined
    const { scope, name } = address
    return artifactUriOf({ scope, name }, this.#options.uriScheme)
  }

  /** Returns the scope in which files of the caller are stored by default. `undefined`: there is none yet, or each run gets a new one. */
  ownScope(caller: ArtifactCaller): Promise<string | undefined> {
    return this.#scopes.own(caller)
  }

  /** Returns the scope in which a file of the caller is stored by default. Makes one if there is none. */
  async scopeForWriting(caller: ArtifactCaller): Promise<string> {
    return (await this.#scopes.forWriting(caller, undefined)).scope
  }

  /** Returns the caller that owns a scope. `undefined` for an unknown scope. */
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
    const uri = artifactUriOf({ scope, name }, this.#options.uriScheme)
    const change = { uri, list, isUpdate, isListChange: isNewName || !isUpdate }
    for (const listener of this.#changeListeners) listener(change)
  }

  async #sweepAll(): Promise<void> {
    // Lets other work run in between: a store in memory never waits.
    while (!this.#sweeper.isClosed && !(await this.sweep())) await setImmediate()
  }

  /** Checks the owner before the artifact. All failures have the same message, so callers learn nothing about other owners. */
  async #found(caller: ArtifactCaller, uri: string): Promise<FoundArtifact> {
    const address = artifactAddressFrom(uri, this.#options.uriScheme)
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
    const { scope, name } = ListedName.safeParse(value).data ?? {}
    if (scope === undefined || name === undefined) return undefined
    const stored = await this.#index.find(scope, name)
    const version = stored?.versions.at(-1)
    // A newer version has its own entry, nearer to the front.
    if (!stored || !version || stored.listedAs !== key) return undefined
    return this.#shown(scope, name, { stored, version })
  }

  #shown(
    scope: string,
    name: string,
    { stored, version: found }: { readonly stored: StoredName; readonly version: StoredVersion },
  ): Artifact {
    const { version, mimeType, size, sha256, runId, createdAt, expiresAt } = found
    const uri = artifactUriOf({ scope, name }, this.#options.uriScheme)
    const versionUri = artifactUriOf({ scope, name, version }, this.#options.uriScheme)
    const facts = { mimeType, size, sha256, runId, createdAt, expiresAt }
    return { uri, versionUri, scope, name, title: stored.title, version, ...facts }
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

/** An entry of a list. */
const ListedName = z.object({ scope: z.string(), name: z.string() })

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
  /** Id of the list that has the artifact, as `Artifacts.listOf(caller)` returns it. */
  readonly list: string
  /** True if a name was added to the list or removed from it. */
  readonly isListChange: boolean
  /** True for a new version. */
  readonly isUpdate: boolean
}

import { setImmediate, setTimeout } from 'node:timers/promises'
import { GatewayError } from '../errors.ts'
import type { Clock } from '../internal/clock.ts'
import { ownerOf, type Caller } from '../internal/principal.ts'
import { SignedCursors } from '../internal/signing.ts'
import type { ArtifactSettings } from '../options.ts'
import type { GatewayStore } from '../store/gateway-store.ts'
import { HeldBytes } from './blocks.ts'
import { fileTypeOf, mediaTypeFrom, namedTypeOf } from './media-types.ts'
import { Scopes, type Scope } from './scopes.ts'
import { StoredNames } from './stored-names.ts'
import type { NewVersion, Place, StoredName, StoredVersion } from './stored-names.ts'
import type { InputFile, StoredFile } from './result-files.ts'
import {
  artifactAddressFrom,
  artifactNameFrom,
  artifactUriOf,
  fileNameFrom,
  isArtifactName,
} from './uri.ts'
import type { ArtifactAddress } from './uri.ts'

export interface ArtifactsOptions extends Pick<ArtifactSettings, 'maxBytes' | 'quota'> {
  /** Time for which a version is kept. */
  readonly ttlMs: number
  /** Size up to which `resources/read` answers. A larger file is downloaded. */
  readonly readMaxBytes: number
  readonly store: GatewayStore
  /** Key that signs cursors. The same in every process. */
  readonly key: Uint8Array | string
  readonly clock: Clock
  /** Called for each version that this process stores. */
  readonly onChange: (change: ArtifactChange) => void
}

/** Size up to which `resources/read` answers: the base64 of it is a message that clients still accept. */
export const READ_MAX_BYTES = 8_388_608

/** Most versions of one name. A further one replaces the oldest. */
const MAX_VERSIONS = 20

/** Most versions of all files of one account. */
const MAX_STORED = 1000

/**
 * Named files with versions, in scopes. The bytes of a version, and the record of its name, have a time to live: the store
 * removes them. A version exists once its name has it, so nothing is left of a writer that was killed.
 */
export class Artifacts {
  readonly scopes: Scopes
  readonly #options: ArtifactsOptions
  readonly #store: GatewayStore
  readonly #names: StoredNames
  readonly #cursors: SignedCursors
  /** Bytes of each account that this process is storing. */
  readonly #arriving = new Map<string, number>()
  readonly #reads = new LargeReads()

  constructor(options: ArtifactsOptions) {
    const { store, key, ttlMs, clock } = options
    this.scopes = new Scopes(store.records, ttlMs)
    this.#options = options
    this.#store = store
    this.#names = new StoredNames(store.records, clock)
    this.#cursors = new SignedCursors(key)
  }

  /**
   * Stores a version and reports the change. A refused write keeps nothing. The bytes of a write that failed because the
   * store was away may be in its record: they end with their time to live.
   *
   * @throws GatewayError `LIMIT`, `QUOTA`; `NOT_FOUND` for a scope that the caller does not own; the error of the bytes
   */
  async write(caller: Caller, file: NewArtifact): Promise<Artifact> {
    const { clock, maxBytes: limit, ttlMs } = this.#options
    const planned = await this.scopes.forWriting(caller, file.scope)
    const name = artifactNameFrom(file.name)
    const expiresAt = clock.now() + ttlMs
    const head = new HeldBytes(0)
    using room = await this.#roomFor({ scope: planned, name })
    const bytes = room.within(head.through(file.bytes))
    const { id: blobId, ...facts } = await this.#store.blobs.write(bytes, { limit, ttlMs })
    const scope = await this.scopes.keep(planned)
    const declared = mediaTypeFrom(file.mimeType) ?? namedTypeOf(name)
    const { mimeType } = fileTypeOf(declared, head.head)
    const { runId, agentId } = file
    const times = { createdAt: clock.now(), expiresAt }
    return this.#add({ scope, name }, { ...facts, ...times, blobId, mimeType, runId, agentId })
  }

  /**
   * Returns an artifact of the caller, by its URI or its address.
   *
   * @throws GatewayError `NOT_FOUND`, with the same message for an invalid URI, for an artifact of another owner, and for
   *   one that does not exist or has expired
   */
  async find(caller: Caller, at: string | ArtifactAddress): Promise<FoundArtifact> {
    const address = typeof at === 'string' ? artifactAddressFrom(at) : at
    // The owner is checked before the artifact.
    const scope = address && (await this.scopes.of(caller, address.scope))
    const found = scope && (await this.#find(scope, address))
    if (!found) throw notFound()
    return found
  }

  /** Returns an artifact for a client with a valid download link. @throws GatewayError `NOT_FOUND` */
  async findLinked(address: ArtifactAddress): Promise<FoundArtifact> {
    const scope = await this.scopes.find(address.scope)
    const found = scope && (await this.#find(scope, address))
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
    caller: Caller,
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
    caller: Caller,
    { cursor, limit = 100 }: { readonly cursor?: string | undefined; readonly limit?: number } = {},
  ): Promise<{ readonly artifacts: readonly Artifact[]; readonly nextCursor?: string }> {
    const own = await this.scopes.own(caller)
    const scope = own === undefined ? undefined : await this.scopes.of(caller, own)
    const list = `artifacts/${ownerOf(caller)}`
    const after = cursor === undefined ? '' : this.#cursors.open(list, cursor)
    if (after === undefined) {
      throw new GatewayError('NOT_FOUND', 'The cursor is not valid for this list')
    }
    const artifacts = scope ? (await this.#latestIn(scope)).toSorted(compareNewest) : []
    const from = artifacts.findIndex((each) => positionOf(each) > after)
    const page = from < 0 ? [] : artifacts.slice(from, from + limit)
    const last = page.at(-1)
    if (last === undefined || last === artifacts.at(-1)) return { artifacts: page }
    return { artifacts: page, nextCursor: this.#cursors.seal(list, positionOf(last)) }
  }

  /** Returns at most `limit` names in a scope of the caller that begin with `start`. */
  async complete(
    caller: Caller,
    scopeId: string,
    { start, limit }: { readonly start: string; readonly limit: number },
  ): Promise<readonly string[]> {
    const begun = start.normalize('NFC')
    // Only the beginning of a name can be encoded.
    const scope = isArtifactName(`${begun}a`) && (await this.scopes.of(caller, scopeId))
    if (!scope) return []
    return this.#names.begunBy({ scope, name: begun }, limit)
  }

  /** Returns a file for an agent, by a URI that the caller gave. @throws GatewayError `NOT_FOUND` */
  async inputFile(caller: Caller, uri: string): Promise<InputFile> {
    return toInputFile(uri, await this.find(caller, uri))
  }

  /** Returns a file that an agent wrote in a scope of the caller. @param file `version`: the latest if `undefined` */
  async agentFile(
    caller: Caller,
    { scope: id, agentId }: AgentScope,
    { name, version }: { readonly name: string; readonly version: number | undefined },
  ): Promise<InputFile | undefined> {
    const scope = await this.scopes.of(caller, id)
    const file = { name: artifactNameFrom(name), version }
    const found = scope && (await this.#find(scope, file, agentId))
    return found && toInputFile(found.versionUri, found)
  }

  /** Returns the latest versions of all files that an agent wrote in a scope of the caller. */
  async agentFiles(
    caller: Caller,
    { scope: id, agentId }: AgentScope,
  ): Promise<readonly StoredFile[]> {
    const scope = await this.scopes.of(caller, id)
    const found = scope ? await this.#latestIn(scope, agentId) : []
    return found.map(({ versionUri: uri, name, version, mimeType, size, createdAt }) => {
      return { uri, name, version, mimeType, size, createdAt }
    })
  }

  /** Returns the normal form of a URI, without its version. `undefined`: the caller does not own it. */
  async followed(caller: Caller, uri: string): Promise<string | undefined> {
    const address = artifactAddressFrom(uri)
    if (!address || !(await this.scopes.of(caller, address.scope))) return undefined
    const { scope, name } = address
    return artifactUriOf({ scope, name })
  }

  /** Takes room for one version, until the version is stored or has failed. @throws GatewayError `QUOTA` */
  async #roomFor({ scope, name }: Place): Promise<Room> {
    const { account } = scope
    const stored = await this.#names.get({ scope, name })
    const count = (stored?.versions.length ?? 0) + 1 - MAX_VERSIONS
    const spare = stored?.versions.slice(0, Math.max(0, count)) ?? [] // make room for the new version
    const counted = await this.#names.countedWith(scope)
    const room = this.#options.quota - sizeOf(counted) + sizeOf(spare)
    if (counted.length - spare.length >= MAX_STORED) throw this.#noRoom()
    const arriving = this.#arriving
    let own = 0
    const refuse = (): never => {
      throw this.#noRoom()
    }
    return {
      async *within(bytes) {
        for await (const chunk of bytes) {
          own += chunk.byteLength
          const all = (arriving.get(account) ?? 0) + chunk.byteLength
          arriving.set(account, all)
          if (all > room) refuse()
          yield chunk
        }
      },
      [Symbol.dispose]() {
        const left = (arriving.get(account) ?? 0) - own
        if (left > 0) arriving.set(account, left)
        else arriving.delete(account)
      },
    }
  }

  /**
   * Adds a version to its name. If the same run wrote the same bytes before, that version gets the new bytes instead,
   * which end later.
   */
  async #add(place: Place, version: NewVersion): Promise<Artifact> {
    const { added, isGrown, isNew, unused } = await this.#names.update(place, (stored) => {
      const earlier = stored?.versions ?? []
      const next = stored?.next ?? 1
      const last = earlier.at(-1)
      if (last && isSameFile(last, version)) {
        const { blobId, expiresAt } = version
        const renewed = { ...last, blobId, expiresAt }
        const versions = [...earlier.slice(0, -1), renewed]
        return {
          put: { next, versions },
          added: renewed,
          isGrown: false,
          isNew: false,
          unused: [last],
        }
      }
      const latest = { ...version, version: next }
      const versions = [...earlier, latest].slice(-MAX_VERSIONS)
      return {
        put: { next: next + 1, versions },
        added: latest,
        isGrown: true,
        isNew: stored === undefined,
        unused: earlier.slice(0, earlier.length + 1 - versions.length),
      }
    })
    if (isGrown && (await this.#isTooMuch(place.scope))) {
      await this.#takeBack(place, version, unused)
      throw this.#noRoom()
    }
    await this.#deleteBytes(unused)
    const artifact = this.#toArtifact(place, added)
    if (isGrown) this.#options.onChange({ uri: artifact.uri, owner: place.scope.owner, isNew })
    return artifact
  }

  /** Counts again, because another process may have stored a version at the same time. Both may be refused then. */
  async #isTooMuch(scope: Scope): Promise<boolean> {
    const counted = await this.#names.countedWith(scope)
    return sizeOf(counted) > this.#options.quota || counted.length > MAX_STORED
  }

  /** Removes a version that was added, and puts the versions back that it replaced. */
  async #takeBack(
    place: Place,
    { blobId }: NewVersion,
    replaced: readonly StoredVersion[],
  ): Promise<void> {
    await this.#names.update(place, (stored) => {
      if (!stored) return {}
      const others = stored.versions.filter((each) => each.blobId !== blobId)
      const versions = [...replaced, ...others].toSorted((a, b) => a.version - b.version)
      return { put: { ...stored, versions: versions.slice(-MAX_VERSIONS) } }
    })
    await this.#deleteBytes([{ blobId }])
  }

  /** Never rejects: what stays ends with its time to live. */
  async #deleteBytes(versions: readonly Pick<StoredVersion, 'blobId'>[]): Promise<void> {
    const deletions = versions.map(({ blobId }) => this.#store.blobs.delete(blobId))
    await Promise.allSettled(deletions)
  }

  #noRoom(): GatewayError {
    const message = `No room for this file: the limits are ${this.#options.quota} bytes and ${MAX_STORED} versions. Wait until older files expire.`
    return new GatewayError('QUOTA', message)
  }

  async #find(
    scope: Scope,
    { name, version }: Pick<ArtifactAddress, 'name' | 'version'>,
    agentId?: string,
  ): Promise<FoundArtifact | undefined> {
    const stored = await this.#names.get({ scope, name })
    return stored && this.#foundIn(stored, { scope, name }, { version, agentId })
  }

  /** Returns the latest version of each name in a scope that an agent wrote: this agent, if there is an id. */
  async #latestIn(scope: Scope, agentId?: string): Promise<readonly FoundArtifact[]> {
    const found: FoundArtifact[] = []
    for await (const { stored, ...place } of this.#names.in(scope)) {
      const latest = this.#foundIn(stored, place, { version: undefined, agentId })
      if (latest) found.push(latest)
    }
    return found
  }

  #foundIn(
    stored: StoredName,
    place: Place,
    {
      version: number,
      agentId,
    }: { readonly version: number | undefined; readonly agentId: string | undefined },
  ): FoundArtifact | undefined {
    const version = stored.versions.findLast(
      (each) =>
        (number === undefined || each.version === number) &&
        (agentId === undefined || each.agentId === agentId),
    )
    if (!version) return undefined
    const open = async (): Promise<AsyncIterable<Uint8Array>> => {
      const bytes = await this.#store.blobs.read(version.blobId)
      if (!bytes) throw notFound()
      return bytes
    }
    return { ...this.#toArtifact(place, version), open }
  }

  #toArtifact({ scope: { id: scope }, name }: Place, found: StoredVersion): Artifact {
    const { version, mimeType, size, sha256, runId, createdAt, expiresAt } = found
    const uri = artifactUriOf({ scope, name })
    const versionUri = artifactUriOf({ scope, name, version })
    const facts = { mimeType, size, sha256, runId, createdAt, expiresAt }
    return { uri, versionUri, scope, name, version, ...facts }
  }
}

/** Room of an account for one version. */
interface Room extends Disposable {
  /** Passes bytes on. @throws GatewayError `QUOTA` if there are more than fit */
  within(bytes: AsyncIterable<Uint8Array>): AsyncGenerator<Uint8Array>
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

/** A new version of a file. */
export interface ArtifactChange {
  /** URI without a version. */
  readonly uri: string
  /** Owner of the file (see `ownerOf()`). `null`: every caller that knows its URI. */
  readonly owner: string | null
  /** True for the first version of a name: the list of the owner has one more entry. */
  readonly isNew: boolean
}

function isSameFile(a: StoredVersion, b: NewVersion): boolean {
  return a.runId !== undefined && a.runId === b.runId && a.sha256 === b.sha256
}

function sizeOf(versions: readonly Pick<StoredVersion, 'size'>[]): number {
  return versions.reduce((sum, { size }) => sum + size, 0)
}

/** Returns the place of a file in the list of its owner, as a text. Places of newer files sort first. */
function positionOf({ createdAt, uri }: Artifact): string {
  const age = Number.MAX_SAFE_INTEGER - Math.floor(createdAt)
  return `${String(age).padStart(16, '0')} ${uri}`
}

function compareNewest(a: Artifact, b: Artifact): number {
  return positionOf(a) < positionOf(b) ? -1 : 1
}

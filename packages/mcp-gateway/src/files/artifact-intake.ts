import type { Clock } from '../internal/clock.ts'
import { fileTypeOf } from './file-kind.ts'
import { HeldBytes } from './held-bytes.ts'
import { namedTypeOf } from './named-type.ts'
import { GatewayError } from '../errors.ts'
import type { GatewayStore } from '../store/gateway-store.ts'
import { randomId } from '../internal/random-hex.ts'
import type { ArtifactCaller } from './artifact-caller.ts'
import { accountOf, listKey } from './artifact-caller.ts'
import type {
  AddedVersion,
  Addition,
  ArtifactIndex,
  IndexChange,
  NewVersion,
} from './records/artifact-index.ts'
import { artifactNameFrom, artifactTitleFrom } from './artifact-name.ts'
import type { ArtifactScopes } from './artifact-scopes.ts'
import type { ArtifactUsage, Usage } from './records/artifact-usage.ts'
import type { NewArtifact } from './artifact.ts'
import { mediaTypeFrom } from './media-type.ts'
import type { StoredName } from './records/stored-artifact.ts'

export interface ArtifactIntakeOptions {
  readonly store: GatewayStore
  readonly scopes: ArtifactScopes
  readonly usage: ArtifactUsage
  readonly index: ArtifactIndex
  readonly clock: Clock
  readonly ttlMs: number
  /** Of one file. */
  readonly maxBytes: number
  readonly versionsPerName: number
}

/** What was taken in. */
export interface TakenVersion {
  readonly scope: string
  readonly name: string
  /** All versions of the name, the new one last. */
  readonly stored: StoredName
  /** `undefined`: the same was there already. */
  readonly change: IndexChange | undefined
}

/** Takes new versions in: first the bytes, then the place in the index, then the account. */
export class ArtifactIntake {
  readonly #options: ArtifactIntakeOptions

  constructor(options: ArtifactIntakeOptions) {
    this.#options = options
  }

  /**
   * Nothing of what fails is kept.
   *
   * @throws GatewayError `LIMIT`, `QUOTA`; `NOT_FOUND`: not a scope of the caller's; what the bytes throw
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
    const { runId } = file
    const facts = { size, mimeType, account, principal: caller.principal.id, createdAt, runId }
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

  /** What goes if there is no room for one more version. */
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
      // The first reason says more.
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

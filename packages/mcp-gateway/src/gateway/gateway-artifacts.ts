import { Artifacts } from '../files/artifacts.ts'
import type { ArtifactChange } from '../files/artifacts.ts'
import { ArtifactLinks } from '../files/links.ts'
import { ArtifactResources } from '../files/resources.ts'
import type { ResultFiles } from '../files/result-files.ts'
import { gatewayFiles } from '../files/run-files.ts'
import {
  ARTIFACTS_PATH,
  ArtifactRoutes,
  type ArtifactRoutesOptions,
} from '../http/artifact-routes.ts'
import type { HttpRoute } from '../http/router.ts'
import type { Clock } from '../internal/clock.ts'
import { Debouncer } from '../internal/timers.ts'
import type { ChangeFeed } from '../mcp/change-feed.ts'
import type { ArtifactSettings, InlineSettings } from '../options.ts'
import type { GatewayStore } from '../store/gateway-store.ts'

export interface GatewayArtifactsOptions {
  readonly artifacts: ArtifactSettings
  readonly inline: InlineSettings
  /** Resources on one page. */
  readonly pageSize: number
  /** As in `ArtifactsOptions`. */
  readonly readMaxBytes: number
  readonly store: GatewayStore
  readonly key: Uint8Array
  readonly clock: Clock
  readonly changes: Pick<ChangeFeed, 'publish'>
  /** Configured URL of this gateway: `https://agents.example`, with the path at which it is mounted. */
  readonly publicUrl: string | undefined
  /** Returns the URL at which this gateway listens. `undefined`: it does not listen. */
  readonly listensAt: () => string | undefined
  readonly onError: (error: Error) => void
}

/** The files of a gateway: as resources, in results, as arguments of tools, and over HTTP. */
export class GatewayArtifacts {
  readonly resources: ArtifactResources
  readonly files: ResultFiles
  readonly #options: GatewayArtifactsOptions
  readonly #artifacts: Artifacts
  readonly #links: ArtifactLinks
  readonly #batches: ChangeBatches

  constructor(options: GatewayArtifactsOptions) {
    const { artifacts: settings, inline, pageSize, readMaxBytes, clock, key, store } = options
    this.#options = options
    const onError = (cause: unknown): void =>
      options.onError(new Error('Expired files could not be deleted', { cause }))
    this.#batches = new ChangeBatches(options.changes, clock)
    const onChange = (change: ArtifactChange): void => this.#batches.add(change)
    const artifacts = new Artifacts({
      ...settings,
      readMaxBytes,
      store,
      key,
      clock,
      onChange,
      onError,
    })
    this.#artifacts = artifacts
    const baseUrl = (): string | undefined => {
      const url = options.publicUrl ?? options.listensAt()
      return url === undefined ? undefined : `${url.replace(/\/+$/, '')}${ARTIFACTS_PATH}`
    }
    this.#links = new ArtifactLinks({ baseUrl, key, clock })
    this.files = gatewayFiles({ ...settings, artifacts, inline })
    this.resources = new ArtifactResources({ artifacts, links: this.#links, pageSize, clock })
  }

  /** Publishes the last changes. */
  async close(): Promise<void> {
    await this.#artifacts.close()
    this.#batches.close()
  }

  /** Returns the route for downloads and uploads over HTTP. */
  route(parts: Pick<ArtifactRoutesOptions, 'admission' | 'isDraining' | 'observer'>): HttpRoute {
    const { artifacts: settings, clock } = this.#options
    const { upload, maxBytes } = settings
    return new ArtifactRoutes({
      ...parts,
      artifacts: this.#artifacts,
      links: this.#links,
      maxUploadBytes: upload ? maxBytes : undefined,
      clock,
    })
  }
}

/** A run may write a hundred files at once. */
const QUIET_MS = 50
const MAX_MS = 500

/** Collects changes of artifacts for a short time, and publishes each list and each URI once. */
export class ChangeBatches {
  readonly #changes: Pick<ChangeFeed, 'publish'>
  readonly #debouncer: Debouncer
  /** Ids of lists that have one more or one less entry. */
  readonly #lists = new Set<string>()
  /** URIs with new versions. */
  readonly #updated = new Set<string>()
  #isClosed = false

  constructor(changes: Pick<ChangeFeed, 'publish'>, clock: Clock) {
    this.#changes = changes
    const onDue = (): void => this.#publish()
    this.#debouncer = new Debouncer({ clock, quietMs: QUIET_MS, maxMs: MAX_MS, onDue })
  }

  add({ uri, list, isListChange, isUpdate }: ArtifactChange): void {
    if (this.#isClosed) return
    if (isListChange) this.#lists.add(list)
    if (isUpdate) this.#updated.add(uri)
    this.#debouncer.touch()
  }

  /** Publishes what was collected. */
  close(): void {
    this.#isClosed = true
    this.#debouncer.clear()
    this.#publish()
  }

  #publish(): void {
    for (const owner of this.#lists) void this.#changes.publish({ type: 'resources', owner })
    for (const uri of this.#updated) void this.#changes.publish({ type: 'resource', uri })
    this.#lists.clear()
    this.#updated.clear()
  }
}

import { ArtifactLinks } from '../files/links.ts'
import { ArtifactNews, type News } from '../files/changes.ts'
import { GatewayError } from '../errors.ts'
import type { ArtifactSettings, InlineSettings, ToolSettings } from '../options.ts'
import { artifactResources } from '../files/resources.ts'
import { ArtifactRoutes, type ArtifactRoutesOptions } from '../http/artifact-routes.ts'
import { Artifacts } from '../files/artifacts.ts'
import { uploadLinkTool } from '../mcp/upload-link-tool.ts'
import type { Clock } from '../internal/clock.ts'
import { fileTypeOf, textFrom } from '../files/media-types.ts'
import { gatewayFiles } from '../files/run-files.ts'
import { createGuardedFetch, type GuardedFetch } from '../internal/guarded-fetch.ts'
import type { HttpRoute } from '../http/http-route.ts'
import type { ArtifactCaller } from '../files/namespaces.ts'
import type { ChangeFeed } from '../mcp/change-feed.ts'
import type { OwnTool } from '../mcp/tool-call.ts'
import type { ResourceHandlers } from '../files/resources.ts'
import type { InputFile, ResultFiles } from '../files/result-files.ts'
import type { GatewayStore } from '../store/gateway-store.ts'
import type { PlanOptions } from '../tools/tool-planner.ts'

export interface GatewayArtifactsOptions {
  readonly artifacts: ArtifactSettings
  readonly inline: InlineSettings
  /** Whether callers have names. Those who have none may say where their files go. */
  readonly hasAuth: boolean
  /** Resources on one page. */
  readonly pageSize: number
  readonly store: GatewayStore
  readonly key: Uint8Array
  readonly clock: Clock
  readonly changes: ChangeFeed
  /** Where clients reach this gateway over HTTP (`https://agents.example`), as configured. */
  readonly publicUrl: string | undefined
  /** The same without configuration: where it listens, if it does. */
  readonly listensAt: () => string | undefined
  /** Called when lists of files changed. */
  readonly onListChanged: () => void
  readonly onError: (error: Error) => void
}

/** Files of a gateway that does not keep them: results show the files that fit. */
export function unkeptFiles({
  artifacts,
  inline,
}: Pick<GatewayArtifactsOptions, 'artifacts' | 'inline'>): ResultFiles {
  const { maxBytes } = artifacts
  return gatewayFiles({ artifacts: undefined, inline, maxBytes, fetch: fetchOf(artifacts) })
}

function fetchOf({ fetch, maxBytes }: ArtifactSettings): GuardedFetch | 'never' {
  return fetch === 'guarded' ? createGuardedFetch({ maxBytes }) : fetch
}

/** All that a gateway has to do with files, put together. */
export class GatewayArtifacts {
  readonly resources: ResourceHandlers
  readonly files: ResultFiles
  readonly tools: readonly OwnTool[]
  readonly #options: GatewayArtifactsOptions
  readonly #artifacts: Artifacts
  readonly #links: ArtifactLinks
  readonly #news: ArtifactNews
  readonly #path: string
  readonly #takesUploads: boolean
  readonly #maxUploadBytes: number

  constructor(options: GatewayArtifactsOptions) {
    const { artifacts: own, clock, key, store } = options
    const { downloadUrlTtlMs: ttlMs, upload, maxBytes } = own
    this.#options = options
    this.#path = own.path
    this.#takesUploads = upload.enabled
    this.#artifacts = new Artifacts({
      ...own,
      store,
      key,
      clock,
      onError: (cause) =>
        options.onError(new Error('Expired files could not be deleted', { cause })),
    })
    const baseUrl = (): string | undefined => this.#baseUrl()
    const { records } = store
    const linkOptions = { artifacts: this.#artifacts, records, baseUrl, key, ttlMs, clock }
    this.#links = new ArtifactLinks(linkOptions)
    this.files = gatewayFiles({
      artifacts: this.#artifacts,
      inline: options.inline,
      maxBytes,
      fetch: fetchOf(own),
    })
    this.resources = artifactResources({
      artifacts: this.#artifacts,
      links: this.#links,
      pageSize: options.pageSize,
      now: () => clock.now(),
      textOf: (bytes, mimeType) => {
        return fileTypeOf(mimeType, bytes).kind === 'text' ? textFrom(bytes) : undefined
      },
    })
    this.#maxUploadBytes = Math.min(upload.maxBytes ?? maxBytes, maxBytes)
    const isPlaced = (own.baseUrl ?? options.publicUrl) !== undefined
    const hasLinkTool = this.#takesUploads && (upload.linkTool ?? isPlaced)
    this.tools = hasLinkTool
      ? [uploadLinkTool({ links: this.#links, maxBytes: this.#maxUploadBytes })]
      : []
    this.#news = new ArtifactNews(clock, (news) => this.#publish(news))
    this.#artifacts.onChange((change) => this.#news.add(change))
  }

  /** Publishes the last changes. */
  async close(): Promise<void> {
    await this.#artifacts.close()
    this.#news.close()
  }

  /** Files that a caller hands to an agent. @throws GatewayError `NOT_FOUND`, with the place of the one that is not there */
  readonly inputFiles = (
    caller: ArtifactCaller,
    uris: readonly string[],
  ): Promise<readonly InputFile[]> => {
    return Promise.all(
      uris.map(async (uri, index) => {
        try {
          return await this.#artifacts.inputFile(caller, uri)
        } catch (cause) {
          if (!GatewayError.is(cause) || cause.code !== 'NOT_FOUND') throw cause
          const message = `Bad arguments: /files/${index} is no file of yours, or one that has ended`
          throw new GatewayError('NOT_FOUND', message, { cause })
        }
      }),
    )
  }

  /** What tools say and take, now that there are files. What the user says wins. */
  planOptions(tools: ToolSettings): PlanOptions {
    const { hasAuth, artifacts } = this.#options
    const { extras } = tools
    return {
      ...tools,
      artifactTtlMs: artifacts.ttlMs,
      ownTools: this.tools.map(({ definition }) => definition),
      extras: {
        ...extras,
        files: extras.files ?? this.#takesUploads,
        scope: extras.scope ?? !hasAuth,
      },
    }
  }

  /** Downloads and uploads over HTTP. */
  route(options: Pick<ArtifactRoutesOptions, 'admission' | 'isDraining' | 'observer'>): HttpRoute {
    const { artifacts: own, clock } = this.#options
    return new ArtifactRoutes({
      ...options,
      artifacts: this.#artifacts,
      links: this.#links,
      path: this.#path,
      uriScheme: own.uriScheme,
      maxUploadBytes: this.#takesUploads ? this.#maxUploadBytes : undefined,
      clock,
    })
  }

  #baseUrl(): string | undefined {
    const { artifacts, publicUrl, listensAt } = this.#options
    const { baseUrl } = artifacts
    if (baseUrl !== undefined) return baseUrl.replace(/\/+$/, '')
    const origin = publicUrl ?? listensAt()
    return origin === undefined ? undefined : new URL(this.#path, origin).href
  }

  #publish({ lists, updated }: News): void {
    const { changes, onListChanged } = this.#options
    for (const owner of lists) void changes.publish({ type: 'resources', owner })
    for (const [uri, owner] of updated) void changes.publish({ type: 'resource', uri, owner })
    if (lists.size > 0) onListChanged()
  }
}

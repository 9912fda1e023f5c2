import {
  ProtocolError,
  ProtocolErrorCode,
  ResourceNotFoundError,
} from '@modelcontextprotocol/server'
import type {
  CompleteResult,
  ListResourceTemplatesResult,
  ListResourcesResult,
  ReadResourceResult,
  Resource,
} from '@modelcontextprotocol/server'
import { GatewayError } from '../errors.ts'
import type { Artifact, Artifacts } from './artifacts.ts'
import type { ArtifactLinks } from './links.ts'
import { fileTypeOf, textFrom } from './media-types.ts'
import type { Caller } from '../internal/principal.ts'
import { URI_TEMPLATE } from './uri.ts'
import type { Clock } from '../internal/clock.ts'

export interface ArtifactResourcesOptions {
  readonly artifacts: Artifacts
  /** Makes download links for files that are too large to be read. */
  readonly links: ArtifactLinks
  /** Number of entries on a page. */
  readonly pageSize: number
  readonly clock: Clock
}

/** Artifacts as resources of MCP. */
export class ArtifactResources {
  readonly #options: ArtifactResourcesOptions

  constructor(options: ArtifactResourcesOptions) {
    this.#options = options
  }

  /** @throws ProtocolError -32602 for a cursor of another list */
  async list(caller: Caller, cursor: string | undefined): Promise<ListResourcesResult> {
    const { artifacts, pageSize } = this.#options
    try {
      const { artifacts: found, ...page } = await artifacts.list(caller, {
        cursor,
        limit: pageSize,
      })
      return { resources: found.map(resourceOf), ...page }
    } catch (error) {
      if (!isAbsent(error)) throw error
      const message = 'The cursor is not valid for this list: list again without a cursor'
      throw new ProtocolError(ProtocolErrorCode.InvalidParams, message)
    }
  }

  templates(): ListResourceTemplatesResult {
    const description =
      'A file that an agent made or a client uploaded; without a version the latest one'
    return {
      resourceTemplates: [
        { uriTemplate: URI_TEMPLATE, name: 'artifact', title: 'Artifact', description },
      ],
    }
  }

  /**
   * Returns the contents of a resource, and for how many milliseconds they cannot change.
   *
   * @param check called before the bytes are read. Throws if the response is not needed any more, or too large for the free memory
   * @throws ResourceNotFoundError for a resource that the caller does not own; ProtocolError -32602 for one that is too
   *   large; the error of `check`
   */
  async read(
    caller: Caller,
    uri: string,
    check: () => void,
  ): Promise<Pick<ReadResourceResult, 'contents'> & { readonly fixedMs: number }> {
    const { artifacts, links, clock } = this.#options
    try {
      const { artifact, bytes } = await artifacts.read(caller, uri, check)
      if (!bytes) throw tooLarge(artifact, links.downloadUrl(artifact))
      // A version never changes until it expires.
      const fixedMs = uri === artifact.versionUri ? artifact.expiresAt - clock.now() : 0
      return { contents: [contentOf(uri, artifact, bytes)], fixedMs }
    } catch (error) {
      throw isAbsent(error) ? new ResourceNotFoundError(uri) : error
    }
  }

  /** Returns the URI that notifications about this resource have. `undefined`: the caller does not own it. */
  followed(caller: Caller, uri: string): Promise<string | undefined> {
    return this.#options.artifacts.followed(caller, uri)
  }

  /** Returns values for a variable that begin with `value`. @param given values of other variables */
  async complete(
    caller: Caller,
    { template, name, value }: Readonly<Record<'template' | 'name' | 'value', string>>,
    given?: Readonly<Record<string, string>>,
  ): Promise<CompleteResult['completion']> {
    const { artifacts } = this.#options
    const own = given?.['scope'] ?? (await artifacts.scopes.own(caller))
    if (template !== URI_TEMPLATE || own === undefined) return { values: [] }
    if (name === 'scope') return { values: own.startsWith(value) ? [own] : [] }
    if (name !== 'name') return { values: [] }
    const query = { start: value, limit: MAX_VALUES + 1 }
    const names = await artifacts.complete(caller, own, query)
    return { values: names.slice(0, MAX_VALUES), hasMore: names.length > MAX_VALUES }
  }
}

/** Limit of the specification for one completion. */
const MAX_VALUES = 100

function resourceOf(artifact: Artifact): Resource {
  const { uri, name, mimeType, size, createdAt } = artifact
  const annotations = { lastModified: new Date(createdAt).toISOString() }
  return { uri, name, mimeType, size, annotations, _meta: metaOf(artifact) }
}

function contentOf(
  uri: string,
  artifact: Artifact,
  bytes: Uint8Array,
): ReadResourceResult['contents'][number] {
  const { mimeType } = artifact
  const text = fileTypeOf(mimeType, bytes).kind === 'text' ? textFrom(bytes) : undefined
  const content = text === undefined ? { blob: base64Of(bytes) } : { text }
  return { uri, mimeType, ...content, _meta: metaOf(artifact) }
}

/** Does not copy the bytes first: there may be many megabytes. */
function base64Of({ buffer, byteOffset, byteLength }: Uint8Array): string {
  return Buffer.from(buffer, byteOffset, byteLength).toString('base64')
}

function metaOf(artifact: Artifact): Record<string, unknown> {
  const { version, sha256, createdAt, expiresAt, runId } = artifact
  const times = {
    createdAt: new Date(createdAt).toISOString(),
    expiresAt: new Date(expiresAt).toISOString(),
  }
  return { version, sha256, ...times, ...(runId === undefined ? {} : { runId }) }
}

function tooLarge({ uri, size }: Artifact, downloadUrl: string | undefined): ProtocolError {
  const message = `The artifact has ${size} bytes, more than can be read at once`
  const data = { uri, size, ...(downloadUrl !== undefined && { downloadUrl }) }
  return new ProtocolError(ProtocolErrorCode.InvalidParams, message, data)
}

function isAbsent(error: unknown): boolean {
  return GatewayError.is(error) && error.code === 'NOT_FOUND'
}

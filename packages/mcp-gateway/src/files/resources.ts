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
import type { ArtifactCaller } from './namespaces.ts'

interface ReadResource {
  readonly contents: ReadResourceResult['contents']
  /** Milliseconds for which the content cannot change. @default 0 */
  readonly fixedMs?: number | undefined
}

/** Resources of one caller. All methods throw `ResourceNotFoundError` for a resource that the caller does not own. */
export interface ResourceHandlers {
  /** @throws ProtocolError -32602 for a cursor of another list */
  list(caller: ArtifactCaller, cursor: string | undefined): Promise<ListResourcesResult>
  templates(caller: ArtifactCaller): Promise<ListResourceTemplatesResult>
  /** @param check called before the bytes are read. Throws if the answer is not needed, or there is no memory for it */
  read(caller: ArtifactCaller, uri: string, check: () => void): Promise<ReadResource>
  /** Returns the id of the list of the caller, which notifications about it name. @default there is no list */
  listOf(caller: ArtifactCaller): string | undefined
  /** Returns the URI that notifications about this resource have. `undefined`: the caller does not own it. */
  followed(caller: ArtifactCaller, uri: string): Promise<string | undefined>
  /** Values for a variable of a template. @default the capability is not declared */
  complete?(caller: ArtifactCaller, asked: CompletedVariable): Promise<CompleteResult['completion']>
}

interface CompletedVariable {
  readonly template: string
  /** Name of the variable. */
  readonly name: string
  /** Beginning of the value. */
  readonly value: string
  /** Values of other variables. @default none */
  readonly given?: Readonly<Record<string, string>> | undefined
}

export interface ArtifactResourcesOptions {
  readonly artifacts: Artifacts
  /** Makes download links for files that are too large to be read. @default there are no links */
  readonly links?: ArtifactLinks | undefined
  /** Returns the text of a text file. Other files are returned as base64. */
  readonly textOf: (bytes: Uint8Array, mimeType: string) => string | undefined
  /** Number of entries on a page. @default 100 */
  readonly pageSize?: number | undefined
  /** Milliseconds since 1970. @default Date.now */
  readonly now?: (() => number) | undefined
}

/** Offers artifacts as resources of MCP. */
export function artifactResources(options: ArtifactResourcesOptions): ResourceHandlers {
  const { artifacts, links, textOf, pageSize, now = Date.now } = options
  return {
    async list(caller, cursor) {
      try {
        const page = await artifacts.list(caller, { cursor, limit: pageSize })
        const resources = page.artifacts.map(resourceOf)
        return page.nextCursor === undefined
          ? { resources }
          : { resources, nextCursor: page.nextCursor }
      } catch (error) {
        if (!isAbsent(error)) throw error
        throw new ProtocolError(ProtocolErrorCode.InvalidParams, 'Not a cursor of this list')
      }
    },
    async templates() {
      const uriTemplate = artifacts.uriTemplate
      const description =
        'A file that an agent made or a client uploaded; without a version the latest one'
      return {
        resourceTemplates: [{ uriTemplate, name: 'artifact', title: 'Artifact', description }],
      }
    },
    async read(caller, uri, check) {
      try {
        const { artifact, bytes } = await artifacts.read(caller, uri, check)
        if (!bytes) throw tooLarge(artifact, links)
        const contents = [contentOf({ uri, artifact, bytes, textOf })]
        // A version never changes until it expires.
        const isFixed = uri === artifact.versionUri
        return isFixed ? { contents, fixedMs: artifact.expiresAt - now() } : { contents }
      } catch (error) {
        throw isAbsent(error) ? new ResourceNotFoundError(uri) : error
      }
    },
    listOf: (caller) => artifacts.listOf(caller),
    followed: (caller, uri) => artifacts.followed(caller, uri),
    async complete(caller, { template, name, value, given }) {
      const own = given?.['scope'] ?? (await artifacts.ownScope(caller))
      if (template !== artifacts.uriTemplate || own === undefined) return { values: [] }
      if (name === 'scope') return { values: own.startsWith(value) ? [own] : [] }
      if (name !== 'name') return { values: [] }
      const query = { start: value, limit: MAX_VALUES + 1 }
      const names = await artifacts.complete(caller, own, query)
      return { values: names.slice(0, MAX_VALUES), hasMore: names.length > MAX_VALUES }
    },
  }
}

/** Limit of the specification for one completion. */
const MAX_VALUES = 100

function resourceOf(artifact: Artifact): Resource {
  const { uri, title, mimeType, size, createdAt } = artifact
  const annotations = { lastModified: new Date(createdAt).toISOString() }
  return { uri, name: artifact.name, title, mimeType, size, annotations, _meta: metaOf(artifact) }
}

interface ContentParts {
  readonly uri: string
  readonly artifact: Artifact
  readonly bytes: Uint8Array
  readonly textOf: ArtifactResourcesOptions['textOf']
}

function contentOf(parts: ContentParts): ReadResourceResult['contents'][number] {
  const { uri, artifact, bytes, textOf } = parts
  const { mimeType } = artifact
  const text = textOf(bytes, mimeType)
  const meta = metaOf(artifact)
  if (text !== undefined) return { uri, mimeType, text, _meta: meta }
  return { uri, mimeType, blob: Buffer.from(bytes).toString('base64'), _meta: meta }
}

function metaOf({
  version,
  sha256,
  createdAt,
  expiresAt,
  runId,
}: Artifact): Record<string, unknown> {
  const times = {
    createdAt: new Date(createdAt).toISOString(),
    expiresAt: new Date(expiresAt).toISOString(),
  }
  return { version, sha256, ...times, ...(runId === undefined ? {} : { runId }) }
}

function tooLarge(artifact: Artifact, links: ArtifactLinks | undefined): ProtocolError {
  const { uri, size } = artifact
  const message = `The artifact has ${size} bytes, more than can be read at once`
  const downloadUrl = links?.downloadUrl(artifact)
  const data = { uri, size, ...(downloadUrl !== undefined && { downloadUrl }) }
  return new ProtocolError(ProtocolErrorCode.InvalidParams, message, data)
}

function isAbsent(error: unknown): boolean {
  return GatewayError.is(error) && error.code === 'NOT_FOUND'
}

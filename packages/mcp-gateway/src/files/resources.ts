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
  /** Milliseconds for which it cannot become another. @default 0: it may at any time */
  readonly fixedMs?: number | undefined
}

/** What a gateway has to read, for one caller at a time. Each throws `ResourceNotFoundError` for what is not the caller's. */
export interface ResourceHandlers {
  /** @throws ProtocolError -32602 for a cursor of no list of this caller */
  list(caller: ArtifactCaller, cursor: string | undefined): Promise<ListResourcesResult>
  templates(caller: ArtifactCaller): Promise<ListResourceTemplatesResult>
  /** @param check called before the bytes are read: throws if the answer is not wanted, or there is no memory for it */
  read(caller: ArtifactCaller, uri: string, check: () => void): Promise<ReadResource>
  /** Which list the caller reads: changes of it are told by this name. @default none */
  listOf(caller: ArtifactCaller): string | undefined
  /** The URI by which changes of this resource are told; `undefined`: it is not the caller's. */
  followed(caller: ArtifactCaller, uri: string): Promise<string | undefined>
  /** Values for a variable of a template. @default the capability is not declared */
  complete?(caller: ArtifactCaller, asked: CompletedVariable): Promise<CompleteResult['completion']>
}

interface CompletedVariable {
  readonly template: string
  /** Of the variable. */
  readonly name: string
  /** As far as it is there. */
  readonly value: string
  /** Other variables, as they were chosen before. @default none were */
  readonly given?: Readonly<Record<string, string>> | undefined
}

export interface ArtifactResourcesOptions {
  readonly artifacts: Artifacts
  /** Where what is too large to be read can be downloaded. @default nowhere */
  readonly links?: ArtifactLinks | undefined
  /** The text of a file that is one; what has none is given as base64. */
  readonly textOf: (bytes: Uint8Array, mimeType: string) => string | undefined
  /** Entries of a page. @default 100 */
  readonly pageSize?: number | undefined
  /** Milliseconds since 1970. @default Date.now */
  readonly now?: (() => number) | undefined
}

/** Artifacts as resources of MCP. */
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
        // A version stays what it is until it ends.
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

/** Of one completion, as the specification has it. */
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

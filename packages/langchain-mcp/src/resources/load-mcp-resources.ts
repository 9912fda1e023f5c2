import { Document } from '@langchain/core/documents'
import { check } from '@x/internal'
import type { Checks } from '@x/internal'
import { mapBounded } from '../map-bounded.ts'
import { assertOptions } from '../option-check.ts'
import { processWarnings, type ToolLog } from '../tool-log.ts'
import { McpBlob, type ResourceMetadata } from './mcp-blob.ts'
import {
  requestChecks,
  resourceSourceFrom,
  type ListedResource,
  type McpResourceSource,
  type ResourceOptions,
  type SdkResourceClient,
} from './resource-source.ts'

export interface LoadMcpResourcesOptions extends ResourceOptions {
  /** Which ones. Those that fit a template have to be named, they are not listed. @default all that the server lists */
  readonly uris?: readonly string[] | undefined
  /** What becomes of a resource that cannot be read. @default 'throw' */
  readonly onResourceError?: 'throw' | 'skip' | undefined
  /** Told what was skipped. @default warnings of the Node process */
  readonly log?: ToolLog | undefined
}

const optionChecks: Checks<LoadMcpResourcesOptions & { client: unknown }> = {
  ...requestChecks,
  client: check.required({
    ...check.methods('listResources', 'readResource'),
    takes: 'a connected client, an McpClient or what server(name) returns',
  }),
  uris: check.listOf(check.text),
  onResourceError: check.oneOf('throw', 'skip'),
  log: check.func,
}

/** What resources hold, in the order of the list. */
export interface McpResources {
  /** Texts; `metadata` has `uri`, and `mimeType`, `name`, `title`, `description` where they are known. */
  readonly documents: readonly Document<ResourceMetadata>[]
  /** All else, with the same metadata. */
  readonly blobs: readonly McpBlob[]
}

const MAX_PARALLEL_READS = 8

/**
 * Reads resources of a server as LangChain documents and blobs. The client may be ours, the `Client` of
 * SDK v1 or v2, or `McpTools.server(name)`.
 *
 * @throws what the client throws if it cannot list them, and unless they are skipped, read one
 */
export async function loadMcpResources(
  client: McpResourceSource | SdkResourceClient,
  options: LoadMcpResourcesOptions = {},
): Promise<McpResources> {
  assertOptions('loadMcpResources()', { client, ...options }, optionChecks)
  const { uris, onResourceError = 'throw', log = processWarnings, ...request } = options
  const source = resourceSourceFrom(client)
  const listed = uris?.map((uri): ListedResource => ({ uri }))
  const resources = listed ?? (await source.listResources(request))
  const read = await mapBounded(resources, MAX_PARALLEL_READS, async (resource) => {
    try {
      const { contents } = await source.readResource(resource.uri, request)
      return contents.map((content) => loaded(content, resource))
    } catch (error) {
      if (onResourceError === 'throw' || request.signal?.aborted === true) throw error
      const reason = error instanceof Error ? error.message : String(error)
      const message = `A resource is left out, because it could not be read: ${reason}`
      log({ level: 'warning', code: 'RESOURCE_SKIPPED', message, server: 'unnamed' })
      return []
    }
  })
  const all = read.flat()
  return {
    documents: all.filter((one) => one instanceof Document),
    blobs: all.filter((one) => one instanceof McpBlob),
  }
}

function loaded(
  content: Readonly<Record<string, unknown>>,
  resource: ListedResource,
): Document<ResourceMetadata> | McpBlob {
  const metadata = metadataOf(content, resource)
  const { text, blob } = content
  if (typeof blob === 'string') return new McpBlob(blob, metadata)
  const pageContent = typeof text === 'string' ? text : ''
  return new Document({ pageContent, metadata, id: metadata.uri })
}

/** One resource may hold several, each with an address and a type of its own. */
function metadataOf(
  content: Readonly<Record<string, unknown>>,
  { uri, mimeType, name, title, description }: ListedResource,
): ResourceMetadata {
  const fields = {
    uri: typeof content['uri'] === 'string' ? content['uri'] : uri,
    mimeType: typeof content['mimeType'] === 'string' ? content['mimeType'] : mimeType,
    name,
    title,
    description,
  }
  const known = Object.entries(fields).filter(([, value]) => value !== undefined)
  return { ...Object.fromEntries(known), uri: fields.uri }
}

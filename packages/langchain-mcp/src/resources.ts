// Everything exported here is public API.
import './runtime-check.ts' // stays the first import
import { Document } from '@langchain/core/documents'
import { check, definedFields, type Checks } from '@x/internal'
import { mapBounded } from './map-bounded.ts'
import { isUiUri } from './mcp-apps.ts'
import { assertOptions } from './options.ts'
import { resourceSourceFrom, type SdkResourceClient } from './sdk-client.ts'
import {
  requestChecks,
  type ListedResource,
  type McpResourceSource,
  type RequestOptions,
} from './tool-source.ts'

interface LoadMcpResourcesOptions extends RequestOptions {
  /** URIs to read. Resources of a template must be named here, because servers do not list them. @default all that the server lists, without user interfaces (`ui://`) */
  readonly uris?: readonly string[] | undefined
}

const optionChecks: Checks<LoadMcpResourcesOptions & { client: unknown }> = {
  ...requestChecks,
  client: check.required({
    ...check.methods('listResources', 'readResource'),
    takes: 'a connected client, an McpClient or what server(name) returns',
  }),
  uris: check.listOf(check.text),
}

/** Contents of resources, in the order of the list. */
export interface McpResources {
  /** Texts. `metadata` has `uri`, and `mimeType`, `name`, `title` and `description` if they are known. */
  readonly documents: readonly Document<ListedResource>[]
  /** Contents that are not text, with the same metadata. */
  readonly blobs: readonly McpBlob[]
}

/**
 * The bytes of a resource: a `Blob` with the metadata of the resource.
 *
 * @example
 * ```ts
 * import { loadMcpResources, McpBlob } from '@x/langchain-mcp/resources'
 * import { McpClient } from '@x/mcp-client'
 *
 * await using client = new McpClient('https://shop.example/mcp')
 * const { blobs } = await loadMcpResources(client)
 * for (const blob of blobs) console.log(blob instanceof McpBlob, blob.metadata.uri, blob.size)
 * ```
 */
export class McpBlob extends Blob {
  readonly metadata: ListedResource

  /** `base64`: the bytes as the server sent them. */
  constructor(base64: string, metadata: ListedResource) {
    super([Buffer.from(base64, 'base64')], { type: metadata.mimeType ?? '' })
    this.metadata = metadata
  }
}

const MAX_PARALLEL_READS = 8

/**
 * Reads resources of a server as LangChain documents and blobs. The client may be an `McpClient`, the
 * `Client` of SDK v1 or v2, or `McpTools.server(name)`.
 *
 * @throws the client's error if it cannot list the resources or read one. To do without some of them, call it once
 * for each URI.
 * @example
 * ```ts
 * import { loadMcpResources } from '@x/langchain-mcp/resources'
 * import { McpClient } from '@x/mcp-client'
 *
 * await using client = new McpClient('https://shop.example/mcp')
 * const { documents, blobs } = await loadMcpResources(client, { uris: ['shop://catalogue'] })
 * ```
 */
export async function loadMcpResources(
  client: McpResourceSource | SdkResourceClient,
  options: LoadMcpResourcesOptions = {},
): Promise<McpResources> {
  assertOptions('loadMcpResources()', { client, ...options }, optionChecks)
  const { uris, ...request } = options
  const source = resourceSourceFrom(client)
  const listed = uris?.map((uri): ListedResource => ({ uri }))
  const resources =
    listed ?? (await source.listResources(request)).filter(({ uri }) => !isUiUri(uri))
  const read = await mapBounded(resources, MAX_PARALLEL_READS, async (resource) => {
    const { contents } = await source.readResource(resource.uri, request)
    return contents.map((content) => toDocumentOrBlob(content, resource))
  })
  const all = read.flat()
  return {
    documents: all.filter((one) => one instanceof Document),
    blobs: all.filter((one) => one instanceof McpBlob),
  }
}

/** One resource may have several contents, each with its own URI and type. */
function toDocumentOrBlob(
  content: Readonly<Record<string, unknown>>,
  { uri: listedUri, mimeType: listedType, name, title, description }: ListedResource,
): Document<ListedResource> | McpBlob {
  const uri = typeof content['uri'] === 'string' ? content['uri'] : listedUri
  const mimeType = typeof content['mimeType'] === 'string' ? content['mimeType'] : listedType
  const known = definedFields({ mimeType, name, title, description })
  const metadata: ListedResource = { ...known, uri }
  const { text, blob } = content
  if (typeof blob === 'string') return new McpBlob(blob, metadata)
  const pageContent = typeof text === 'string' ? text.toWellFormed() : ''
  return new Document({ pageContent, metadata, id: uri })
}

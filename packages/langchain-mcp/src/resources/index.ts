// Everything exported here is public API.
import '../runtime-check.ts' // stays the first import
export { loadMcpResources } from './load-mcp-resources.ts'
export type { LoadMcpResourcesOptions, McpResources } from './load-mcp-resources.ts'
export { McpBlob } from './mcp-blob.ts'
export type { ResourceMetadata } from './mcp-blob.ts'
export type {
  ListedResource,
  McpResourceSource,
  ReadResource,
  ResourceOptions,
  SdkResourceClient,
} from './resource-source.ts'

// Everything exported here is public API. Needs `langchain`, which the rest of the package does not.
import '../runtime-check.ts' // stays the first import
export { interruptOnFrom } from './interrupt-on.ts'
export type { InterruptOn } from './interrupt-on.ts'
export { mcpToolsMiddleware } from './mcp-tools-middleware.ts'
export type { McpToolsMiddlewareOptions } from './mcp-tools-middleware.ts'

// Everything exported here is public API. Needs `langchain`, which the rest of the package does not.
export { mcpToolsMiddleware } from './mcp-tools-middleware.ts'

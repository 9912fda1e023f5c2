// Everything exported here is public API.
export type { McpServer } from './mcp-server.ts'
export { SessionInfoFactory } from './session-info-factory.ts'
export type { SessionScope } from './session-scope.ts'

import { startLegacyServer, type LegacyServer } from '@x/mcp-testing'
import { onTestFinished } from 'vitest'
import { createMcpTools, type CreateMcpToolsOptions, type McpTools } from '../src/index.ts'

/** Tools of a server with sessions. Both end with the test. */
export async function startShop(
  options: Omit<CreateMcpToolsOptions, 'servers'> = {},
): Promise<{ readonly server: LegacyServer; readonly mcp: McpTools }> {
  const server = await startLegacyServer()
  onTestFinished(() => server[Symbol.asyncDispose]())
  const mcp = createMcpTools({ servers: { shop: { url: server.url } }, ...options })
  onTestFinished(() => mcp.close())
  return { server, mcp }
}

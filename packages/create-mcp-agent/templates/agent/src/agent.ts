import { createMcpTools, FileSessionInfoFactory } from '@x/langchain-mcp'
import type { McpTools } from '@x/langchain-mcp'
import { createAgent } from 'langchain'
import { createModel } from './model.ts'

/** Connects to the MCP server with the first call. The next process continues its session, which a folder keeps. */
export function openTools(): McpTools {
  const { MCP_URL = 'http://127.0.0.1:3001/mcp', SESSIONS_FOLDER = '.sessions' } = process.env
  return createMcpTools({
    servers: { demo: { url: MCP_URL } },
    session: new FileSessionInfoFactory(SESSIONS_FOLDER),
    onServerError: 'throw',
  })
}

export async function createMcpAgent(mcp: McpTools) {
  return createAgent({ model: await createModel(), tools: await mcp.listTools() })
}

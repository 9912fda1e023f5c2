import type { Server } from '@modelcontextprotocol/server'
import { McpServer } from '@modelcontextprotocol/server'
import { addAskingPrompt, addPrompts } from './prompts.ts'
import { addAskingTools } from './asking-tools.ts'
import { addLostStream } from './lost-stream.ts'
import { addResources } from './resources.ts'

/**
 * The server that scenarios of the official conformance suite are written for, as far as a server of
 * agents has nothing of that kind to offer: its names and texts are those that the suite asks for. One
 * for each session or request, in either era; wire it up to whatever HTTP is to be tried.
 */
export function conformanceServer(): Server {
  const mcp = new McpServer(
    { name: 'conformance-fixture', version: '1.0.0' },
    {
      capabilities: {
        tools: { listChanged: true },
        prompts: { listChanged: true },
        resources: { listChanged: true, subscribe: true },
      },
    },
  )
  addAskingTools(mcp)
  addLostStream(mcp)
  addResources(mcp)
  addPrompts(mcp)
  addAskingPrompt(mcp)
  return mcp.server
}

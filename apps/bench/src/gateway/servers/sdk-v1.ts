import { randomUUID } from 'node:crypto'
import { McpServer } from '@modelcontextprotocol/sdk/server/mcp.js'
import { StreamableHTTPServerTransport } from '@modelcontextprotocol/sdk/server/streamableHttp.js'
import { z } from 'zod'
import { echoOf, toolNames } from '../protocol.ts'
import { listen } from './listen.ts'

/** SDK v1 with sessions, a server and a transport for each, as its examples wire it. */
export function serveSdkV1(tools: number): Promise<number> {
  const names = toolNames(tools)
  const sessions = new Map<string, StreamableHTTPServerTransport>()
  return listen(async (request, response) => {
    const id = request.headers['mcp-session-id']
    const known = typeof id === 'string' ? sessions.get(id) : undefined
    if (known) return known.handleRequest(request, response)
    const transport = new StreamableHTTPServerTransport({
      sessionIdGenerator: () => randomUUID(),
      onsessioninitialized: (session) => void sessions.set(session, transport),
    })
    await serverOf(names).connect(transport)
    await transport.handleRequest(request, response)
  })
}

function serverOf(names: readonly string[]): McpServer {
  const server = new McpServer({ name: 'sdk-v1', version: '1.0.0' })
  for (const name of names) {
    const tool = {
      description: 'Says again what it was told.',
      inputSchema: { message: z.string() },
    }
    server.registerTool(name, tool, ({ message }) => ({
      content: [{ type: 'text', text: echoOf(message) }],
    }))
  }
  return server
}

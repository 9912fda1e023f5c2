import { createTool } from '@mastra/core/tools'
import { MCPServer } from '@mastra/mcp'
import { z } from 'zod'
import { echoOf, PATH, toolNames } from '../protocol.ts'
import { listen } from './listen.ts'

/** Mastra's server on `node:http`, as its documentation wires it. It knows the stateless revision only. */
export function serveMastra(count: number): Promise<number> {
  const tools = Object.fromEntries(toolNames(count).map((id) => [id, echoTool(id)]))
  const server = new MCPServer({ id: 'mastra', name: 'mastra', version: '1.0.0', tools })
  return listen((req, res) => {
    const url = new URL(req.url ?? '/', 'http://127.0.0.1')
    void server.startHTTP({ url, httpPath: PATH, req, res })
  })
}

function echoTool(id: string): ReturnType<typeof createTool> {
  return createTool({
    id,
    description: 'Says again what it was told.',
    inputSchema: z.object({ message: z.string() }),
    execute: async ({ message }) => echoOf(message),
  })
}

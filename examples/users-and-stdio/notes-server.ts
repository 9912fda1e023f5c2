import { McpServer } from '@modelcontextprotocol/sdk/server/mcp.js'
import { StdioServerTransport } from '@modelcontextprotocol/sdk/server/stdio.js'
import { z } from 'zod'

const notes: string[] = []
const server = new McpServer({ name: 'notes', version: '1.0.0' })

server.registerTool('note', { inputSchema: { text: z.string() } }, ({ text }) => {
  notes.push(text)
  return { content: [{ type: 'text', text: `notes: ${notes.join(', ')}` }] }
})

await server.connect(new StdioServerTransport())

import type { McpServer } from '@modelcontextprotocol/server'

/** A tool that closes the stream of its own answer, which is to be had by whoever takes the stream up again. */
export function addLostStream(mcp: McpServer): void {
  mcp.registerTool(
    'test_reconnection',
    { description: 'Closes its stream before it answers.' },
    ({ http }) => {
      http?.closeSSE?.()
      return { content: [{ type: 'text', text: 'Whoever reads this came back.' }] }
    },
  )
}

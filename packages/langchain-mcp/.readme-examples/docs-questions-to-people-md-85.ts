import { elicitationToInterrupt, loadMcpTools } from '@x/langchain-mcp'
import { McpClient } from '@x/mcp-client'

const elicitation = elicitationToInterrupt({
  elicitation: async () => ({ action: 'decline' }), // where the graph cannot be interrupted
  humanTimeoutMs: 3_600_000, // the clock of the server stops meanwhile
})
const client = new McpClient(
  { url: 'https://shop.example/mcp' },
  { handlers: elicitation.handlers },
)
const tools = await loadMcpTools(client, { elicitation })
export {}

import { createMcpTools } from '@x/langchain-mcp'
import { loadMcpPrompt } from '@x/langchain-mcp/prompts'
import { loadMcpResources } from '@x/langchain-mcp/resources'

const mcp = createMcpTools({ servers: { shop: { url: 'https://shop.example/mcp' } } })
const { documents, blobs } = await loadMcpResources(mcp.server('shop')) // or { uris: ['file:///a.md'] }
const messages = await loadMcpPrompt(mcp.server('shop'), 'greet', { name: 'Ada' })
export {}

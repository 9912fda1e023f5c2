import { McpClient, mcpJsonDirectory } from '@x/mcp-client'

const directory = mcpJsonDirectory('/etc/agent/mcp.json')
const client = new McpClient({ slug: 'shop' }, { directory })
export {}

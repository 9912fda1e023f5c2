import { SessionInfoDebugStateFactory } from '@x/agents-debugstate'
import { McpClient } from '@x/mcp-client'

const sessionInfoFactory = new SessionInfoDebugStateFactory() // address and agent id from the environment
const client = new McpClient({ url: 'https://shop.example/mcp' }, { sessionInfoFactory })
await client.callTool('add_to_cart', { item: 'apples' })
export {}

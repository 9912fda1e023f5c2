// Calls the gateway as a program that signs in by itself.
import { McpClient } from '@x/mcp-client'
import { clientCredentials } from '@x/mcp-transport/auth'

const authProvider = clientCredentials({
  clientId: 'ci',
  clientSecret: process.env['CLIENT_SECRET'] ?? 'change-this-secret',
})
const url = process.env['MCP_URL'] ?? 'http://localhost:8000/agents/mcp'
// The first sign-in after the start of Keycloak takes a while.
const client = new McpClient({ url }, { authProvider, handshakeMs: 240_000 })
const { content } = await client.callTool('orders', { message: 'Where is order 17?' })
console.log(content)
await client.dispose()

import { createGateway, MemoryGatewayStore } from '@x/mcp-gateway'
import { oauthFacade } from '@x/mcp-gateway-oauth'

const store = new MemoryGatewayStore()
const auth = oauthFacade({
  store,
  resource: 'https://agents.example/mcp', // the MCP endpoint as clients see it
  upstreamUrl: 'https://identity.example', // the identity service of Solace Agent Mesh
})
const gateway = createGateway({ auth, store })
process.stdout.write(`Paths for sign-in: ${auth.paths?.join(' ')}\n`)

await gateway.close()
await store.close()
export {}

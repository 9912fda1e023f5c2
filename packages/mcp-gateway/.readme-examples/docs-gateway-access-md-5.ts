import { bearerAuth, createGateway, jwtAuth, MemoryGatewayStore } from '@x/mcp-gateway'
import { oauthFacade } from '@x/mcp-gateway-oauth'

const resource = 'https://agents.example/mcp' // as clients see it

// One token with every scope.
export const auth = bearerAuth(process.env.MCP_TOKEN)
// Several tokens, each with its scopes.
export const tokens = bearerAuth({
  ci: { sha256: 'ab'.repeat(32), scopes: ['agent:support:call'], expiresAt: '2027-01-01' },
})
export const jwt = jwtAuth({
  issuers: [{ issuer: 'https://login.example', audience: resource }],
  resource,
})
export const store = new MemoryGatewayStore()
export const facade = oauthFacade({ store, resource, upstreamUrl: 'https://identity.example' })

const gateway = createGateway({ auth: facade, store })
export {}

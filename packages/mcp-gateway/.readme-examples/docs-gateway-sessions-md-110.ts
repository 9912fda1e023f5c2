import { bearerAuth, createGateway, langGraphSource } from '@x/mcp-gateway'
import { redisStore } from '@x/mcp-gateway-redis'

const gateway = createGateway({
  sources: [langGraphSource('./langgraph.json')],
  auth: bearerAuth(process.env.MCP_TOKEN),
  store: redisStore({ url: process.env.REDIS_URL }),
  stateKey: process.env.GATEWAY_STATE_KEY, // at least 32 bytes, the same in all
})
export {}

import { createGateway } from '@x/mcp-gateway'
import { redisStore } from '@x/mcp-gateway-redis'

const store = redisStore({ url: process.env.REDIS_URL, prefix: 'shop' })
const gateway = createGateway({
  store,
  stateKey: 'the same 32 bytes or more in each process',
})
process.stdout.write(`Redis is ready: ${await store.isReady()}\n`)

await gateway.close()
await store.close()
export {}

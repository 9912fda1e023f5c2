import { createGateway } from '@x/mcp-gateway'
import { bullmqEngine, redisStore } from '@x/mcp-gateway-redis'

const url = process.env.REDIS_URL
const gateway = createGateway({
  store: redisStore({ url }),
  engine: bullmqEngine({ url, concurrency: 10 }),
  stateKey: 'the same 32 bytes or more in each process',
})
await gateway.work() // in each process that executes tasks
export {}

// Everything exported here is public API.
import '../../runtime-check.ts' // stays the first import
export { RedisGatewayStore } from './redis-gateway-store.ts'
export type { RedisGatewayStoreOptions } from './redis-gateway-store.ts'
export type {
  RedisClient,
  RedisCommand,
  RedisCommandOptions,
  RedisSubscriber,
} from './redis-client.ts'

// Everything exported here is public API.
import './runtime-check.ts' // stays the first import
export { bullmqEngine } from './bullmq-engine.ts'
export type { BullmqEngine, BullmqEngineOptions } from './bullmq-engine.ts'
export { fileSection } from './file-section.ts'
export { redisStore } from './redis-store.ts'
export type { RedisStore, RedisStoreOptions } from './redis-store.ts'
export type {
  RedisClient,
  RedisCommand,
  RedisCommandOptions,
  RedisConnection,
} from './redis-commands.ts'

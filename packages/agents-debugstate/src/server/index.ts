// Everything exported here is public API.
import '../runtime-check.ts' // stays the first import
export { createDebugStateServer, DebugStateServerError } from './create-debug-state-server.ts'
export type {
  DebugStateServer,
  DebugStateServerErrorCode,
  ListenOptions,
} from './create-debug-state-server.ts'
export type {
  DebugStateLimits,
  DebugStateLogger,
  DebugStateServerOptions,
  FetchHandler,
  WriteLog,
} from './debug-state-handler.ts'
export { DebugStateStoreError } from './debug-state-store.ts'
export type {
  DebugStateAddress,
  DebugStateStore,
  DebugStateStoreErrorCode,
} from './debug-state-store.ts'
export { MemoryDebugStateStore } from './memory-debug-state-store.ts'
export type { ProblemCode } from './protocol.ts'
export type { RedisClient, RedisCommand, RedisCommandOptions } from '@x/internal/redis'
export { RedisDebugStateStore } from './redis-debug-state-store.ts'
export type { RedisDebugStateStoreOptions } from './redis-debug-state-store.ts'
export { SqliteDebugStateStore } from './sqlite-debug-state-store.ts'
export type { DebugStateTokenGrant } from './tokens.ts'

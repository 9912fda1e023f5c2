// Everything exported here is public API.
import '../runtime-check.ts' // stays the first import
export type { DebugStateTokenGrant } from './access.ts'
export { createDebugStateServer } from './create-debug-state-server.ts'
export type {
  DebugStateServer,
  DebugStateServerOptions,
  DebugStateTimeouts,
  ListenOptions,
} from './create-debug-state-server.ts'
export type {
  DebugStateHandlerOptions,
  DebugStateLimits,
  FetchHandler,
  KeyList,
  ListedKey,
} from './debug-state-handler.ts'
export type { DebugStateLogger, WriteLog } from './debug-state-logger.ts'
export { DebugStateServerError } from './debug-state-server-error.ts'
export type { DebugStateServerErrorCode } from './debug-state-server-error.ts'
export type {
  DebugStateAddress,
  DebugStateStore,
  DeleteOutcome,
  PutOptions,
  PutOutcome,
  StoredEntry,
  StoredValue,
} from './debug-state-store.ts'
export { DebugStateStoreError } from './debug-state-store-error.ts'
export type {
  DebugStateStoreErrorCode,
  DebugStateStoreErrorOptions,
} from './debug-state-store-error.ts'
export { MemoryDebugStateStore } from './memory-debug-state-store.ts'
export type { MemoryDebugStateStoreOptions } from './memory-debug-state-store.ts'
export type { Precondition } from './precondition.ts'
export type { Problem, ProblemCode } from './problem.ts'
export type { RedisClient, RedisCommand, RedisCommandOptions } from './redis-client.ts'
export { RedisDebugStateStore } from './redis-debug-state-store.ts'
export type { RedisDebugStateStoreOptions } from './redis-debug-state-store.ts'
export { SqliteDebugStateStore } from './sqlite-debug-state-store.ts'
export type { SqliteDebugStateStoreOptions } from './sqlite-debug-state-store.ts'
export type { SqliteSynchronous } from './sqlite-file.ts'

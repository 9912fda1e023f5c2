// Helpers for the tests of this repository. Nothing here is published.
export { deferred } from './deferred.ts'
export type { Deferred } from './deferred.ts'
export { everythingStdioCommand, startEverythingServer } from './everything-server.ts'
export type { EverythingServer, EverythingServerOptions } from './everything-server.ts'
export { freePort } from './free-port.ts'
export { startRedisServer } from './redis-server.ts'
export type { RedisServer, RedisServerOptions } from './redis-server.ts'
export { sourceNode } from './source-node.ts'

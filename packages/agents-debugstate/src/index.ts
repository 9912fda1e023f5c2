// Everything exported here is public API.
import './runtime-check.ts' // stays the first import
export { DebugStateError } from './debug-state-client.ts'
export type { DebugStateErrorCode } from './debug-state-client.ts'
export type { DebugStateConfigOptions, DebugStateToken } from './debug-state-config.ts'
export { SessionInfoDebugState } from './session-info-debug-state.ts'
export type { SessionInfoDebugStateOptions } from './session-info-debug-state.ts'
export { SessionInfoDebugStateFactory } from './session-info-debug-state-factory.ts'
export type { SessionInfoDebugStateFactoryOptions } from './session-info-debug-state-factory.ts'

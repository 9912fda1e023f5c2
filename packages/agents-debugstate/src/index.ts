// Everything exported here is public API. How the local copy and the remote one are kept in step is private.
import './runtime-check.ts' // stays the first import
export { DebugStateClient } from './debug-state-client.ts'
export type {
  DebugStateClientOptions,
  RemoteValue,
  WriteCondition,
  WriteOutcome,
} from './debug-state-client.ts'
export type {
  DebugStateConfig,
  DebugStateConfigOptions,
  DebugStateToken,
} from './debug-state-config.ts'
export { DebugStateError } from './debug-state-error.ts'
export type { DebugStateErrorCode, DebugStateErrorOptions } from './debug-state-error.ts'
export { debugStateKey } from './debug-state-key.ts'
export type { DebugStateKey } from './debug-state-key.ts'
export type { RemoteValues } from './remote-session.ts'
export { SessionInfoDebugState } from './session-info-debug-state.ts'
export type { SessionInfoDebugStateOptions } from './session-info-debug-state.ts'
export { SessionInfoDebugStateFactory } from './session-info-debug-state-factory.ts'
export type { SessionInfoDebugStateFactoryOptions } from './session-info-debug-state-factory.ts'
export type { WarningListener } from './warnings.ts'

// Everything exported here is public API.
import './runtime-check.ts' // stays the first import
export { DebugStateClient, DebugStateError } from './debug-state-client.ts'
export type {
  DebugStateClientOptions,
  DebugStateErrorCode,
  DebugStateErrorOptions,
  RemoteValue,
  WriteCondition,
  WriteOutcome,
} from './debug-state-client.ts'
export { debugStateKey } from './debug-state-config.ts'
export type {
  DebugStateConfig,
  DebugStateConfigOptions,
  DebugStateKey,
  DebugStateToken,
} from './debug-state-config.ts'
export type { RemoteValues } from './remote-session.ts'
export { SessionInfoDebugState } from './session-info-debug-state.ts'
export type { SessionInfoDebugStateOptions } from './session-info-debug-state.ts'
export { SessionInfoDebugStateFactory } from './session-info-debug-state-factory.ts'
export type {
  SessionInfoDebugStateFactoryOptions,
  WarningListener,
} from './session-info-debug-state-factory.ts'

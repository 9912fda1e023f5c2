// Everything exported here is public API.
import './runtime-check.ts' // stays the first import
export { deferred, freePort } from '@x/internal/testing'
export type { Deferred } from '@x/internal/testing'
export { CallLedger } from './call-ledger.ts'
export type { CallFilter, CallState, LedgerEntry } from './call-ledger.ts'
export type { CannedAnswer } from './canned-answer.ts'
export { startLegacyServer } from './legacy-server.ts'
export type { LegacyServer, LegacyServerOptions } from './legacy-server.ts'
export { lossForms, toolFailures } from './loss-forms.ts'
export type { LossForm, LossFormName, LossVerdict } from './loss-forms.ts'
export { startModernServer } from './modern-server.ts'
export type { ModernServer, ModernServerOptions } from './modern-server.ts'
export type { Listener, ReceivedRequest, ResponseEnd, ServerOptions } from './recorded-server.ts'
export type { WaitForOptions } from './recording.ts'
export type {
  Exchange,
  ExchangeEnd,
  ExchangeFilter,
  ExchangeMark,
  RecordedMessage,
} from './proxy/exchange.ts'
export type { Break, Fault, InjectedAction, InjectionRule, NamedFault } from './proxy/faults.ts'
export { startRecordingProxy } from './proxy/recording-proxy.ts'
export type {
  ExchangeEvent,
  RecordingProxy,
  RecordingProxyOptions,
} from './proxy/recording-proxy.ts'
export { seededFaults } from './proxy/seeded-faults.ts'
export type { FaultKind, SeededFaultOptions } from './proxy/seeded-faults.ts'
export { startReplaceableServer } from './replaceable-server.ts'
export type { ReplaceableServer } from './replaceable-server.ts'
export type { ScriptedAnswer, ScriptedEvent, ScriptedReply } from './scripted-answer.ts'
export { discoverResult, startScriptedServer } from './scripted-server.ts'
export type {
  Script,
  ScriptedListener,
  ScriptedServer,
  ScriptHandler,
  ScriptRequest,
} from './scripted-server.ts'
export { seededRandom } from './seeded-random.ts'
export { startTaskServer } from './task-server.ts'
export type { TaskServer, TaskServerOptions, TestTask } from './task-server.ts'
export { startTestServer } from './loopback-server.ts'
export type { TestServer } from './loopback-server.ts'
export type { TestTool, TestToolResult, ToolContext } from './tools.ts'

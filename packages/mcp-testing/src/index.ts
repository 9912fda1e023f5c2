export type { CannedAnswer } from './canned-answer.ts'
export { deferred } from './deferred.ts'
export type { Deferred } from './deferred.ts'
export type { Exchange, ExchangeEnd, ExchangeFilter } from './exchange.ts'
export { freePort } from '@x/internal/testing'
export { handlerDispatcher } from './handler-dispatcher.ts'
export type { RequestHandler } from './handler-dispatcher.ts'
export type { InjectedAction, InjectionRule } from './injection-rule.ts'
export type { Listener } from './listener.ts'
export { lossForms, toolFailures } from './loss-forms.ts'
export type { LossForm, LossFormName, LossVerdict } from './loss-forms.ts'
export { startModernServer } from './modern/modern-server.ts'
export type { ModernServer, ModernServerOptions } from './modern/modern-server.ts'
export type { ToolRun } from './modern/run-log.ts'
export type { ReceivedRequest } from './received-request.ts'
export type { WaitForOptions } from './recording.ts'
export { startRecordingProxy } from './recording-proxy.ts'
export type {
  ExchangeEvent,
  ExchangeMark,
  RecordingProxy,
  RecordingProxyOptions,
} from './recording-proxy.ts'
export { startReplaceableServer } from './replaceable-server.ts'
export type { ReplaceableServer, ServerKind } from './replaceable-server.ts'
export { seededRandom } from './seeded-random.ts'
export type {
  InitializeFault,
  LegacyServerBehaviour,
  LegacyServerOptions,
} from './legacy-behaviour.ts'
export { startLegacyServer } from './legacy-server.ts'
export type { LegacyServer } from './legacy-server.ts'
export { headerAnnotationForms } from './scripted/header-annotation-forms.ts'
export type {
  HeaderAnnotationForm,
  HeaderAnnotationFormName,
} from './scripted/header-annotation-forms.ts'
export { probeForms } from './scripted/probe-forms.ts'
export type { ProbeForm, ProbeFormName, ProbeVerdict } from './scripted/probe-forms.ts'
export type { ResponseEnd } from './scripted/open-response.ts'
export type { ScriptedAnswer, StatelessEvent, StatelessReply } from './scripted/scripted-answer.ts'
export type { ScriptedListener } from './scripted/scripted-listener.ts'
export { discoverResult, startScriptedServer } from './scripted/scripted-server.ts'
export type {
  StatelessExchange,
  StatelessHandler,
  StatelessRequest,
  StatelessScript,
  ScriptedServer,
  ScriptedServerOptions,
} from './scripted/scripted-server.ts'
export { startTestServer } from './test-server.ts'
export type { TestServer, TestServerOptions } from './test-server.ts'

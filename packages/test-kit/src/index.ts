export type { CannedAnswer } from './canned-answer.ts'
export { lossForms } from './loss-forms.ts'
export type { LossForm, LossFormName, LossVerdict } from './loss-forms.ts'
export type { WaitForOptions } from './recording.ts'
export { startRecordingProxy } from './recording-proxy.ts'
export type {
  Exchange,
  ExchangeEnd,
  ExchangeEvent,
  ExchangeFilter,
  ExchangeMark,
  InjectedAction,
  InjectionRule,
  RecordingProxy,
  RecordingProxyOptions,
} from './recording-proxy.ts'
export { startStatefulServer } from './stateful-server.ts'
export type {
  InitializeFault,
  ReceivedRequest,
  StatefulServer,
  StatefulServerBehaviour,
  StatefulServerOptions,
} from './stateful-server.ts'
export { startTestServer } from './test-server.ts'
export type { TestServer, TestServerOptions } from './test-server.ts'

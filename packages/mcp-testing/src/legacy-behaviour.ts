import type { CannedAnswer } from './canned-answer.ts'
import type { LossFormName } from './loss-forms.ts'

/** What happens to the next `initialize` requests. */
export interface InitializeFault {
  /** How many of them. @default 1 */
  readonly times?: number | undefined
  /** They are answered only after this has settled. */
  readonly until?: Promise<unknown> | undefined
  /** They are answered with this, and no session is made. @default a normal answer */
  readonly answer?: CannedAnswer | undefined
}

/** How the server behaves. Each one is also a property, and may be changed while it runs. */
export interface LegacyServerBehaviour {
  /** Content type of answers to requests. @default 'json' */
  answerAs: 'json' | 'sse'
  /** Whether the events of an SSE answer have ids; without, a broken answer is lost. @default true */
  eventIds: boolean
  /** Whether it assigns session ids; without, all clients share one state. @default true */
  assignSessions: boolean
  /** How it refuses a session it does not know. @default '404-32001' */
  lossForm: LossFormName | CannedAnswer
  /** What it does with a GET. `one-per-session` refuses a second one with 409. @default 'open' */
  listenStream: 'open' | 'one-per-session' | 'refuse-405' | 'close-at-once'
  /** What it does with a DELETE. @default 'allow' */
  terminate: 'allow' | 'refuse-405'
  /** Status for notifications and responses. @default 202 */
  acceptedStatus: 200 | 202 | 204
  /** Answer to `tools/call`, sent after the tool has run. @default undefined: the result of the tool */
  callAnswer: CannedAnswer | undefined
  /** Fault of the next `initialize` requests; gone when it has been used up. @default undefined */
  initialize: InitializeFault | undefined
  /** Tools per page of `tools/list`. @default undefined: all on one page */
  pageSize: number | undefined
}

/** Options of {@link startLegacyServer}. */
export type LegacyServerOptions = {
  readonly [Name in keyof LegacyServerBehaviour]?: LegacyServerBehaviour[Name] | undefined
}

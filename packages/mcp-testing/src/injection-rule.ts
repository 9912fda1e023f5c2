import type { CannedAnswer } from './canned-answer.ts'
import type { Exchange } from './exchange.ts'

/** What a rule does with an exchange. */
export type InjectedAction =
  | CannedAnswer // instead of the server, which never sees the request
  | 'reset-before' // the client's connection is reset, the server never sees the request
  | 'reset-after' // the server does its work, then the client's connection is reset before any answer
  | 'cut-stream' // the head of the answer passes, then the client's connection ends
  | 'hang' // no answer; the server never sees the request
  | 'forward' // nothing: for a function that only delays

/** A fault for some exchanges. */
export interface InjectionRule {
  /** Asked when the request has been read; the exchange has no answer yet. */
  readonly match: (exchange: Exchange) => boolean
  /** How many exchanges it acts on. @default all until it is undone */
  readonly times?: number | undefined
  /** A function may hold the exchange as long as it likes, and then say what happens. */
  readonly action: InjectedAction | ((exchange: Exchange) => Promise<InjectedAction>)
}

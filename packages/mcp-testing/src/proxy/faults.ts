import type { CannedAnswer } from '../canned-answer.ts'
import type { Exchange } from './exchange.ts'

/**
 * How a connection breaks: a TCP reset, a regular close, or a stall, where it stays open and nothing
 * moves any more.
 */
export type Break = 'reset' | 'close' | 'stall'

/** A fault of one exchange. */
export type Fault =
  /**
   * The server gets nothing of the request, or its head and half of its body. With `nothing` and `close`,
   * the connection ends when it is used again, as after an idle time-out.
   */
  | { readonly type: 'break-request'; readonly how: Break; readonly after: 'nothing' | 'half' }
  /** The server does its work. The client gets no byte, the head, or the head and so many bytes. */
  | {
      readonly type: 'break-answer'
      readonly how: Break
      readonly after: 'nothing' | 'head' | number
    }
  /** The client gets this answer; the server sees nothing, or has done its work before. */
  | {
      readonly type: 'answer'
      readonly answer: CannedAnswer
      readonly when: 'instead' | 'after-execution'
    }
  /** A JSON answer is followed by the same HTTP response again, a stream by its last event again. */
  | { readonly type: 'repeat-answer' }
  /**
   * Event streams only: the last event is cut in half (on a GET the first one with data), each event
   * comes twice, or neighbours change places. `truncate` also cuts a JSON answer in half.
   */
  | { readonly type: 'change-events'; readonly change: 'truncate' | 'repeat' | 'reorder' }
  /** Bodies arrive in pieces of so many bytes, both ways. */
  | { readonly type: 'split'; readonly bytes: number }
  /** The request or the answer is held for so many milliseconds. */
  | { readonly type: 'delay'; readonly requestMs?: number; readonly answerMs?: number }

/** A {@link Fault} with the name that `exchange.fault` gets. @default its type */
export type NamedFault = Fault & { readonly name?: string }

/** What a rule does with an exchange. */
export type InjectedAction =
  | NamedFault
  | CannedAnswer // instead of the server, which never sees the request
  | 'reset-before' // the client's connection is reset, the server never sees the request
  | 'reset-after' // the server does its work, then the client's connection is reset before any answer
  | 'cut-stream' // the head of the answer passes, then the client's connection closes
  | 'hang' // no answer; the server never sees the request
  | 'forward' // no fault: for a function that only waits

/** A fault for some exchanges. */
export interface InjectionRule {
  /** Called when the request has been read; the exchange has no answer yet. */
  readonly match: (exchange: Exchange) => boolean
  /** How many exchanges it acts on. @default all, until it is removed */
  readonly times?: number | undefined
  /** A function may hold the exchange as long as it likes before it decides. */
  readonly action: InjectedAction | ((exchange: Exchange) => Promise<InjectedAction>)
}

const shorthands: Readonly<Record<string, Fault>> = {
  'reset-before': { type: 'break-request', how: 'reset', after: 'nothing' },
  'reset-after': { type: 'break-answer', how: 'reset', after: 'nothing' },
  'cut-stream': { type: 'break-answer', how: 'close', after: 'head' },
  hang: { type: 'break-request', how: 'stall', after: 'nothing' },
}

/** The fault that an action stands for, with its name; `undefined` for none. */
export function faultFrom(action: InjectedAction): NamedFault | undefined {
  if (typeof action === 'string') {
    const fault = shorthands[action]
    return fault === undefined ? undefined : { ...fault, name: action }
  }
  if (!('type' in action)) {
    return { type: 'answer', answer: action, when: 'instead', name: `answer-${action.status}` }
  }
  return { ...action, name: action.name ?? action.type }
}

type EventChange = 'truncate' | 'repeat' | 'reorder' | 'repeat-last'

const half = (text: string): string => text.slice(0, Math.ceil(text.length / 2))

/**
 * The chunks of an event stream with its events changed. Events without data pass unchanged.
 * `isEndless`: no last event is to be expected, so the first one is truncated.
 */
export async function* changedEvents(
  chunks: AsyncIterable<Buffer>,
  change: EventChange,
  isEndless: boolean,
): AsyncGenerator<Buffer> {
  let held = ''
  const changed = (event: string): string => {
    if (!/^data: *\S/m.test(event)) return event
    if (change === 'repeat') return event + event
    const before = held
    held = event
    if (change === 'repeat-last') return event
    if (change === 'truncate' || before === '') return before
    held = ''
    return event + before
  }

  let buffered = ''
  for await (const chunk of chunks) {
    // Latin-1 keeps every byte, also where a chunk ends inside a character.
    buffered += chunk.toString('latin1')
    let passed = ''
    for (let end = eventEnd(buffered); end > 0; end = eventEnd(buffered)) {
      passed += changed(buffered.slice(0, end))
      buffered = buffered.slice(end)
      if (change === 'truncate' && isEndless && held !== '') {
        yield Buffer.from(passed + half(held), 'latin1')
        return
      }
    }
    if (passed !== '') yield Buffer.from(passed, 'latin1')
  }
  yield Buffer.from(change === 'truncate' ? half(held) : held + buffered, 'latin1')
}

/** Index after the first whole event, or 0. */
function eventEnd(text: string): number {
  const end = /\r?\n\r?\n/.exec(text)
  return end === null ? 0 : end.index + end[0].length
}

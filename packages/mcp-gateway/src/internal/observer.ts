import type { RunEvent } from './run-event.ts'

/**
 * Told what the gateway does: for metrics, traces, logs and the audit. No argument, answer, credential or session
 * id is in it. Everything is optional. What an observer throws is swallowed: it stops no call.
 */
export interface GatewayObserver {
  /**
   * A call has come, by whichever leg.
   *
   * @returns the trace to hand on to the agent in place of the client's
   */
  callStarted?(call: ObservedCall): TraceCarrier | undefined
  /**
   * Calls `run` once, before it returns, in the context that the agent shall have: spans that the agent makes are
   * children of the span of the call. @default calls it
   */
  activate?(call: ObservedCall, run: () => void): void
  /** It was answered, or nobody wants the answer any more. Once for each `callStarted`, with the same object. */
  callEnded?(call: ObservedCall, end: CallEnd): void
  /** A request was turned away for who sent it, or how often, before anybody looked at what it asks for. */
  requestRefused?(refusal: RefusedRequest): void
  /** A file was uploaded or downloaded over HTTP, as far as it got. */
  fileTransferred?(transfer: FileTransfer): void
  /** What runs do. A call that is refused has none; one that asks and is answered has several. */
  runEvent?(event: RunEvent): void
  sessionOpened?(): void
  sessionClosed?(end: SessionEnd): void
  /** Clients were told that a list says something else now. */
  listChanged?(list: 'tools' | 'prompts' | 'resources'): void
  /** Something is odd, or went wrong beside any answer. */
  warned?(message: string, cause?: unknown): void
}

/** One `tools/call`. */
export interface ObservedCall {
  /** As the client asked for it. */
  readonly tool: string
  /** Whether there is such a tool: what clients make up is no label of a metric. */
  readonly isKnown: boolean
  /** Id of the principal. */
  readonly principal: string
  readonly isAnonymous: boolean
  readonly era: 'legacy' | 'modern'
  /** Of the client, if known. */
  readonly address?: string | undefined
  /** `traceparent`, `tracestate` and `baggage`, as the client sent them: in `_meta`, else as headers. */
  readonly trace?: TraceCarrier | undefined
}

export interface CallEnd {
  readonly runId?: string | undefined
  /** `ok`, `asked`, or why not: `_meta.reason` of the result, `insufficient_scope`, `unknown_tool`, `internal` … */
  readonly outcome: string
  /** Name of the tool behind `agent_call`, as far as it named one. */
  readonly target?: string | undefined
  readonly durationMs: number
  /** Of the arguments. */
  readonly requestBytes: number
  /** Of the result. */
  readonly resultBytes: number
}

export interface RefusedRequest {
  /**
   * - `no_credential`: it held none, as the first request of every client that is to sign in.
   * - `bad_credential`: what it held is not accepted.
   * - `sign_in`: an endpoint of the authenticator's own refused it: a code that is not good, somebody who may not sign in.
   * - `unavailable`: whoever could tell was not there.
   * - `origin`: it was addressed to another name, or sent by a page that may not call.
   * - `too_many`: its caller, or its address, came too often.
   */
  readonly reason:
    | 'no_credential'
    | 'bad_credential'
    | 'sign_in'
    | 'unavailable'
    | 'origin'
    | 'too_many'
  /** Of HTTP. */
  readonly status: number
  /** Id of the principal, where it was verified. */
  readonly principal?: string | undefined
  /** Of the client, if known. */
  readonly address?: string | undefined
}

export interface FileTransfer {
  readonly direction: 'upload' | 'download'
  /** Id of the principal; of an upload by a link, of whoever asked for the link. A download by a link is nobody's. */
  readonly principal?: string | undefined
  readonly isAnonymous: boolean
  /** By a link, and not by a credential. */
  readonly isLinked: boolean
  /** First digits of the file's SHA-256, which its `_meta` holds too: its name is a text, and its URI may be a secret. */
  readonly file?: string | undefined
  /** `ok`, `lost` (its taker left), or why not: `not_found`, `too_large`, `no_room`, `invalid`, `unavailable`, `failed` */
  readonly outcome: string
  /** That were kept, or taken. */
  readonly bytes: number
  readonly durationMs: number
  /** Of the client, if known. */
  readonly address?: string | undefined
}

export interface SessionEnd {
  readonly reason: 'client' | 'idle' | 'expired' | 'gateway'
  readonly openMs: number
}

/** W3C trace context as fields. */
export type TraceCarrier = Readonly<Record<string, string>>

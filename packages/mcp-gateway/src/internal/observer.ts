import type { RunEvent } from './run-event.ts'

/**
 * Receives what the gateway does, for metrics, traces, logs and the audit. It gets no argument, answer, credential or
 * session id. Every method is optional. Its errors are ignored, so that they stop no call.
 */
export interface GatewayObserver {
  /**
   * A tool call has arrived.
   *
   * @returns the trace for the agent, if it is not that of the client
   */
  callStarted?(call: ObservedCall): TraceCarrier | undefined
  /**
   * Calls `run` once, before it returns, in the context for the agent, so that spans of the agent are children of the
   * span of the call.
   */
  activate?(call: ObservedCall, run: () => void): void
  /** A tool call was answered, or its client left. Called once for each `callStarted`, with the same object. */
  callEnded?(call: ObservedCall, end: CallEnd): void
  /** A request was refused by its credential, its origin or its rate. */
  requestRefused?(refusal: RefusedRequest): void
  /** An upload or a download over HTTP has ended. */
  fileTransferred?(transfer: FileTransfer): void
  /** Events of runs. A refused call has no run; a call with questions has several. */
  runEvent?(event: RunEvent): void
  sessionOpened?(): void
  sessionClosed?(end: SessionEnd): void
  /** A warning, or an error that no answer reports. */
  warned?(message: string, cause?: unknown): void
}

/** One `tools/call`. */
export interface ObservedCall {
  /** Name in the request. */
  readonly tool: string
  /** `true` if the tool exists. Other names must not become labels of metrics. */
  readonly isKnown: boolean
  /** Id of the principal. */
  readonly principal: string
  readonly isAnonymous: boolean
  readonly era: 'legacy' | 'modern'
  /** Address of the client, if it is known. */
  readonly address: string | undefined
  /** `traceparent`, `tracestate` and `baggage` of the client, from `_meta`, else from headers. */
  readonly trace: TraceCarrier | undefined
}

export interface CallEnd {
  readonly runId: string | undefined
  /** `ok`, `asked`, or the reason of the failure: `_meta.reason` of the result, `insufficient_scope`, `unknown_tool`, `internal` … */
  readonly outcome: string
  readonly durationMs: number
  /** Size of the arguments. */
  readonly requestBytes: number
  /** Size of the result. */
  readonly resultBytes: number
}

export interface RefusedRequest {
  /**
   * - `no_credential`: it had none, like the first request of every client that signs in.
   * - `bad_credential`: its credential is not accepted.
   * - `sign_in`: an endpoint of the authenticator refused it: a wrong code, or a person who may not sign in.
   * - `unavailable`: the credential could not be checked.
   * - `origin`: it used another host name, or a web page sent it that may not call.
   * - `too_many`: its caller, or its address, sent too many requests.
   */
  readonly reason:
    | 'no_credential'
    | 'bad_credential'
    | 'sign_in'
    | 'unavailable'
    | 'origin'
    | 'too_many'
  /** HTTP status. */
  readonly status: number
  /** Id of the principal, if it was verified. */
  readonly principal?: string | undefined
  /** Address of the client, if it is known. */
  readonly address: string | undefined
}

export interface FileTransfer {
  readonly direction: 'upload' | 'download'
  /** Id of the principal. A download by a link has none. */
  readonly principal: string | undefined
  readonly isAnonymous: boolean
  /** `true` for a link, `false` for a credential. */
  readonly isLinked: boolean
  /** First digits of the SHA-256 of the file, which its `_meta` holds too. Its name is a text, and its URI may be secret. */
  readonly file: string | undefined
  /** `ok`, `lost` (the client left), or the reason of the failure: `not_found`, `too_large`, `no_room`, `invalid`, `unavailable`, `failed` */
  readonly outcome: string
  /** Bytes that were stored, or sent. */
  readonly bytes: number
  readonly durationMs: number
  /** Address of the client, if it is known. */
  readonly address: string | undefined
}

export interface SessionEnd {
  readonly reason: 'client' | 'idle' | 'expired' | 'gateway'
  readonly openMs: number
}

/** W3C trace context as fields. */
export type TraceCarrier = Readonly<Record<string, string>>

type Arguments<Name extends keyof GatewayObserver> = Parameters<Required<GatewayObserver>[Name]>
type Answer<Name extends keyof GatewayObserver> = ReturnType<Required<GatewayObserver>[Name]>
type Methods = {
  readonly [Name in keyof GatewayObserver]?: (...args: Arguments<Name>) => Answer<Name>
}

/** Makes one observer of several. An error of one of them reaches neither the others nor the gateway. */
export function allObservers(observers: readonly GatewayObserver[]): Required<GatewayObserver> {
  const all: readonly Methods[] = observers
  /** Makes a function that calls one method of each observer. It returns the last answer that is not `undefined`. */
  const each =
    <Name extends keyof Methods>(name: Name) =>
    (...args: Arguments<Name>): Answer<Name> | undefined => {
      let answer: Answer<Name> | undefined
      for (const observer of all) {
        try {
          answer = observer[name]?.(...args) ?? answer
        } catch {
          // Errors are reported to observers, so an error of an observer cannot be reported.
        }
      }
      return answer
    }
  return {
    callStarted: each('callStarted'),
    activate: (call, run) => {
      let isRun = false
      const once = (): void => {
        if (isRun) return
        isRun = true
        run()
      }
      let next = once
      for (const observer of observers) {
        const inner = next
        if (observer.activate) next = () => observer.activate?.(call, inner)
      }
      try {
        next()
      } catch {
        // As above. The call continues without this context.
      }
      once()
    },
    callEnded: each('callEnded'),
    requestRefused: each('requestRefused'),
    fileTransferred: each('fileTransferred'),
    runEvent: each('runEvent'),
    sessionOpened: each('sessionOpened'),
    sessionClosed: each('sessionClosed'),
    warned: each('warned'),
  }
}

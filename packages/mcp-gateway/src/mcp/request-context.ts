import {
  BAGGAGE_META_KEY,
  TRACEPARENT_META_KEY,
  TRACESTATE_META_KEY,
  type InputRequest,
  type InputResponse,
  type LoggingLevel,
  type RequestId,
} from '@modelcontextprotocol/server'

import type { Principal } from '../internal/principal.ts'
import type { TraceCarrier } from '../internal/observer.ts'

/** What a client says about itself. Never a proof of who it is. */
export interface ClientInfo {
  readonly name: string | undefined
  /** Negotiated revision, such as `2025-11-25`. */
  readonly protocolVersion: string
  readonly capabilities: Readonly<Record<string, unknown>>
}

/** One request of a client while it is being served. Handlers learn everything about the request from it. */
export interface RequestContext {
  /** JSON-RPC id of the request. */
  readonly requestId: RequestId
  readonly principal: Principal
  readonly client: ClientInfo
  /** The session of the request. `undefined` for stateless clients. */
  readonly session: SessionHandle | undefined
  /** Namespace for files of callers without a name. Known for sessions and stdio. */
  readonly namespace: string | undefined
  /** IP address of the client, where it is known. */
  readonly address: string | undefined
  /** Length of the HTTP body that held the request, where it is known: the arguments are not longer. */
  readonly bodyBytes: number | undefined
  /** Aborts when the client cancels or leaves, when the session ends, and when the gateway stops. */
  readonly signal: AbortSignal
  /** `_meta` of the request. */
  readonly meta: Readonly<Record<string, unknown>>
  /** W3C trace context of the client. */
  readonly trace: TraceCarrier | undefined
  /** Answers to questions of an earlier round, where the client calls again with them (2026-07-28). */
  readonly continuation: Continuation | undefined
  /**
   * Sends one piece of progress. `undefined` if the client asked for no progress. Resolves when the client can take
   * more.
   */
  readonly progress: ((piece: ProgressPiece) => Promise<void>) | undefined
  /** Returns true if there is memory for a large response to this caller. */
  hasRoom(): boolean
  /** Sends a log message if the client set a level that includes it. Resolves when the client can take more. */
  log(level: LoggingLevel, text: string): Promise<void>
  /**
   * Sends questions to the client and waits for its answers. Returns `undefined` where nobody can be asked during a
   * request (2026-07-28): the handler then returns the questions as its result, and the client calls again.
   *
   * @throws QuestionTimeout; ProtocolError with which the client refused; the reason of `signal`
   */
  ask(
    requests: Readonly<Record<string, InputRequest>>,
  ): Promise<Readonly<Record<string, InputResponse>> | undefined>
  /**
   * Ends the stream of this response. The client reads the rest with `Last-Event-ID` (SEP-1699). No effect where
   * streams cannot be resumed.
   */
  closeStream(): void
}

/** The session of a request, as handlers use it. */
export interface SessionHandle {
  /** Subscribes the client to changes of a resource. Returns `false` if it has 256 subscriptions already. */
  subscribe(uri: string): Promise<boolean>
  /** Ends a subscription, if there is one. */
  unsubscribe(uri: string): Promise<void>
}

/** A call that a client repeats with answers to the questions of the round before. */
export interface Continuation {
  /** Verified content of `requestState`. */
  readonly state: unknown
  /** Answers by the key of their question. Nothing in them was checked. */
  readonly responses: Readonly<Record<string, unknown>>
}

/** Parameters of `notifications/progress` besides the token. */
export interface ProgressPiece {
  /** Increases with every piece. */
  readonly progress: number
  readonly message: string
}

/** A client did not answer a question in time. */
export class QuestionTimeout extends Error {
  override readonly name = 'QuestionTimeout'

  constructor(timeoutMs: number) {
    super(
      `The client did not answer a question within ${timeoutMs} ms. Call the tool again to repeat it.`,
    )
  }
}

/** Reads the W3C trace context that a client sent: in `_meta`, else as HTTP headers. */
export function readTrace(
  meta: Readonly<Record<string, unknown>>,
  headers: Pick<Headers, 'get'> | undefined,
): TraceCarrier | undefined {
  const isInMeta = typeof meta[TRACEPARENT_META_KEY] === 'string'
  if (!isInMeta && typeof headers?.get(TRACEPARENT_META_KEY) !== 'string') return undefined
  const trace: Record<string, string> = {}
  for (const key of [TRACEPARENT_META_KEY, TRACESTATE_META_KEY, BAGGAGE_META_KEY]) {
    const value = isInMeta ? meta[key] : headers?.get(key)
    if (typeof value === 'string') trace[key] = value
  }
  return trace
}

import {
  BAGGAGE_META_KEY,
  TRACEPARENT_META_KEY,
  TRACESTATE_META_KEY,
  type InputRequest,
  type InputResponse,
  type LoggingLevel,
} from '@modelcontextprotocol/server'
import type { TraceCarrier } from '../internal/observer.ts'
import { accountOf, type Caller, type Principal } from '../internal/principal.ts'
import type { RunProgress, RunResume } from '../runs/order.ts'
import type { Params } from './json-rpc.ts'

export type Questions = Readonly<Record<string, InputRequest>>
export type Answers = Readonly<Record<string, InputResponse>>

/** How a client describes itself in `initialize`, or in `_meta` of a request of 2026-07-28. It proves nothing. */
export interface ClientInfo {
  /** Negotiated revision, such as `2025-11-25`. */
  readonly protocolVersion: string
  readonly capabilities: Params
}

/** Number of resources to which one client may subscribe. */
export const MAX_FOLLOWED = 256

/** A client did not answer a question in time. */
export class QuestionTimeout extends Error {
  override readonly name = 'QuestionTimeout'

  constructor(timeoutMs: number) {
    super(
      `The client did not answer a question within ${timeoutMs} ms. Call the tool again to repeat it.`,
    )
  }
}

/** One request of a client while it is being served. Handlers learn everything about the request from it. */
export abstract class RequestContext {
  readonly caller: Caller
  readonly principal: Principal
  abstract readonly client: ClientInfo
  /** Length of the HTTP body of the request, if known. The arguments are not longer. */
  readonly bodyBytes: number | undefined
  /** Aborts when the client cancels or leaves, when the session ends, and when the gateway stops. */
  abstract readonly signal: AbortSignal
  readonly meta: Params
  /** W3C trace context of the client: in `_meta`, else in the HTTP headers. */
  readonly trace: TraceCarrier | undefined
  /** Answers to the questions of an earlier round. Clients of 2026-07-28 call again with them. */
  abstract readonly continuation: RunResume | undefined
  /**
   * Sends one piece of progress. `undefined` if the client asked for no progress. Resolves when the client can take
   * more.
   */
  abstract readonly progress: RunProgress | undefined

  constructor(meta: Params, caller: Caller, headers: Pick<Headers, 'get'>) {
    const length = headers.get('content-length')
    this.meta = meta
    this.caller = caller
    this.principal = caller.principal
    this.bodyBytes = length === null ? undefined : Number(length)
    this.trace = traceOf(meta, headers)
  }

  /** Returns true if there is memory for a large response to this caller. */
  hasRoom(): boolean {
    return this.caller.hasRoom?.(accountOf(this.caller)) !== false
  }

  /** Subscribes a client with a session to changes of a resource. Returns `false` if it has 256 subscriptions already. */
  subscribe?(uri: string): Promise<boolean>
  /** Ends such a subscription. */
  unsubscribe?(uri: string): Promise<void>

  /** Sends a log message if the client set a level that includes it. Resolves when the client can take more. */
  abstract log(level: LoggingLevel, text: string): Promise<void>

  /**
   * Sends questions to the client and waits for its answers. Returns `undefined` for clients of 2026-07-28, which
   * cannot be asked during a request: the handler returns the questions as its result, and the client calls again.
   *
   * @throws QuestionTimeout; ProtocolError with which the client refused; the reason of `signal`
   */
  abstract ask(questions: Questions): Promise<Answers | undefined>
}

function traceOf(meta: Params, headers: Pick<Headers, 'get'>): TraceCarrier | undefined {
  const isInMeta = typeof meta[TRACEPARENT_META_KEY] === 'string'
  if (!isInMeta && headers.get(TRACEPARENT_META_KEY) === null) return undefined
  const trace: Record<string, string> = {}
  for (const key of [TRACEPARENT_META_KEY, TRACESTATE_META_KEY, BAGGAGE_META_KEY]) {
    const value = isInMeta ? meta[key] : headers.get(key)
    if (typeof value === 'string') trace[key] = value
  }
  return trace
}

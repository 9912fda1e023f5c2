import { AsyncResource } from 'node:async_hooks'
import type { HttpRequest } from '../http/exchange.ts'
import type {
  Answer,
  InputInstructions,
  InputRequest,
  JsonRpcNotification,
  RequestId,
} from '../json-rpc.ts'
import type { ResumptionOptions } from '../transport-options.ts'
import type { TransportError } from '../transport-error.ts'

/** A request of the server to the client, such as an elicitation. */
export interface ServerRequest extends InputRequest {
  /** Its id on the wire. Undefined for a request inside a result. Requests of two sessions may have the same one. */
  readonly id?: RequestId | undefined
  /** Aborts when the server no longer waits for the answer. */
  readonly signal: AbortSignal
  /**
   * Sends the answer. Only the first one counts.
   *
   * @throws TransportError if the server did not take it
   */
  readonly respond: (answer: Answer) => Promise<void>
}

/** Takes what a server sends besides answers. */
export interface MessageHandlers {
  readonly onNotification: (notification: JsonRpcNotification) => void
  readonly onServerRequest: (request: ServerRequest) => void
}

/** Take messages on the response stream of one call, instead of the handlers of the connection. */
export type CallHandlers = Partial<MessageHandlers>

/** Everything that belongs to one call. */
export interface CallOptions extends CallHandlers, ResumptionOptions {
  /** Called with the parameters of each progress notification. The server is asked for progress only with it. */
  readonly onProgress?: ((params: Readonly<Record<string, unknown>>) => void) | undefined
  /** How a call treats inputs that a server of 2026-07-28 requires. */
  readonly inputs?: InputInstructions | undefined
  /** Headers of all HTTP requests of this call. They replace headers of the option `headers`. */
  readonly headers?: Readonly<Record<string, string>> | undefined
  /** A loss of the session fails the call, also where other calls wait for the next session. @default false */
  readonly endsWithSession?: boolean | undefined
}

/** One way of a call to the server: in one session, or all its rounds in the stateless revision. */
export interface Attempt {
  /** Undefined in the stateless revision. */
  readonly session: { readonly id: string | undefined } | undefined
  /** False while the call waits for a user, and not for the server. */
  readonly isAwaited: boolean
  /** True if the server may have received the request. If it is false, `close` ensures that nothing is ever sent. */
  readonly isSent: boolean
  /** Closes its streams, and drops what still arrives. */
  close(reason: TransportError): void
  /** Creates a cheap request that every server answers, with any status. Without one, the server is not checked. */
  check?(): Pick<HttpRequest, 'era' | 'sessionId' | 'headers' | 'body'> | undefined
}

/**
 * A request of the client, from `McpConnection.send()` until its answer or its failure. `McpConnection.createCall()` makes
 * it; another kind of connection may make its own.
 *
 * @example
 * ```ts
 * import { Call } from '@x/mcp-transport'
 *
 * const request = { method: 'ping' }
 * const call = new Call({ id: 1, request, options: {}, onSettled: (outcome) => console.log(outcome) })
 * ```
 */
export class Call {
  /** Number of the call in its connection. */
  readonly id: number
  readonly request: InputRequest
  readonly options: CallOptions
  /** Called once with the answer of the server, or with the failure. Not called for a cancelled call. */
  readonly onSettled: (outcome: Answer | TransportError) => void
  /** Undefined before the request is on its way. Replaced if the call is sent again in another session. */
  attempt: Attempt | undefined
  /** The request was sent again, because the first session was lost. */
  wasRepeated = false
  /** Number of ticks without data. Increased by `OpenCalls`; incoming data sets it to 0. */
  quietTicks = 0
  /** Number of failures in a row before this call. Set by `OpenCalls`. */
  failuresBefore = 0
  /** A connection emits in the async context of the request that opened it, possibly of another call. */
  readonly #context = new AsyncResource('McpCall') // 40 times as fast as AsyncLocalStorage.snapshot()

  constructor({
    id,
    request,
    options,
    onSettled,
  }: Pick<Call, 'id' | 'request' | 'options' | 'onSettled'>) {
    this.id = id
    this.request = request
    this.options = options
    this.onSettled = onSettled
  }

  get isSent(): boolean {
    return this.attempt?.isSent === true
  }

  /** Runs `send` in the async context of the caller, which header functions read credentials from. */
  inContext<T>(send: () => T): T {
    return this.#context.runInAsyncScope(send)
  }
}

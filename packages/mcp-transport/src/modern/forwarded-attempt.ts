import type { Attempt, Call } from '../calls/call.ts'
import type { ConnectionParts } from '../calls/connection-parts.ts'
import type { Exchange } from '../http/exchange.ts'
import type { JsonRpcRequest } from '../json-rpc.ts'
import { toTransportError } from '../transport-error.ts'
import type { TransportError } from '../transport-error.ts'
import { modernPost } from './modern-post.ts'

/**
 * A request of a client that speaks the stateless revision, such as SDK v2. It is sent unchanged, with the headers that
 * repeat parts of the body, and its answer is returned unchanged.
 */
export class ForwardedAttempt implements Attempt {
  readonly session = undefined
  readonly #parts: ConnectionParts
  readonly #call: Call
  exchange: Exchange | undefined
  #isClosed = false

  constructor(parts: ConnectionParts, call: Call) {
    this.#parts = parts
    this.#call = call
  }

  get isAwaited(): boolean {
    return this.exchange?.isAwaited === true
  }

  get isSent(): boolean {
    return true
  }

  close(reason: TransportError): void {
    this.#isClosed = true
    this.exchange?.abort(reason)
  }

  activity(): void {}

  /** @param headers Headers that the client adds. Those that the revision does not allow for requests are left out */
  start(request: JsonRpcRequest, headers: Readonly<Record<string, string>> = {}): void {
    const { http, calls, guard, onNotification } = this.#parts
    modernPost(http, request, {
      isOfCaller: true,
      call: this,
      headers: paramHeaders(headers),
      onMessage: (message) => {
        if (this.#isClosed || !('method' in message) || 'id' in message) return
        guard(() => onNotification(message))
      },
    }).then(
      (outcome) =>
        calls.settle(
          this.#call,
          this,
          outcome.kind === 'answered' ? outcome.answer : outcome.error,
        ),
      (error: unknown) => calls.settle(this.#call, this, toTransportError(error)),
    )
  }
}

function paramHeaders(headers: Readonly<Record<string, string>>): string[] {
  return Object.entries(headers).flatMap(([name, value]) =>
    name.toLowerCase().startsWith('mcp-param-') ? [name.toLowerCase(), value] : [],
  )
}

import {
  LOG_LEVEL_META_KEY,
  PerRequestHTTPServerTransport,
  ProtocolErrorCode,
  type InboundClassificationOutcome,
  type InboundModernRoute,
  type JSONRPCMessage,
} from '@modelcontextprotocol/server'
import { isRecord } from '@x/internal'

/** The revision in which lone calls are made. */
export const LONE_CALL_REVISION = '2026-07-28'

/** What became of a call. `refused`: nobody looked at it; `closed`: nobody wants its answer any more. */
export type LoneOutcome =
  | { readonly message: JSONRPCMessage; readonly status: number }
  | 'refused'
  | 'closed'

type LoneRoute = Extract<InboundModernRoute, { messageKind: 'request' }>

/**
 * A call that is plainly right, and asks for nothing but its answer: neither for progress nor for logs, so that
 * nothing comes before it. All others are for the SDK's handler, which knows how each of them is refused.
 */
export function loneRouteFrom(
  route: InboundClassificationOutcome,
  { headers }: Request,
): LoneRoute | undefined {
  if (route.kind !== 'modern' || route.messageKind !== 'request') return undefined
  const { method, params } = route.message
  const { _meta: meta } = params ?? {}
  const isLone =
    method === 'tools/call' &&
    route.classification.revision === LONE_CALL_REVISION &&
    headers.get('mcp-protocol-version') === LONE_CALL_REVISION &&
    headers.get('mcp-method') === method &&
    headers.get('mcp-name') === params?.['name'] &&
    isRecord(meta) &&
    meta['progressToken'] === undefined &&
    meta[LOG_LEVEL_META_KEY] === undefined
  return isLone ? route : undefined
}

/**
 * The transport of one such call. Its answer is handed on as a message, and not as a `Response` that is read again.
 * A server that has answered the only request that it ever gets holds nothing, and need not be closed.
 */
export class LoneCall extends PerRequestHTTPServerTransport {
  readonly #route: LoneRoute
  #settle: ((outcome: LoneOutcome) => void) | undefined
  #isDispatching = false

  constructor(route: LoneRoute) {
    super({ classification: route.classification })
    this.#route = route
  }

  /** Hands the call to the server that is connected. Once. */
  outcome(request: Request): Promise<LoneOutcome> {
    const { message, classification } = this.#route
    return new Promise((resolve) => {
      this.#settle = resolve
      this.#isDispatching = true
      this.onmessage?.(message, { classification, request })
      this.#isDispatching = false
    })
  }

  override async send(message: JSONRPCMessage): Promise<void> {
    // Handlers run later: what is said by now is that there will be none.
    if (!('method' in message)) {
      this.#end(this.#isDispatching ? 'refused' : { message, status: statusOf(message) })
    }
  }

  /** Cancels it, unless it has ended. */
  override async close(): Promise<void> {
    if (this.#end('closed')) this.onclose?.()
  }

  #end(outcome: LoneOutcome): boolean {
    const settle = this.#settle
    this.#settle = undefined
    settle?.(outcome)
    return settle !== undefined
  }
}

const MISSING_CAPABILITY: number = ProtocolErrorCode.MissingRequiredClientCapability

/** The only error of a handler that has a status of its own (specification 2026-07-28, "Transports"). */
function statusOf(message: JSONRPCMessage): number {
  return 'error' in message && message.error.code === MISSING_CAPABILITY ? 400 : 200
}

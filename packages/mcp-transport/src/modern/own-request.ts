import { closedError } from '../closed-error.ts'
import type { Exchange } from '../http/exchange.ts'
import { withIdentity } from './meta.ts'
import type { ModernCallHost } from './modern-call.ts'
import { modernHeaders } from './modern-headers.ts'
import { modernPost } from './modern-post.ts'
import type { PostOutcome } from './modern-post.ts'

export interface OwnRequest {
  readonly method: string
  readonly params: Readonly<Record<string, unknown>>
  /** Aborting it closes the stream, which is the cancel (2026-07-28, basic/patterns/cancellation). */
  readonly signal: AbortSignal
}

/** A request that the client has not made: to find something out for it. Never rejects for what the server does. */
export async function ownRequest(
  host: Omit<ModernCallHost, 'tools' | 'inputs' | 'deliver' | 'checked'>,
  { method, params, signal }: OwnRequest,
): Promise<PostOutcome> {
  const { http, timeouts, lingering, identity } = host
  const request = {
    jsonrpc: '2.0',
    id: host.nextId(),
    method,
    params: withIdentity(params, identity),
  } as const
  let exchange: Exchange | undefined
  const stop = (): void => {
    const url = http.url.display
    exchange?.abort(closedError('The client cancelled the request', url))
  }
  signal.addEventListener('abort', stop, { once: true })
  const outcome = await modernPost({
    http,
    isOfCaller: true,
    request,
    headers: modernHeaders(request, identity.protocolVersion),
    headersMs: timeouts.headersMs,
    lingering,
    onMessage: () => {},
    onExchange: (started) => {
      exchange = started
      return !signal.aborted
    },
  })
  signal.removeEventListener('abort', stop)
  return outcome
}

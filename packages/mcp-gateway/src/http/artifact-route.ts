import { isPrincipal } from '../internal/principal.ts'
import type { Clock } from '../internal/clock.ts'
import type { Admission } from './admission.ts'
import type { HttpExchange } from '../internal/exchange.ts'
import type { HttpRoute } from './http-route.ts'
import type { GatewayObserver } from '../internal/observer.ts'
import type { ArtifactCaller } from '../files/namespaces.ts'
import type { ArtifactHandler } from './artifact-download.ts'
import { ObservedTransfer } from './observed-transfer.ts'
import { problemResponse } from './problem-response.ts'

export interface ArtifactRouteOptions {
  readonly path: string
  readonly handlers: readonly ArtifactHandler[]
  readonly admission: Admission
  /** The gateway is about to stop: nothing new begins. */
  readonly isDraining: () => boolean
  /** Told of files that went in or out. @default nobody */
  readonly observer: Pick<GatewayObserver, 'fileTransferred'> | undefined
  readonly clock: Clock
}

/** Downloads and uploads, of who has a credential, or a link. */
export function artifactRoute(options: ArtifactRouteOptions): HttpRoute {
  const { path, handlers, admission, isDraining, observer, clock } = options
  return {
    isStreamed: true,
    matches: (requested) => requested.startsWith(`${path}/`),
    async handle(exchange) {
      if (isDraining()) return problemResponse(503, 'CLOSED', 'The gateway is stopping')
      const caller = await callerOf(exchange, admission)
      if (caller !== undefined && !('principal' in caller)) return caller
      const transfer = observer && new ObservedTransfer({ exchange, caller, clock, observer })
      for (const handler of handlers) {
        const response = await handler(exchange.request, caller, transfer?.onFile)
        if (response) return transfer?.answered(response) ?? response
      }
      const refusal = problemResponse(405, 'METHOD', 'A file is read with GET, and sent with PUT')
      refusal.headers.set('allow', 'GET, HEAD, PUT')
      return refusal
    },
  }
}

/** Returns the caller. `undefined` for a request whose only credential is a signed link. */
async function callerOf(
  exchange: HttpExchange,
  admission: Admission,
): Promise<ArtifactCaller | Response | undefined> {
  const { address, request } = exchange
  const hasLink = new URL(request.url).searchParams.has('sig')
  if (hasLink && !request.headers.has('authorization')) return admission.refusal(exchange)
  const who = await admission.admit(exchange)
  return isPrincipal(who) ? { principal: who, address } : who
}

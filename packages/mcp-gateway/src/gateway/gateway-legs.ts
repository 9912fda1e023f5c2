import type { Clock } from '../internal/clock.ts'
import { GatewayError } from '../errors.ts'
import type { GatewaySettings } from '../options.ts'
import { SessionLeg } from '../mcp/session-leg.ts'
import { LegacyLeg } from '../mcp/sessions/legacy-leg.ts'
import { StatelessHttp } from '../mcp/stateless-http.ts'
import { OpenStreams } from '../mcp/open-streams.ts'
import type { ServerMaker } from '../mcp/sdk-server.ts'
import type { ServerParts } from '../mcp/sdk-server.ts'
import { StatelessLeg } from '../mcp/stateless-leg.ts'
import type { GatewayStore } from '../store/gateway-store.ts'

export interface GatewayLegsParts {
  readonly options: Pick<GatewaySettings, 'eras' | 'http' | 'limits' | 'sessions'>
  readonly parts: ServerParts
  readonly servers: ServerMaker
  readonly store: GatewayStore
  /** Names this process among those that share the store. */
  readonly replica: string
  readonly clock: Clock
  readonly maxBodyBytes: number
  readonly sessionEdge: SessionEdge
}

/** `own`: sessions without servers and transports of the SDK. Only tests use it, until it replaces `sdk`. */
export type SessionEdge = 'sdk' | 'own'

/** What serves each era; `undefined`: it is not served. */
export interface GatewayLegs {
  readonly modern: StatelessHttp | undefined
  readonly legacy: LegacyLeg | SessionLeg | StatelessLeg | undefined
}

/** @throws GatewayError `CONFIG` where no era is served at all */
export function gatewayLegs(made: GatewayLegsParts): GatewayLegs {
  const { eras, limits } = made.options
  if (!eras.modern && eras.legacy === 'off') {
    const message =
      'No revision of the protocol would be served: eras.modern is false, and eras.legacy off'
    throw new GatewayError('CONFIG', message, { path: 'eras' })
  }
  const streams = new OpenStreams({
    perPrincipal: limits.subscriptionsPerPrincipal,
    perAddress: limits.subscriptionsPerAddress,
  })
  return { modern: modernLeg(made, streams), legacy: legacyLeg(made, streams) }
}

function modernLeg(
  { options, parts, servers, maxBodyBytes }: GatewayLegsParts,
  streams: OpenStreams,
): StatelessHttp | undefined {
  const { eras, http, limits } = options
  if (!eras.modern) return undefined
  return new StatelessHttp({
    parts,
    servers,
    maxSubscriptions: limits.subscriptions,
    streams,
    keepAliveMs: http.keepAliveMs,
    maxBodyBytes,
  })
}

function legacyLeg(
  made: GatewayLegsParts,
  streams: OpenStreams,
): LegacyLeg | SessionLeg | StatelessLeg | undefined {
  const { options, parts, servers, store, replica, clock, maxBodyBytes } = made
  const { eras, http, sessions } = options
  if (eras.legacy === 'off') return undefined
  if (eras.legacy === 'stateless') return new StatelessLeg({ parts, servers, maxBodyBytes })
  const { keepAliveMs } = http
  const own = { parts, store, limits: sessions, streams, clock, keepAliveMs }
  return made.sessionEdge === 'own'
    ? new SessionLeg(own)
    : new LegacyLeg({ ...own, servers, replica, maxBodyBytes })
}

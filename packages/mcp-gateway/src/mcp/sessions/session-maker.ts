import { AsyncLocalStorage } from 'node:async_hooks'
import { hash } from 'node:crypto'

import type { Clock } from '../../internal/clock.ts'
import type { GatewayStore } from '../../store/gateway-store.ts'
import { LegacySession } from './legacy-session.ts'
import type { ServerMaker } from '../sdk-server.ts'
import type { PostExchange } from './post-exchange.ts'
import type { ServerRequestIds } from '../replicas/server-request-ids.ts'
import { SessionEvents, type KeptEvent } from './session-events.ts'
import type { EffectiveSessionLimits } from './session-limits.ts'
import { SessionTransport } from './session-transport.ts'

export interface SessionMakerOptions {
  readonly servers: ServerMaker
  readonly logs: GatewayStore['logs']
  readonly clock: Clock
  readonly keepAliveMs: number
  readonly maxBodyBytes: number
  /** Other processes may go on with sessions. @default none may */
  readonly shared?: SharedParts | undefined
  readonly onError: (error: Error) => void
}

interface SharedParts {
  /** Names this process. */
  readonly replica: string
  readonly ids: ServerRequestIds
  readonly onKept: (name: string, stream: string, event: KeptEvent) => void
  readonly onTaken: (name: string, stream: string) => void
}

export interface SessionPlan {
  readonly id: string
  /** What stands for it outside of this process. */
  readonly name: string
  readonly principalId: string
  readonly scope: string | undefined
  /** @default now */
  readonly createdAt?: number | undefined
  readonly limits: EffectiveSessionLimits
  /** It is closed, by whomever. */
  readonly onClosed: (session: LegacySession) => void
  /** Its client is ready to hear. */
  readonly onReady: (session: LegacySession) => void
}

export interface MadeSession {
  readonly session: LegacySession
  readonly transport: SessionTransport
  readonly events: SessionEvents | undefined
}

/** Makes for each session a server, a transport, and what keeps its events. */
export class SessionMaker {
  readonly #options: SessionMakerOptions
  readonly #current = new AsyncLocalStorage<PostExchange>()
  /** Events can be kept; told once each time that this changes. */
  #isKeeping = true

  constructor(options: SessionMakerOptions) {
    this.#options = options
  }

  async make(plan: SessionPlan): Promise<MadeSession> {
    const { servers, clock, keepAliveMs, maxBodyBytes, shared } = this.#options
    const { id, name, limits } = plan
    let made: LegacySession | undefined
    const events = this.#eventsOf(plan, () => made)
    const transport = new SessionTransport({
      sessionIdGenerator: () => id,
      keepAliveMs,
      retryInterval: limits.retryMs,
      maxRequestBodySize: maxBodyBytes,
      ...(events && { eventStore: events }),
      ids: shared?.ids,
    })
    const server = servers.createFor(transport)
    const session = new LegacySession(
      {
        principalId: plan.principalId,
        scope: plan.scope,
        transport,
        server,
        events,
        disconnectGraceMs: limits.disconnectGraceMs,
        clock,
        createdAt: plan.createdAt,
        ...(shared && {
          isShared: true,
          onTaken: (stream: string) => shared.onTaken(name, stream),
        }),
      },
      this.#current,
    )
    made = session
    transport.onclose = () => plan.onClosed(session)
    server.oninitialized = () => plan.onReady(session)
    await server.connect(transport)
    return { session, transport, events }
  }

  #eventsOf(
    { id, name, limits }: SessionPlan,
    session: () => LegacySession | undefined,
  ): SessionEvents | undefined {
    const { clock, logs, shared, onError } = this.#options
    if (!limits.events) return undefined
    return new SessionEvents({
      logs,
      session: hash('sha256', id).slice(0, 32),
      limits: limits.events,
      onEvent: (stream, answered) => session()?.noteEvent(stream, answered),
      onKept: () => {
        this.#isKeeping = true
      },
      onLost: (cause) => {
        if (this.#isKeeping) onError(new Error('Events of sessions cannot be kept now', { cause }))
        this.#isKeeping = false
      },
      now: () => clock.now(),
      shared: shared && {
        replica: shared.replica,
        requestIds: () => [...(this.#current.getStore()?.unanswered ?? [])],
        isAnswered: (stream) => session()?.isAnswered(stream) ?? false,
        onKept: (stream, event) => shared.onKept(name, stream, event),
      },
    })
  }
}

import { AsyncLocalStorage } from 'node:async_hooks'
import { createHash, randomBytes } from 'node:crypto'

import {
  isInitializeRequest,
  WebStandardStreamableHTTPServerTransport,
} from '@modelcontextprotocol/server'

import { newScopeId } from '../artifacts/scope-id.ts'
import type { Clock } from '../clock.ts'
import type { HttpAnswer, HttpExchange } from '../http/exchange.ts'
import { subnetOf } from '../http/request-rates.ts'
import { RPC, rpcErrorResponse } from '../http/rpc-error.ts'
import type { SessionEnd } from '../operation/observer.ts'
import type { GatewayStore } from '../store/gateway-store.ts'
import type { Caller } from './caller.ts'
import { LegacySession } from './legacy-session.ts'
import type { McpServers } from './mcp-servers.ts'
import type { PostExchange } from './post-exchange.ts'
import type { ServerParts } from './server-parts.ts'
import { SessionEvents } from './session-events.ts'
import {
  effectiveLimits,
  type EffectiveSessionLimits,
  type SessionLimits,
} from './session-limits.ts'

export interface LegacyLegOptions {
  readonly parts: ServerParts
  readonly servers: McpServers
  readonly store: Pick<GatewayStore, 'logs' | 'rates'>
  readonly limits?: SessionLimits | undefined
  readonly clock: Clock
  readonly keepAliveMs: number
  readonly maxBodyBytes: number
}

/** How often sessions are looked through for those that have ended, at most and at least. */
const SWEEP_MS = { most: 1000, least: 60_000 }

/** Serves the revisions with sessions (2025-03-26 … 2025-11-25): a server and a transport for each session. */
export class LegacyLeg {
  readonly #options: LegacyLegOptions
  #limits: EffectiveSessionLimits
  readonly #sessions = new Map<string, LegacySession>()
  readonly #perPrincipal = new Map<string, number>()
  readonly #current = new AsyncLocalStorage<PostExchange>()
  #opening = 0
  #undoSweep: (() => void) | undefined
  #isClosed = false

  constructor(options: LegacyLegOptions) {
    this.#options = options
    this.#limits = effectiveLimits(options.limits)
  }

  /** Sessions that are open. */
  get size(): number {
    return this.#sessions.size
  }

  /** Other limits. What concerns streams holds for sessions that begin. */
  limit(limits: SessionLimits): void {
    this.#limits = effectiveLimits(limits)
  }

  /** @param body parsed, of a POST */
  async serve(exchange: HttpExchange, body: unknown, caller: Caller): Promise<HttpAnswer> {
    const { request } = exchange
    const id = request.headers.get('mcp-session-id')
    if (id === null) {
      if (request.method === 'POST' && isInitializeRequest(body)) {
        return this.#initialize(exchange, body, caller)
      }
      return refused(400, RPC.refused, 'Bad Request: Mcp-Session-Id header is required')
    }
    const session = this.#sessions.get(id)
    // A session id is no credential: whose it is, is looked up with every request.
    if (!session || session.principalId !== caller.principal.id || this.#isOver(session)) {
      return refused(404, RPC.sessionNotFound, 'Session not found')
    }
    this.#options.parts.callers.set(request, { ...caller, scope: session.scope })
    return session.serve(request, body)
  }

  /** Ends all sessions, and what is under way in them. */
  async close(): Promise<void> {
    this.#isClosed = true
    this.#undoSweep?.()
    await Promise.all([...this.#sessions.values()].map((session) => session.close()))
  }

  async #initialize(exchange: HttpExchange, body: unknown, caller: Caller): Promise<HttpAnswer> {
    const refusal = await this.#refusal(exchange, caller)
    if (refusal) return refusal
    this.#opening++
    try {
      return await this.#open(exchange.request, body, caller)
    } finally {
      this.#opening--
    }
  }

  async #refusal(
    { address }: HttpExchange,
    { principal }: Caller,
  ): Promise<HttpAnswer | undefined> {
    const { max, maxPerPrincipal, initializePerMinutePerIp: perMinute } = this.#limits
    if (address !== undefined) {
      const waitMs = await this.#options.store.rates.take(`initialize:${subnetOf(address)}`, {
        perMinute,
      })
      if (waitMs > 0) return tryLater(429, 'Too many sessions are begun from here', waitMs)
    }
    if (this.#isClosed) return tryLater(503, 'The gateway is stopping', 1000)
    if (this.#sessions.size + this.#opening >= max) {
      return tryLater(503, 'There are too many sessions', SWEEP_MS.least)
    }
    const own = this.#perPrincipal.get(principal.id) ?? 0
    if (!principal.isAnonymous && own >= maxPerPrincipal) {
      return tryLater(429, 'The caller has too many sessions', SWEEP_MS.least)
    }
    return undefined
  }

  async #open(request: Request, body: unknown, caller: Caller): Promise<HttpAnswer> {
    const { parts, servers, clock, keepAliveMs, maxBodyBytes } = this.#options
    const id = randomBytes(24).toString('base64url')
    const events = this.#eventsOf(id)
    const transport = new WebStandardStreamableHTTPServerTransport({
      sessionIdGenerator: () => id,
      keepAliveMs,
      retryInterval: this.#limits.retryMs,
      maxRequestBodySize: maxBodyBytes,
      ...(events && { eventStore: events }),
    })
    const server = servers.create('legacy')
    const session = new LegacySession(
      {
        principalId: caller.principal.id,
        scope: caller.principal.isAnonymous ? newScopeId() : undefined,
        transport,
        server,
        events,
        disconnectGraceMs: this.#limits.disconnectGraceMs,
        clock,
      },
      this.#current,
    )
    transport.onclose = () => this.#forget(id, session)
    const owner = parts.resources?.listOf({ principal: caller.principal, scope: session.scope })
    server.oninitialized = () => {
      if (this.#sessions.has(id)) parts.changes.add(server, { owner })
    }
    await server.connect(transport)
    this.#sessions.set(id, session)
    this.#perPrincipal.set(
      session.principalId,
      (this.#perPrincipal.get(session.principalId) ?? 0) + 1,
    )
    parts.observer?.sessionOpened()
    parts.callers.set(request, { ...caller, scope: session.scope })
    const answer = await session.serve(request, body)
    if (transport.sessionId === undefined) await session.close()
    else this.#sweepLater()
    return answer
  }

  #eventsOf(id: string): SessionEvents | undefined {
    const limits = this.#limits.events
    if (!limits) return undefined
    return new SessionEvents({
      logs: this.#options.store.logs,
      session: createHash('sha256').update(id).digest('hex').slice(0, 32),
      limits,
      onEvent: (stream, answered) => this.#sessions.get(id)?.noteEvent(stream, answered),
    })
  }

  #forget(id: string, session: LegacySession): void {
    if (!this.#sessions.delete(id)) return
    this.#options.parts.changes.remove(session.server)
    const left = (this.#perPrincipal.get(session.principalId) ?? 1) - 1
    if (left > 0) this.#perPrincipal.set(session.principalId, left)
    else this.#perPrincipal.delete(session.principalId)
    const openMs = this.#options.clock.now() - session.createdAt
    this.#options.parts.observer?.sessionClosed({ reason: this.#reasonOf(session), openMs })
    this.#end(session)
  }

  #reasonOf(session: LegacySession): SessionEnd['reason'] {
    if (this.#isClosed) return 'gateway'
    if (!this.#isOver(session)) return 'client'
    const openMs = this.#options.clock.now() - session.createdAt
    return openMs >= this.#limits.absoluteTtlMs ? 'expired' : 'idle'
  }

  #end(session: LegacySession): void {
    session.close().catch((error: unknown) => {
      this.#options.parts.onError(new Error('A session did not end well', { cause: error }))
    })
  }

  #isOver(session: LegacySession): boolean {
    const now = this.#options.clock.now()
    const { idleTtlMs, absoluteTtlMs } = this.#limits
    return now - session.seenAt >= idleTtlMs || now - session.createdAt >= absoluteTtlMs
  }

  #sweepLater(): void {
    if (this.#undoSweep || this.#isClosed || this.#sessions.size === 0) return
    const ttlMs = Math.min(this.#limits.idleTtlMs, this.#limits.absoluteTtlMs)
    const everyMs = Math.min(SWEEP_MS.least, Math.max(SWEEP_MS.most, ttlMs / 4))
    this.#undoSweep = this.#options.clock.after(everyMs, () => {
      this.#undoSweep = undefined
      for (const session of this.#sessions.values()) {
        if (this.#isOver(session) && !session.hasCalls) this.#end(session)
      }
      this.#sweepLater()
    })
  }
}

function refused(status: number, code: number, message: string): HttpAnswer {
  return { response: rpcErrorResponse(status, { code, message }) }
}

function tryLater(status: number, message: string, waitMs: number): HttpAnswer {
  const headers = { 'retry-after': String(Math.ceil(waitMs / 1000)) }
  return { response: rpcErrorResponse(status, { code: RPC.refused, message }, headers) }
}

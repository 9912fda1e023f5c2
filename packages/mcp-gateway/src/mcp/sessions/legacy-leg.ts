import { isInitializeRequest } from '@modelcontextprotocol/server'

import type { Clock } from '../../internal/clock.ts'
import { GatewayError } from '../../errors.ts'
import type { HttpAnswer, HttpExchange } from '../../internal/exchange.ts'
import { RPC } from '../rpc-error.ts'
import type { GatewayStore } from '../../store/gateway-store.ts'
import { isEventStream } from '../../internal/watched-body.ts'
import type { Caller } from '../caller.ts'
import type { OpenStreams } from '../open-streams.ts'
import type { LegacySession } from './legacy-session.ts'
import { OpenSessions } from './open-sessions.ts'
import type { ServerMaker } from '../sdk-server.ts'
import type { ServerParts } from '../sdk-server.ts'
import { SessionAdoption } from '../replicas/session-adoption.ts'
import type { SessionSettings } from '../../options.ts'
import { effectiveLimits, type EffectiveSessionLimits } from './session-limits.ts'
import { SessionMaker } from './session-maker.ts'
import { SessionOpening } from './session-opening.ts'
import { noSession, refused, tryLater } from './session-refusals.ts'
import { SharedSessions } from '../replicas/shared-sessions.ts'

export interface LegacyLegOptions {
  readonly parts: ServerParts
  readonly servers: ServerMaker
  readonly store: Pick<
    GatewayStore,
    'isDurable' | 'isShared' | 'logs' | 'messages' | 'rates' | 'values'
  >
  /** Names this process among those that share the store. */
  readonly replica: string
  readonly limits: SessionSettings
  /** Of callers without a name; those of others are bounded by their sessions. */
  readonly streams: OpenStreams
  readonly clock: Clock
  readonly keepAliveMs: number
  readonly maxBodyBytes: number
}

/** Until some stream may have ended. */
const LATER_MS = 60_000

/** Serves the revisions with sessions (2025-03-26 … 2025-11-25): a server and a transport for each session. */
export class LegacyLeg {
  readonly #callers: ServerParts['callers']
  readonly #streams: OpenStreams
  #limits: EffectiveSessionLimits
  readonly #open: OpenSessions
  /** Where other processes have the same sessions. */
  readonly #shared: SharedSessions | undefined
  readonly #adoption: SessionAdoption | undefined
  readonly #opening: SessionOpening

  constructor(options: LegacyLegOptions) {
    const { clock, keepAliveMs, maxBodyBytes, parts, replica, servers, store } = options
    const { changes, hasPrompts, onError } = parts
    this.#callers = parts.callers
    this.#streams = options.streams
    this.#limits = effectiveLimits(options.limits)
    const limits = (): EffectiveSessionLimits => this.#limits
    // A process that starts with the folder of an earlier one goes on with its sessions as another replica would.
    const hasRecords = store.isDurable ?? store.isShared
    const shared = hasRecords
      ? new SharedSessions({
          store,
          replica,
          changes,
          lists: hasPrompts ? ['tools', 'prompts'] : ['tools'],
          limits,
          keepAliveMs,
          clock,
          onError,
        })
      : undefined
    this.#shared = shared
    const maker = new SessionMaker({
      servers,
      logs: store.logs,
      clock,
      keepAliveMs,
      maxBodyBytes,
      shared: shared && {
        replica,
        ids: shared.ids,
        onKept: (name, stream, event) => shared.kept(name, stream, event),
        onTaken: (name, stream) => shared.taken(name, stream),
      },
      onError,
    })
    this.#open = new OpenSessions({ parts, maker, limits, shared, clock })
    this.#opening = new SessionOpening({
      open: this.#open,
      shared,
      callers: parts.callers,
      rates: store.rates,
      limits,
      clock,
    })
    this.#adoption = shared && new SessionAdoption({ open: this.#open, shared, changes })
  }

  /** Sessions that are open here. */
  get size(): number {
    return this.#open.size
  }

  /** Other limits. What concerns streams holds for sessions that begin. */
  limit(limits: SessionSettings): void {
    this.#limits = effectiveLimits(limits)
  }

  /** @param body parsed, of a POST */
  serve(exchange: HttpExchange, body: unknown, caller: Caller): Promise<HttpAnswer> {
    const isCounted = exchange.request.method === 'GET' && caller.principal.isAnonymous
    const answering = isCounted
      ? this.#listen(exchange, caller)
      : this.#serve(exchange, body, caller)
    if (!this.#shared) return answering
    return answering.catch((error: unknown) => {
      if (!GatewayError.is(error)) throw error
      return tryLater(503, 'What sessions are kept in cannot be reached now', 1000)
    })
  }

  /** Ends all sessions that no other process can go on with, and here what is under way in them. */
  async close(): Promise<void> {
    this.#open.stop()
    await this.#adoption?.settled()
    await this.#open.close()
    await this.#shared?.close()
  }

  /** A stream of its session, or what is left of a call's. */
  async #listen(exchange: HttpExchange, caller: Caller): Promise<HttpAnswer> {
    const leave = this.#streams.enter(caller)
    if (!leave) return tryLater(429, 'Too many streams are open from here', LATER_MS)
    try {
      const { response, onEnd } = await this.#serve(exchange, undefined, caller)
      if (!isEventStream(response)) {
        leave()
        return { response, onEnd }
      }
      return {
        response,
        onEnd: (end) => {
          leave()
          onEnd?.(end)
        },
      }
    } catch (error) {
      leave()
      throw error
    }
  }

  async #serve(exchange: HttpExchange, body: unknown, caller: Caller): Promise<HttpAnswer> {
    const { request } = exchange
    const id = request.headers.get('mcp-session-id')
    if (id === null) {
      if (request.method === 'POST' && isInitializeRequest(body)) {
        return this.#opening.begin(exchange, body, caller)
      }
      return refused(400, RPC.refused, 'Bad Request: Mcp-Session-Id header is required')
    }
    // A session id is no credential: whose it is, is looked up with every request.
    const session = this.#open.get(id, caller.principal)
    if (this.#shared) return this.#serveShared({ id, request, body, caller }, session)
    if (!session) return noSession()
    this.#callers.set(request, { ...caller, scope: session.scope })
    return session.serve(request, body)
  }

  /** The session may have begun at another process. */
  async #serveShared(
    { id, request, body, caller }: SharedRequest,
    session: LegacySession | undefined,
  ): Promise<HttpAnswer> {
    const held = session
      ? this.#open.sharedOf(session)
      : await this.#adoption?.adopt(id, caller.principal)
    if (!held) return noSession()
    this.#shared?.touch(held)
    this.#callers.set(request, { ...caller, scope: held.session.scope })
    return held.serve(request, body, id)
  }
}

interface SharedRequest {
  readonly id: string
  readonly request: Request
  readonly body: unknown
  readonly caller: Caller
}

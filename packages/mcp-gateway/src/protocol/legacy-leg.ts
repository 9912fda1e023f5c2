import { randomBytes } from 'node:crypto'

import { isInitializeRequest } from '@modelcontextprotocol/server'

import { newScopeId } from '../artifacts/scope-id.ts'
import type { Principal } from '../auth/principal.ts'
import type { Clock } from '../clock.ts'
import { GatewayError } from '../gateway-error.ts'
import type { HttpAnswer, HttpExchange } from '../http/exchange.ts'
import { subnetOf } from '../http/request-rates.ts'
import { RPC } from '../http/rpc-error.ts'
import type { SessionEnd } from '../operation/observer.ts'
import type { GatewayStore } from '../store/gateway-store.ts'
import { isRecord } from '../is-record.ts'
import type { Caller } from './caller.ts'
import type { LegacySession } from './legacy-session.ts'
import type { ServerMaker } from './server-maker.ts'
import type { ServerParts } from './server-parts.ts'
import {
  effectiveLimits,
  type EffectiveSessionLimits,
  type SessionLimits,
} from './session-limits.ts'
import { SessionMaker, type MadeSession } from './session-maker.ts'
import { handshakeFrom } from './session-record.ts'
import { sessionName } from './session-records.ts'
import { noSession, refused, tooMany, tryLater } from './session-refusals.ts'
import type { SharedSession } from './shared-session.ts'
import { SharedSessions } from './shared-sessions.ts'

export interface LegacyLegOptions {
  readonly parts: ServerParts
  readonly servers: ServerMaker
  readonly store: Pick<GatewayStore, 'isShared' | 'logs' | 'messages' | 'rates' | 'values'>
  /** Names this process among those that share the store. */
  readonly replica: string
  readonly limits?: SessionLimits | undefined
  readonly clock: Clock
  readonly keepAliveMs: number
  readonly maxBodyBytes: number
}

/** How often sessions are looked through for those that have ended, at most and at least. */
const SWEEP_MS = { most: 1000, least: 60_000 }

/** Clients say far less of themselves. */
const MAX_HANDSHAKE_CHARS = 32_768

/** Serves the revisions with sessions (2025-03-26 … 2025-11-25): a server and a transport for each session. */
export class LegacyLeg {
  readonly #options: LegacyLegOptions
  #limits: EffectiveSessionLimits
  readonly #maker: SessionMaker
  readonly #sessions = new Map<string, LegacySession>()
  readonly #perPrincipal = new Map<string, number>()
  /** Where other processes have the same sessions. */
  readonly #shared: SharedSessions | undefined
  readonly #held = new Map<LegacySession, SharedSession>()
  readonly #adopting = new Map<string, Promise<SharedSession | undefined>>()
  #opening = 0
  #undoSweep: (() => void) | undefined
  #isClosed = false

  constructor(options: LegacyLegOptions) {
    const { clock, keepAliveMs, maxBodyBytes, parts, replica, servers, store } = options
    const { changes, hasPrompts, onError } = parts
    this.#options = options
    this.#limits = effectiveLimits(options.limits)
    const shared = store.isShared
      ? new SharedSessions({
          store,
          replica,
          changes,
          lists: hasPrompts ? ['tools', 'prompts'] : ['tools'],
          limits: () => this.#limits,
          keepAliveMs,
          clock,
          onError,
        })
      : undefined
    this.#shared = shared
    this.#maker = new SessionMaker({
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
  }

  /** Sessions that are open here. */
  get size(): number {
    return this.#sessions.size
  }

  /** Other limits. What concerns streams holds for sessions that begin. */
  limit(limits: SessionLimits): void {
    this.#limits = effectiveLimits(limits)
  }

  /** @param body parsed, of a POST */
  serve(exchange: HttpExchange, body: unknown, caller: Caller): Promise<HttpAnswer> {
    const answering = this.#serve(exchange, body, caller)
    if (!this.#shared) return answering
    return answering.catch((error: unknown) => {
      if (!GatewayError.is(error)) throw error
      return tryLater(503, 'What sessions are kept in cannot be reached now', 1000)
    })
  }

  /** Ends all sessions that no other process can go on with, and here what is under way in them. */
  async close(): Promise<void> {
    this.#isClosed = true
    this.#undoSweep?.()
    await Promise.allSettled(this.#adopting.values())
    await Promise.all([...this.#sessions.values()].map((session) => session.close()))
    await this.#shared?.close()
  }

  async #serve(exchange: HttpExchange, body: unknown, caller: Caller): Promise<HttpAnswer> {
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
    const isOwn = session && session.principalId === caller.principal.id && !this.#isOver(session)
    if (this.#shared) return this.#serveShared({ id, request, body, caller }, isOwn && session)
    if (!isOwn) return noSession()
    this.#options.parts.callers.set(request, { ...caller, scope: session.scope })
    return session.serve(request, body)
  }

  /** The session may have begun at another process. */
  async #serveShared(
    { id, request, body, caller }: SharedRequest,
    session: LegacySession | false | undefined,
  ): Promise<HttpAnswer> {
    const held = session ? this.#held.get(session) : await this.#adopt(id, caller.principal)
    if (!held) return noSession()
    this.#shared?.touch(held)
    this.#options.parts.callers.set(request, { ...caller, scope: held.session.scope })
    return held.serve(request, body, id)
  }

  async #initialize(exchange: HttpExchange, body: unknown, caller: Caller): Promise<HttpAnswer> {
    if (isTooLong(body)) {
      return refused(413, RPC.refused, `A handshake may have ${MAX_HANDSHAKE_CHARS} characters`)
    }
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
    if (this.#shared) return undefined // those of all processes are counted as it begins
    if (this.#sessions.size + this.#opening >= max) return tooMany('too many')
    const own = this.#perPrincipal.get(principal.id) ?? 0
    const isTooMany = !principal.isAnonymous && own >= maxPerPrincipal
    return isTooMany ? tooMany('too many of the caller') : undefined
  }

  async #open(request: Request, body: unknown, caller: Caller): Promise<HttpAnswer> {
    const { principal } = caller
    const id = randomBytes(24).toString('base64url')
    const scope = principal.isAnonymous ? newScopeId() : undefined
    const name = this.#shared ? sessionName(principal.id, id) : ''
    const refusal = this.#shared && (await this.#begin(name, { scope, body, principal }))
    if (refusal) return refusal
    const made = await this.#make({ id, name, principal, scope })
    const { session, transport } = made
    this.#hold({ id, name, principal }, made)
    this.#options.parts.callers.set(request, { ...caller, scope })
    const answer = await session.serve(request, body)
    if (transport.sessionId !== undefined) this.#sweepLater()
    else await Promise.all([session.close(), this.#shared?.undo(name)])
    return answer
  }

  /** Writes a session down for other processes. @returns why it may not begin */
  async #begin(
    name: string,
    {
      scope,
      body,
      principal,
    }: {
      readonly scope: string | undefined
      readonly body: unknown
      readonly principal: Principal
    },
  ): Promise<HttpAnswer | undefined> {
    const handshake = handshakeFrom(isRecord(body) ? body['params'] : undefined)
    if (!handshake) return refused(400, RPC.refused, 'Bad Request: not a handshake')
    const createdAt = this.#options.clock.now()
    const record = { createdAt, scope, handshake, followed: [] }
    const admission = await this.#shared?.begin(name, record, principal)
    return admission === undefined || admission === 'ok' ? undefined : tooMany(admission)
  }

  /** Goes on with a session of another process, once for all requests that come at the same time. */
  #adopt(id: string, principal: Principal): Promise<SharedSession | undefined> {
    const name = sessionName(principal.id, id)
    const before = this.#adopting.get(name)
    if (before) return before
    const adopting = this.#restore({ id, name, principal }).finally(() => {
      this.#adopting.delete(name)
    })
    this.#adopting.set(name, adopting)
    return adopting
  }

  async #restore(names: SessionNames): Promise<SharedSession | undefined> {
    const { id, principal } = names
    if (this.#isClosed) throw new GatewayError('CLOSED', 'The gateway is closed')
    const record = await this.#shared?.find(names.name)
    if (!record) return undefined
    await this.#sessions.get(id)?.close() // it was idle here, and used elsewhere
    const { scope, createdAt, handshake, level } = record
    const made = await this.#make({ ...names, scope, createdAt })
    try {
      await made.session.restore(handshake, level)
      if (this.#isClosed) throw new GatewayError('CLOSED', 'The gateway is closed')
    } catch (error) {
      await made.session.close()
      throw error
    }
    const held = this.#hold({ ...names, principal }, made)
    this.#options.parts.changes.setFollowed(made.session.server, record.followed)
    this.#sweepLater()
    if (!held || (await this.#shared?.confirm(held))) return held
    await made.session.close()
    return undefined
  }

  #make(
    plan: SessionNames & { readonly scope: string | undefined; readonly createdAt?: number },
  ): Promise<MadeSession> {
    const { id, name, principal, scope, createdAt } = plan
    const { changes } = this.#options.parts
    return this.#maker.make({
      id,
      name,
      principalId: principal.id,
      scope,
      createdAt,
      limits: this.#limits,
      onClosed: (session) => this.#forget(id, session),
      onReady: (session) => {
        if (!this.#shared && this.#sessions.get(id) === session) {
          changes.add(session.server, { owner: this.#ownerOf(principal, scope) })
        }
      },
    })
  }

  #hold(
    { id, name, principal }: SessionNames,
    { session, events }: MadeSession,
  ): SharedSession | undefined {
    const { parts } = this.#options
    this.#sessions.set(id, session)
    this.#perPrincipal.set(principal.id, (this.#perPrincipal.get(principal.id) ?? 0) + 1)
    parts.observer?.sessionOpened()
    if (!this.#shared) return undefined
    // Which of the processes its client listens at is not known before it does.
    parts.changes.add(session.server, { owner: this.#ownerOf(principal, session.scope) })
    parts.changes.listen(session.server, false)
    const held = this.#shared.hold(name, session, events)
    this.#held.set(session, held)
    return held
  }

  /** Whose resources a session may see. */
  #ownerOf(principal: Principal, scope: string | undefined): string | undefined {
    return this.#options.parts.resources?.listOf({ principal, scope })
  }

  #forget(id: string, session: LegacySession): void {
    if (this.#sessions.get(id) !== session) return
    this.#sessions.delete(id)
    this.#options.parts.changes.remove(session.server)
    const held = this.#held.get(session)
    if (held) this.#shared?.release(held)
    this.#held.delete(session)
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
      for (const session of this.#sessions.values()) this.#look(session)
      this.#sweepLater()
    })
  }

  #look(session: LegacySession): void {
    if (this.#isOver(session) && !session.hasCalls) return this.#end(session)
    const held = session.isInUse ? this.#held.get(session) : undefined
    if (held) this.#shared?.touch(held)
  }
}

/** A session keeps what its client says of itself for as long as it lives: it could be made to hold any body. */
function isTooLong(handshake: unknown): boolean {
  return JSON.stringify(handshake).length > MAX_HANDSHAKE_CHARS
}

interface SessionNames {
  readonly id: string
  /** What stands for it outside of this process. */
  readonly name: string
  readonly principal: Principal
}

interface SharedRequest {
  readonly id: string
  readonly request: Request
  readonly body: unknown
  readonly caller: Caller
}

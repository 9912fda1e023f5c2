import { randomBytes } from 'node:crypto'

import { isRecord } from '@x/internal'
import { newScopeId } from '../../files/namespaces.ts'
import type { Principal } from '../../internal/principal.ts'
import type { Clock } from '../../internal/clock.ts'
import type { HttpAnswer, HttpExchange } from '../../internal/exchange.ts'
import { subnetOf } from '../../internal/principal.ts'
import { RPC } from '../rpc-error.ts'
import type { Rates } from '../../store/gateway-store.ts'
import type { Caller } from '../caller.ts'
import type { OpenSessions } from './open-sessions.ts'
import type { ServerParts } from '../sdk-server.ts'
import type { EffectiveSessionLimits } from './session-limits.ts'
import { handshakeFrom } from '../replicas/session-record.ts'
import { sessionName } from '../replicas/session-records.ts'
import { refused, tooMany, tryLater } from './session-refusals.ts'
import type { SharedSessions } from '../replicas/shared-sessions.ts'

export interface SessionOpeningOptions {
  readonly open: OpenSessions
  /** Where other processes have the same sessions. @default they have not */
  readonly shared: SharedSessions | undefined
  /** Remembers whose request it is. */
  readonly callers: ServerParts['callers']
  readonly rates: Rates
  /** As they are now. */
  readonly limits: () => EffectiveSessionLimits
  readonly clock: Clock
}

/** Clients say far less of themselves. */
const MAX_HANDSHAKE_CHARS = 32_768

/** Lets sessions begin, as far as there may be more of them. */
export class SessionOpening {
  readonly #options: SessionOpeningOptions
  /** Callers of those that are about to be, one entry for each. */
  readonly #opening = new Set<{ readonly principal: string }>()

  constructor(options: SessionOpeningOptions) {
    this.#options = options
  }

  /** @param body parsed, of an `initialize` */
  async begin(exchange: HttpExchange, body: unknown, caller: Caller): Promise<HttpAnswer> {
    if (isTooLong(body)) {
      return refused(413, RPC.refused, `A handshake may have ${MAX_HANDSHAKE_CHARS} characters`)
    }
    const waitMs = await this.#waitOf(exchange)
    if (waitMs > 0) return tryLater(429, 'Too many sessions are begun from here', waitMs)
    // Looked at and taken in one step: of many that come at once none sees the room of another.
    const refusal = this.#refusal(caller)
    if (refusal) return refusal
    const place = { principal: caller.principal.id }
    this.#opening.add(place)
    try {
      return await this.#open(exchange.request, body, { caller, place })
    } finally {
      this.#opening.delete(place)
    }
  }

  async #waitOf({ address }: HttpExchange): Promise<number> {
    const { limits, rates } = this.#options
    if (address === undefined) return 0
    const { initializePerMinutePerIp: perMinute } = limits()
    return rates.take(`initialize:${subnetOf(address)}`, { perMinute })
  }

  #refusal({ principal }: Caller): HttpAnswer | undefined {
    const { limits, open, shared } = this.#options
    const { max, maxPerPrincipal } = limits()
    if (open.isClosed) return tryLater(503, 'The gateway is stopping', 1000)
    if (shared) return undefined // those of all processes are counted as it begins
    if (open.size + this.#opening.size >= max) return tooMany('too many')
    const isTooMany = !principal.isAnonymous && this.#countOf(principal) >= maxPerPrincipal
    return isTooMany ? tooMany('too many of the caller') : undefined
  }

  #countOf(principal: Principal): number {
    let count = this.#options.open.countOf(principal)
    for (const each of this.#opening) if (each.principal === principal.id) count++
    return count
  }

  async #open(
    request: Request,
    body: unknown,
    { caller, place }: { readonly caller: Caller; readonly place: { readonly principal: string } },
  ): Promise<HttpAnswer> {
    const { callers, open, shared } = this.#options
    const { principal } = caller
    const id = randomBytes(24).toString('base64url')
    const scope = principal.isAnonymous ? newScopeId() : undefined
    const name = shared ? sessionName(principal.id, id) : ''
    const refusal = shared && (await this.#writeDown(shared, { name, scope, body, principal }))
    if (refusal) return refusal
    const made = await open.make({ id, name, principal, scope })
    const { session, transport } = made
    open.hold({ id, name, principal }, made)
    this.#opening.delete(place) // counted as open from here on
    callers.set(request, { ...caller, scope })
    const answer = await session.serve(request, body)
    if (transport.sessionId !== undefined) open.watch()
    else await Promise.all([session.close(), shared?.undo(name)])
    return answer
  }

  /** For other processes. @returns why it may not begin */
  async #writeDown(
    shared: SharedSessions,
    { name, scope, body, principal }: NewSession,
  ): Promise<HttpAnswer | undefined> {
    const handshake = handshakeFrom(isRecord(body) ? body['params'] : undefined)
    if (!handshake) return refused(400, RPC.refused, 'Bad Request: not a handshake')
    const createdAt = this.#options.clock.now()
    const record = { createdAt, scope, handshake, followed: [] }
    const admission = await shared.begin(name, record, principal)
    return admission === 'ok' ? undefined : tooMany(admission)
  }
}

/** A session keeps what its client says of itself for as long as it lives: it could be made to hold any body. */
function isTooLong(handshake: unknown): boolean {
  return JSON.stringify(handshake).length > MAX_HANDSHAKE_CHARS
}

interface NewSession {
  readonly name: string
  readonly scope: string | undefined
  readonly body: unknown
  readonly principal: Principal
}

import type { Clock } from '../internal/clock.ts'
import type { HttpAnswer, HttpExchange } from '../internal/exchange.ts'
import { slotOwnerOf } from '../internal/principal.ts'
import type { SessionSettings } from '../options.ts'
import type { GatewayStore } from '../store/gateway-store.ts'
import type { ProcessLease } from '../store/lease.ts'
import type { Caller } from './caller.ts'
import { EventStream } from './event-stream.ts'
import type { ChangeFeed } from './change-feed.ts'
import type { McpHandlers } from './handlers.ts'
import type { OpenStreams } from './open-streams.ts'
import type { ServerParts } from './sdk-server.ts'
import type { SessionReply } from './session-calls.ts'
import { SessionHttp, toResponse } from './session-http.ts'
import { toSessionLimits } from './sessions.ts'

export interface SessionLegOptions {
  readonly handlers: McpHandlers
  readonly parts: Pick<ServerParts, 'observer' | 'onError' | 'questionTimeoutMs' | 'resources'>
  readonly changes: ChangeFeed
  readonly lease: ProcessLease
  readonly store: GatewayStore
  readonly limits: SessionSettings
  readonly streams: OpenStreams
  readonly clock: Clock
  readonly keepAliveMs: number
}

/** Connects sessions to the HTTP server of the gateway. */
export class SessionLeg {
  readonly #http: SessionHttp

  constructor(options: SessionLegOptions) {
    const { parts, store, limits, streams, clock, keepAliveMs } = options
    const { records, logs, rates, isShared, isDurable = isShared } = store
    this.#http = new SessionHttp({
      handlers: options.handlers,
      store: { records, logs, rates, isShared, isDurable },
      changes: options.changes,
      lease: options.lease,
      settings: toSessionLimits(limits),
      questionTimeoutMs: parts.questionTimeoutMs,
      keepAliveMs,
      ownerOf: (principal, scope) => parts.resources?.listOf({ principal, scope }),
      enterStream: (http) => streams.enter(http),
      observer: parts.observer,
      clock,
      onError: parts.onError,
    })
  }

  /** Number of sessions that this process serves. */
  get size(): number {
    return this.#http.sessions.size
  }

  limit(limits: SessionSettings): void {
    this.#http.sessions.settings = toSessionLimits(limits)
  }

  /** @param body of a POST, parsed */
  async serve(exchange: HttpExchange, body: unknown, caller: Caller): Promise<HttpAnswer> {
    const { method, headers } = exchange.request
    const { principal, address, writable, hasRoom } = caller
    const reply = await this.#http.serve({
      method,
      headers,
      body,
      principal,
      address,
      writable,
      hasRoom: () => hasRoom?.(slotOwnerOf(caller)) !== false,
    })
    return answerFrom(reply)
  }

  close(): Promise<void> {
    return this.#http.close()
  }
}

function answerFrom(reply: SessionReply): HttpAnswer {
  const { body } = reply
  if (body instanceof EventStream) {
    return {
      response: toResponse(reply),
      onEnd: (end) => {
        if (end === 'lost') body.lose()
      },
    }
  }
  return reply.headers === undefined && typeof body === 'string'
    ? new TextAnswer(reply, body)
    : { response: toResponse(reply) }
}

/** JSON whose `Response` is made only for servers that need one. */
class TextAnswer implements HttpAnswer {
  readonly status: number
  readonly json: string
  readonly #reply: SessionReply
  #response: Response | undefined

  constructor(reply: SessionReply, json: string) {
    this.status = reply.status
    this.json = json
    this.#reply = reply
  }

  get response(): Response {
    this.#response ??= toResponse(this.#reply)
    return this.#response
  }
}

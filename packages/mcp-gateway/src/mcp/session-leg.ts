import type { Clock } from '../internal/clock.ts'
import type { HttpAnswer, HttpExchange } from '../internal/exchange.ts'
import { slotOwnerOf } from '../internal/principal.ts'
import type { SessionSettings } from '../options.ts'
import type { GatewayStore } from '../store/gateway-store.ts'
import { ProcessLease } from '../store/lease.ts'
import type { Caller } from './caller.ts'
import { EventStream } from './event-stream.ts'
import { GatewayHandlers } from './handlers.ts'
import type { OpenStreams } from './open-streams.ts'
import type { ServerParts } from './sdk-server.ts'
import type { SessionReply } from './session-calls.ts'
import { SessionHttp, toResponse } from './session-http.ts'
import { effectiveLimits } from './sessions/session-limits.ts'

export interface SessionLegOptions {
  readonly parts: ServerParts
  readonly store: GatewayStore
  readonly limits: SessionSettings
  readonly streams: OpenStreams
  readonly clock: Clock
  readonly keepAliveMs: number
}

/** Connects sessions to the HTTP server of the gateway. */
export class SessionLeg {
  readonly #http: SessionHttp
  readonly #lease: ProcessLease

  constructor({ parts, store, limits, streams, clock, keepAliveMs }: SessionLegOptions) {
    const { values: records, eventLogs: logs, rates, isShared, isDurable = isShared } = store
    this.#lease = new ProcessLease(records, clock)
    this.#http = new SessionHttp({
      handlers: new GatewayHandlers(parts),
      store: { records, logs, rates, isShared, isDurable },
      lease: this.#lease,
      settings: effectiveLimits(limits),
      questionTimeoutMs: parts.questionTimeoutMs,
      keepAliveMs,
      ownerOf: (principal, scope) => parts.resources?.listOf({ principal, scope }),
      enterStream: (http) => streams.enter(http),
      observer: parts.observer,
      clock,
      onError: parts.onError,
    })
    parts.changes.also((change) => {
      const { changes } = this.#http
      if (change === 'missed') return changes.missed()
      // Every process notices a change of the plan: clients are notified once per version.
      const { toolsVersion, promptsVersion } = parts.registry.plan()
      if (change.type === 'tools') void changes.publish({ ...change, version: toolsVersion })
      else if (change.type === 'prompts')
        void changes.publish({ ...change, version: promptsVersion })
      else void changes.publish(change)
    })
  }

  /** Number of sessions that this process serves. */
  get size(): number {
    return this.#http.sessions.size
  }

  limit(limits: SessionSettings): void {
    this.#http.sessions.settings = effectiveLimits(limits)
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

  async close(): Promise<void> {
    await this.#http.close()
    await this.#lease[Symbol.asyncDispose]()
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

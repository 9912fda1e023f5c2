import type { RequestId } from '@modelcontextprotocol/server'

import { isRecord } from '@x/internal'
import type { HttpAnswer } from '../../internal/exchange.ts'
import { RPC } from '../rpc-error.ts'
import { cancelledIdsOf, methodOf } from '../json-rpc.ts'
import type { LegacySession } from '../sessions/legacy-session.ts'
import { refused } from '../sessions/session-refusals.ts'
import type { ServerRequestIds } from './server-request-ids.ts'
import type { SessionPeers } from './session-peers.ts'

export interface ForwardedMessagesOptions {
  /** What stands for the session outside of this process. */
  readonly name: string
  readonly session: LegacySession
  /** Names this process. */
  readonly replica: string
  readonly ids: ServerRequestIds
  readonly peers: SessionPeers
}

type Message = Readonly<Record<string, unknown>>

/** What a client sends to one process, and is about a call of another one: it is handed on to that. */
export class ForwardedMessages {
  readonly #options: ForwardedMessagesOptions

  constructor(options: ForwardedMessagesOptions) {
    this.#options = options
  }

  /**
   * Hands on what of a POST is not for this process.
   *
   * @returns what is left of it for this one, or the answer if nothing is
   * @throws GatewayError `UNAVAILABLE`
   */
  async forward(body: unknown): Promise<{ readonly own: unknown } | HttpAnswer> {
    if (!Array.isArray(body)) {
      const { own, isTaken } = await this.#forward(body)
      return own === undefined ? (isTaken ? accepted() : nobodyAsks()) : { own }
    }
    // Of 2025-03-26.
    const left: unknown[] = []
    for (const each of body) {
      const { own } = await this.#forward(each)
      if (own !== undefined) left.push(own)
    }
    return left.length === 0 && body.length > 0 ? accepted() : { own: left }
  }

  /** What another process handed on. @returns `undefined`: it is about nothing that runs here */
  take(message: Message): 'taken' | undefined {
    const { session } = this.#options
    const isCancel = methodOf(message) === 'notifications/cancelled'
    if (isCancel && !cancelledIdsOf(message).some((id) => session.runs(id))) return undefined
    session.take(message)
    return 'taken'
  }

  async #forward(message: unknown): Promise<{ own?: unknown; isTaken?: boolean }> {
    const { ids, name, peers, replica } = this.#options
    const addressed = ids.incoming(message)
    if (!addressed) {
      if (isRecord(message)) await this.#cancel(message, cancelledIdsOf(message))
      return { own: message }
    }
    if (addressed.replica === replica) return { own: addressed.message }
    const signal = { type: 'message', message: addressed.message } as const
    return { isTaken: (await peers.ask(name, addressed.replica, signal)) === 'taken' }
  }

  /** What is to be cancelled may run at another process. */
  async #cancel(message: Message, ids: readonly RequestId[]): Promise<void> {
    const { name, peers, session } = this.#options
    const isElsewhere = ids.some((id) => !session.runs(id))
    if (isElsewhere) await peers.tell(name, { type: 'message', message })
  }
}

function accepted(): HttpAnswer {
  return { response: new Response(null, { status: 202 }) }
}

/** Not 404: the session goes on, only the call that asked does not. */
function nobodyAsks(): HttpAnswer {
  const message = 'The process that asked for this has ended, and its call with it: call again'
  return refused(400, RPC.refused, message)
}

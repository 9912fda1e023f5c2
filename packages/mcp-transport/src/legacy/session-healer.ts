import { isNotification } from '../json-rpc.ts'
import type { JsonRpcMessage, JsonRpcRequest, JsonRpcResponse } from '../json-rpc.ts'
import { modernEvidence } from '../session-record.ts'
import { errorAnswer, TransportError } from '../transport-error.ts'
import type { LegacySession } from './legacy-session.ts'
import { Initializing } from './session-opener.ts'
import type { SessionOpener } from './session-opener.ts'

export interface SessionHealerOptions {
  readonly opener: SessionOpener
  /** Limit for each request of a handshake, in milliseconds. All calls of the client wait for it. */
  readonly limitMs: number
  /** Runs a function with the credentials of the owner of the session: the new session has the same owner. */
  readonly asOwner: <T>(run: () => T) => T
  /** The new session is ready: from now on it is the current one. */
  readonly onReplaced: (session: LegacySession, old: LegacySession) => Promise<void>
  /** Sends in the new session what the server must know again. */
  readonly repeat: (message: JsonRpcRequest, session: LegacySession) => Promise<void>
  /**
   * Tells the server that the client is ready.
   *
   * @throws TransportError if it was not accepted: then the session is of no use, and is ended.
   */
  readonly initialized: (session: LegacySession) => Promise<void>
  /**
   * The server is a stateless one by now: goes over to that.
   *
   * @throws TransportError if that is not possible
   */
  readonly changeEra: () => Promise<void>
}

/** What replaces a lost session; `stateless`: the server has no sessions any more. */
export type Replacement = LegacySession | 'stateless'

/**
 * Opens a new session in place of a lost one, by the client's own handshake: what `McpClient` does above
 * the transport, for clients that have nothing like it. One handshake per lost session, however many
 * calls have met the loss. Remembers what the client has told the server and a new session does not know.
 */
export class SessionHealer {
  readonly #options: SessionHealerOptions
  readonly #healing = new WeakMap<LegacySession, Promise<Replacement>>()
  readonly #subscriptions = new Map<string, JsonRpcRequest>()
  #initialize: JsonRpcRequest | undefined
  #logLevel: JsonRpcRequest | undefined
  #initializing: Initializing | undefined

  constructor(options: SessionHealerOptions) {
    this.#options = options
  }

  /** Sees what the client sends. */
  sent(message: JsonRpcRequest): void {
    if (message.method === 'initialize') this.#initialize = message
  }

  /** Sees that a request of the client has succeeded. */
  succeeded(request: JsonRpcRequest, answer: JsonRpcResponse): void {
    if (!('result' in answer)) return
    const uri = request.params?.['uri']
    if (request.method === 'logging/setLevel') this.#logLevel = request
    else if (typeof uri !== 'string') return
    else if (request.method === 'resources/subscribe') this.#subscriptions.set(uri, request)
    else if (request.method === 'resources/unsubscribe') this.#subscriptions.delete(uri)
  }

  /**
   * The session that replaces a lost one.
   *
   * @throws TransportError if there is none to be had; the next loss tries again.
   */
  replacementOf(lost: LegacySession): Promise<Replacement> {
    let healing = this.#healing.get(lost)
    if (healing === undefined) {
      healing = this.#options.asOwner(() => this.#open(lost))
      this.#healing.set(lost, healing)
      healing.catch(() => this.#healing.delete(lost)) // told to those who wait
    }
    return healing
  }

  close(reason: TransportError): void {
    this.#initializing?.abandon(reason)
  }

  async #open(lost: LegacySession): Promise<Replacement> {
    await lost.lost // the store has forgotten it: a stale id never goes out again
    const request = this.#initialize
    if (request === undefined) {
      throw new TransportError('SESSION_LOST', 'The client never sent an initialize to repeat', {
        certain: true,
        epoch: lost.epoch,
      })
    }
    const { opener, limitMs } = this.#options
    const initializing = new Initializing(request.id, limitMs)
    this.#initializing = initializing
    const outcome = await opener.open(request, initializing, true)
    initializing.ended()
    this.#initializing = undefined
    if (outcome.kind !== 'opened') {
      const answer =
        outcome.kind === 'answered' ? outcome.answer : errorAnswer(request.id, outcome.error)
      if (modernEvidence(answer) !== undefined) {
        await this.#options.changeEra()
        return 'stateless'
      }
    }
    if (outcome.kind === 'failed') throw outcome.error
    if (outcome.kind === 'answered') {
      const said = 'error' in outcome.answer ? outcome.answer.error : undefined
      const message = `The server refused a new session: ${said?.message ?? 'no reason given'}`
      throw new TransportError('REJECTED', message, { serverError: said })
    }
    const { session } = outcome
    session.isDoubtful = true
    if (session.unstored !== undefined) await this.#options.initialized(session)
    await this.#options.onReplaced(session, lost)
    const messages = [...(this.#logLevel ? [this.#logLevel] : []), ...this.#subscriptions.values()]
    await Promise.all(messages.map((message) => this.#options.repeat(message, session)))
    return session
  }
}

/** Whether an answer says that the session is gone; certain, if it proves that nothing was executed. */
export function getSessionLoss(answer: JsonRpcMessage): TransportError | undefined {
  if (isNotification(answer) || !('error' in answer)) return undefined
  const { data } = answer.error
  return TransportError.is(data) && data.code === 'SESSION_LOST' ? data : undefined
}

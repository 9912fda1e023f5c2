import { isNotification } from '../json-rpc.ts'
import type { JsonRpcMessage, JsonRpcRequest, JsonRpcResponse } from '../json-rpc.ts'
import { modernEvidence } from '../session-record.ts'
import { errorAnswer, TransportError } from '../transport-error.ts'
import type { LegacySession } from './legacy-session.ts'
import { Initializing } from './session-opener.ts'
import type { SessionOpener } from './session-opener.ts'

export interface SessionHealerOptions {
  readonly opener: SessionOpener
  /** Time limit for each request of a handshake, in milliseconds. All calls of the client wait for it. */
  readonly limitMs: number
  /** Runs a function with the credentials of the owner of the session, who also owns the new session. */
  readonly asOwner: <T>(run: () => T) => T
  /** Called when the new session is ready. It is the current one from now on. */
  readonly onReplaced: (session: LegacySession, old: LegacySession) => Promise<void>
  /** Repeats a request in the new session that the server needs to know. */
  readonly repeat: (message: JsonRpcRequest, session: LegacySession) => Promise<void>
  /**
   * Tells the server that the client is ready.
   *
   * @throws TransportError if the server did not accept it. The session is then terminated.
   */
  readonly initialized: (session: LegacySession) => Promise<void>
  /**
   * The server is now stateless: changes the era.
   *
   * @throws TransportError if that fails
   */
  readonly changeEra: () => Promise<void>
}

/** Replacement of a lost session; `stateless` if the server no longer has sessions. */
export type Replacement = LegacySession | 'stateless'

/**
 * Replaces a lost session by repeating the client's handshake, for clients without `McpClient`. Runs one
 * handshake per lost session for all affected calls. Repeats the log level and the subscriptions of the client,
 * which a new session does not know.
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

  /** Records the client's `initialize`. */
  sent(message: JsonRpcRequest): void {
    if (message.method === 'initialize') this.#initialize = message
  }

  /** Records log level and subscriptions when a request of the client succeeded. */
  succeeded(request: JsonRpcRequest, answer: JsonRpcResponse): void {
    if (!('result' in answer)) return
    const uri = request.params?.['uri']
    if (request.method === 'logging/setLevel') this.#logLevel = request
    else if (typeof uri !== 'string') return
    else if (request.method === 'resources/subscribe') this.#subscriptions.set(uri, request)
    else if (request.method === 'resources/unsubscribe') this.#subscriptions.delete(uri)
  }

  /**
   * Returns the session that replaces a lost one.
   *
   * @throws TransportError if none could be opened. The next loss tries again.
   */
  replacementOf(lost: LegacySession): Promise<Replacement> {
    let healing = this.#healing.get(lost)
    if (healing === undefined) {
      healing = this.#options.asOwner(() => this.#open(lost))
      this.#healing.set(lost, healing)
      healing.catch(() => this.#healing.delete(lost)) // the callers get the error
    }
    return healing
  }

  close(reason: TransportError): void {
    this.#initializing?.abandon(reason)
  }

  async #open(lost: LegacySession): Promise<Replacement> {
    await lost.lost // the lost id must be removed from the store first
    const request = this.#initialize
    if (request === undefined) {
      throw new TransportError(
        'SESSION_LOST',
        'The session cannot be replaced: the client sent no initialize',
        {
          certain: true,
          epoch: lost.epoch,
        },
      )
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

/** Returns the `SESSION_LOST` error of an answer. It is certain if nothing was executed. */
export function getSessionLoss(answer: JsonRpcMessage): TransportError | undefined {
  if (isNotification(answer) || !('error' in answer)) return undefined
  const { data } = answer.error
  return TransportError.is(data) && data.code === 'SESSION_LOST' ? data : undefined
}

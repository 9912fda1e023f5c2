import { AsyncResource } from 'node:async_hooks'
import type { Dispatcher } from 'undici'
import type { Authorizer, Credential } from '../auth/authorizer.ts'
import { AuthAttempts, oauthChallenge } from '../auth/challenge.ts'
import type { AuthAttempt, Challenge } from '../auth/challenge.ts'
import type { InFlight } from '../in-flight.ts'
import { TransportError } from '../transport-error.ts'
import type { AnswerHandlers, AnswerOutcome, Refusal } from './answer-reader.ts'
import type { Exchange, HttpExchange } from './exchange.ts'
import { createOAuthFetch, responseFrom } from './oauth-fetch.ts'

/** One attempt to send the request. Everything else is the same in each attempt. */
interface Attempt {
  readonly handlers: AnswerHandlers
  readonly credential: Credential | undefined
  /** 0 for the first. */
  readonly retry: number
}

export interface AuthorizedExchangeOptions {
  readonly authorizer: Authorizer
  /** Credential of the first attempt. */
  readonly credential: Credential | undefined
  readonly httpMethod: string
  readonly dispatcher: Dispatcher
  readonly handlers: AnswerHandlers
  readonly exchange: (attempt: Attempt) => HttpExchange
  /** `HttpRequest.onPause` */
  readonly onPause: ((isPaused: boolean) => void) | undefined
  /** Asked before the request is sent again. */
  readonly isWanted: () => boolean
  /** Open exchanges: it is removed from there before the handlers' outcome. */
  readonly open: InFlight<Exchange>
}

/**
 * A request that is sent again when it was refused for its token and there is another one: a server that
 * answers 401 or 403 has not run it. To whoever sent it, it is one exchange, with one outcome.
 */
export class AuthorizedExchange implements Exchange {
  readonly #options: AuthorizedExchangeOptions
  readonly #attempts = new AuthAttempts()
  /** A connection tells the end of a request in the context of the request that opened it. */
  readonly #context = new AsyncResource('McpAuthorizedExchange')
  older: Exchange | undefined
  newer: Exchange | undefined
  #credential: Credential | undefined
  #retries = 0
  #current: HttpExchange
  /** While another token is sought: ends the search. */
  #seeking: AbortController | undefined
  #isDone = false

  constructor(options: AuthorizedExchangeOptions) {
    this.#options = options
    this.#credential = options.credential
    this.#current = this.#next()
  }

  get isDone(): boolean {
    return this.#isDone
  }

  get isAwaited(): boolean {
    return !this.#isDone && this.#seeking === undefined
  }

  start(): void {
    this.#current.start()
  }

  abort(error: TransportError): void {
    if (this.#isDone) return
    if (this.#seeking === undefined) return this.#current.abort(error)
    this.#seeking.abort()
    this.#end({ kind: 'failed', error })
  }

  #next(): HttpExchange {
    const { authorizer, handlers, exchange } = this.#options
    return exchange({
      credential: this.#credential,
      retry: this.#retries,
      handlers: {
        heard: () => handlers.heard?.(),
        head: (status, headers) => {
          authorizer.observe?.(headers)
          handlers.head?.(status, headers)
        },
        message: (message) => handlers.message(message),
        stray: (text) => handlers.stray?.(text),
        cursor: (lastEventId) => handlers.cursor?.(lastEventId),
        retry: (ms) => handlers.retry?.(ms),
        outcome: (outcome) => this.#ended(outcome),
      },
    })
  }

  #ended(outcome: AnswerOutcome): void {
    if (outcome.kind !== 'refused') return this.#end(outcome)
    const { refusal } = outcome
    this.#options.authorizer.observe?.(refusal.headers)
    const challenge = oauthChallenge(refusal.headers)
    const attempt = this.#attempts.next(refusal.status, challenge)
    if (attempt === undefined) this.#end(outcome)
    else this.#context.runInAsyncScope(() => void this.#sendAgain(refusal, { attempt, challenge }))
  }

  async #sendAgain(
    refusal: Refusal,
    { attempt, challenge }: { attempt: AuthAttempt; challenge: Challenge | undefined },
  ): Promise<void> {
    const { authorizer, dispatcher, httpMethod, onPause } = this.#options
    const { signal } = (this.#seeking = new AbortController())
    try {
      onPause?.(true)
      if (attempt !== 'nonce') {
        await authorizer.renew({
          refused: this.#credential?.token,
          response: responseFrom(refusal.status, refusal.headers, refusal.text),
          challenge,
          isStepUp: attempt === 'step-up',
          fetch: createOAuthFetch(dispatcher),
          signal,
        })
      }
      this.#credential = await authorizer.credential(httpMethod)
      onPause?.(false)
    } catch (cause) {
      this.#end({ kind: 'refused', refusal: { ...refusal, cause } })
      return
    }
    if (this.#isDone) return
    this.#seeking = undefined
    if (!this.#options.isWanted()) {
      const error = new TransportError(
        'CLOSED',
        'The request was given up before it was sent again',
        { outcome: 'not-executed' },
      )
      return this.#end({ kind: 'failed', error })
    }
    this.#retries += 1
    this.#current = this.#next()
    this.#current.start()
  }

  #end(outcome: AnswerOutcome): void {
    if (this.#isDone) return
    this.#isDone = true
    this.#options.open.remove(this)
    this.#options.handlers.outcome(outcome)
  }
}

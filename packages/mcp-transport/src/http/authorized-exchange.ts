import { AsyncResource } from 'node:async_hooks'
import type { Dispatcher } from 'undici'
import { AuthAttempts, oauthChallenge } from '../auth/authorizer.ts'
import type {
  Authorizer,
  Credential,
  AuthAttempt,
  Challenge,
  FetchFunction,
} from '../auth/authorizer.ts'
import type { ResponseHeaders } from '../headers.ts'
import { TransportError } from '../transport-error.ts'
import { TextBody } from './answer-reader.ts'
import type { AnswerHandlers, AnswerOutcome, Refusal } from './answer-reader.ts'
import { HttpExchange, removeFrom } from './exchange.ts'
import type { Exchange, ResponseReader } from './exchange.ts'

/** One attempt to send the request. */
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
  /** Called before the request is sent again. */
  readonly isWanted: () => boolean
  /** List of open exchanges. This exchange removes itself before its outcome. */
  readonly open: Exchange[]
}

/**
 * Sends a request again after a refusal of its token, if there is another token. A server that answers 401 or
 * 403 has not executed the request. For the sender it is one exchange with one outcome.
 */
export class AuthorizedExchange implements Exchange {
  readonly #options: AuthorizedExchangeOptions
  readonly #attempts = new AuthAttempts()
  /** A connection emits the end of a request in the async context of the request that opened the connection. */
  readonly #context = new AsyncResource('McpAuthorizedExchange')
  #credential: Credential | undefined
  #retries = 0
  #current: HttpExchange
  /** Aborts the renewal in progress. */
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
        activity: () => handlers.activity?.(),
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
          response: toResponse(refusal.status, refusal.headers, refusal.text),
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
        'The request was abandoned before it was sent again',
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
    removeFrom(this.#options.open, this)
    this.#options.handlers.outcome(outcome)
  }
}

const BODY_BYTES = 1024 * 1024

/**
 * `fetch` for metadata and authorization servers, over the transport's dispatcher. Follows redirects only
 * within the origin, limits time (`requestMs`, body included) and size, and shows no query in errors. Sends
 * only the given headers, and none of the transport's user.
 */
export function createOAuthFetch(dispatcher: Dispatcher, requestMs = 30_000): FetchFunction {
  return async function oauthFetch(input, init = {}) {
    const { body, signal } = init
    if (body != null && typeof body !== 'string' && !(body instanceof URLSearchParams)) {
      throw new TypeError('The body must be a string or URLSearchParams')
    }
    const url = new URL(input)
    const display = url.origin + url.pathname
    if (signal?.aborted === true) throw abandoned(display)
    return new Promise<Response>((resolve, reject) => {
      const settle = (): void => {
        clearTimeout(timer)
        signal?.removeEventListener('abort', stop)
      }
      const exchange = new HttpExchange({
        dispatcher,
        request: {
          method: init.method === 'POST' ? 'POST' : 'GET',
          origin: url.origin,
          path: url.pathname + url.search,
          display,
          headers: [...new Headers(init.headers)].flat(),
          body: body == null ? undefined : String(body),
          headersMs: 0, // one timer for the whole request
          idleMs: 0,
        },
        reader: new WholeResponse({
          display,
          resolve(response) {
            settle()
            resolve(response)
          },
          reject(error) {
            settle()
            reject(error)
          },
        }),
      })
      const stop = (): void => exchange.abort(abandoned(display))
      const timer = setTimeout(() => {
        const message = `${display} did not answer within ${requestMs} ms`
        exchange.abort(new TransportError('TIMEOUT', message, { url: display }))
      }, requestMs)
      timer.unref()
      signal?.addEventListener('abort', stop, { once: true })
      exchange.start()
    })
  }
}

function toResponse(status: number, headers: ResponseHeaders, text: string): Response {
  const isEmpty = status === 204 || status === 205 || status === 304
  const response = new Response(isEmpty ? null : text, { status })
  for (const [name, value] of Object.entries(headers)) {
    for (const one of typeof value === 'string' ? [value] : (value ?? [])) {
      response.headers.append(name, one)
    }
  }
  return response
}

interface WholeResponseOptions {
  readonly display: string
  readonly resolve: (response: Response) => void
  readonly reject: (error: TransportError) => void
}

class WholeResponse implements ResponseReader {
  readonly #options: WholeResponseOptions
  readonly #body = new TextBody(BODY_BYTES)
  #status = 0
  #headers: ResponseHeaders = {}

  constructor(options: WholeResponseOptions) {
    this.#options = options
  }

  head(status: number, headers: ResponseHeaders): void {
    this.#status = status
    this.#headers = headers
  }

  data(chunk: Buffer): boolean {
    if (this.#body.add(chunk)) return true
    const { display: url } = this.#options
    const message = `${url} sent more than ${BODY_BYTES} bytes`
    throw new TransportError('LIMIT', message, { url, status: this.#status })
  }

  end(): void {
    this.#options.resolve(toResponse(this.#status, this.#headers, this.#body.text()))
  }

  failed(error: TransportError): void {
    // The cause is the error that `data` threw.
    this.#options.reject(TransportError.is(error.cause) ? error.cause : error)
  }
}

function abandoned(url: string): TransportError {
  return new TransportError('CLOSED', 'No request waits for this authorization any more', { url })
}

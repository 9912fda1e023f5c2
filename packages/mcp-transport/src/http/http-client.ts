import { shortSessionId, within } from '@x/internal'
import type { AsyncResource } from 'node:async_hooks'
import type { Dispatcher } from 'undici'
import type { AuthProvider } from '../auth/auth-provider.ts'
import { Authorizer, toResponse } from '../auth/authorizer.ts'
import type { Credential, FetchFunction } from '../auth/authorizer.ts'
import { userHeaderList, withHeaders } from '../headers.ts'
import type { HeadersOption } from '../headers.ts'
import { parseServerUrl } from '../server-url.ts'
import type { ServerUrl } from '../server-url.ts'
import { TransportError } from '../transport-error.ts'
import type {
  RequestOutcome,
  TransportErrorCode,
  TransportErrorOptions,
} from '../transport-error.ts'
import { resolveLimits } from '../transport-options.ts'
import type { ExchangeEvent, Limits, StreamableHttpTransportOptions } from '../transport-options.ts'
import type { AnswerHandlers, AnswerOutcome } from './answer-reader.ts'
import { createDispatcher } from './dispatcher.ts'
import { Exchange } from './exchange.ts'
import type { HttpRequest } from './exchange.ts'
import type { SessionCookies } from './session-cookies.ts'

const UNSENT = 'Nothing was sent: the request was cancelled'
const LINGER_MS = 5000
/** A client that closes must not wait longer for a silent server. */
const SETTLE_MS = 2000

export interface HttpClientOptions {
  readonly url: ServerUrl
  /** Undefined for an own dispatcher, which is closed with the client. */
  readonly dispatcher: Dispatcher | undefined
  readonly connectMs: number
  readonly headers: HeadersOption
  readonly authProvider: AuthProvider | undefined
  readonly limits: Limits
  /** Read at the start of an exchange: without a listener, no events are created. */
  readonly observer: Pick<StreamableHttpTransportOptions, 'onExchange'>
}

/**
 * Sends requests to the endpoint of one server, with the user's headers and credentials, and reports each
 * exchange.
 */
export class HttpClient {
  readonly url: ServerUrl
  readonly limits: Limits
  readonly authorizer: Authorizer | undefined
  /** Exchanges that have not ended. */
  readonly open: Exchange[] = []
  /** Undefined before a server has set one. */
  cookies: SessionCookies | undefined
  readonly observer: HttpClientOptions['observer']
  /** The user's headers, if they need not be asked for. Undefined with a header function or credentials. */
  readonly fixedHeaders: readonly string[] | undefined
  /** Async context of the owner: the code that started the transport. */
  owner: AsyncResource | undefined
  readonly #options: HttpClientOptions
  readonly #userHeaders: readonly string[]
  #ownDispatcher: Dispatcher | undefined
  #lingerTimer: NodeJS.Timeout | undefined
  #background: Set<Promise<unknown>> | undefined
  #isClosed = false

  constructor(options: HttpClientOptions) {
    const { url, limits, authProvider, headers, observer } = options
    this.url = url
    this.observer = observer
    this.limits = limits
    if (authProvider !== undefined) {
      this.authorizer = new Authorizer(authProvider, new URL(url.origin + url.path), (...request) =>
        createOAuthFetch(this.dispatcher)(...request),
      )
    }
    this.#options = options
    this.#userHeaders = typeof headers === 'function' ? [] : userHeaderList(headers)
    const isAsked = typeof headers === 'function' || authProvider !== undefined
    this.fixedHeaders = isAsked ? undefined : this.#userHeaders
  }

  get dispatcher(): Dispatcher {
    const { dispatcher, connectMs } = this.#options
    return dispatcher ?? (this.#ownDispatcher ??= createDispatcher({ connectMs }))
  }

  /** Creates an error about this server. */
  error(
    code: TransportErrorCode,
    message: string,
    options: TransportErrorOptions = {},
  ): TransportError {
    return new TransportError(code, message, { url: this.url.display, ...options })
  }

  /** Creates the error of a request that this side ended: it closed the transport, or cancelled the request. */
  closed(why: string, outcome: RequestOutcome = 'unknown'): TransportError {
    return this.error('CLOSED', why, { outcome })
  }

  /** Runs code that belongs to no call, such as opening a session again, with the credentials of the owner. */
  asOwner<T>(run: () => T): T {
    return this.owner === undefined ? run() : this.owner.runInAsyncScope(run)
  }

  /** Starts an exchange, and passes its events to `handlers`. A failure before it is sent is an outcome, too. */
  send(request: HttpRequest, handlers: AnswerHandlers): Exchange {
    const exchange = new Exchange(this, request, handlers)
    if (this.#isClosed) {
      const error = this.closed(UNSENT, 'not-executed')
      handlers.outcome({ kind: 'failed', error })
    } else if (request.isOfCaller === true) exchange.start()
    else this.asOwner(() => exchange.start())
    return exchange
  }

  /** @throws TransportError `CONFIG` if the header function throws any error, or returns something that is not allowed */
  async userHeaders(request: HttpRequest): Promise<readonly string[]> {
    const { headers } = this.#options
    const { method: httpMethod, callHeaders } = request
    return this.#orConfigError('headers', async () => {
      const given =
        typeof headers === 'function'
          ? userHeaderList(await headers({ httpMethod, rpcMethod: rpcMethodOf(request) }))
          : this.#userHeaders
      return callHeaders === undefined ? given : withHeaders(given, userHeaderList(callHeaders))
    })
  }

  /** @throws TransportError `UNAUTHORIZED` or `CONFIG` of the provider, or `CONFIG` for any other error of it */
  credential(authorizer: Authorizer, { method }: HttpRequest): Promise<Credential | undefined> {
    return this.#orConfigError('token', () => authorizer.credential(method))
  }

  /** Adds work that no caller waits for, such as the termination of a session that stays unused. */
  inBackground(work: Promise<unknown>): void {
    const all = (this.#background ??= new Set())
    all.add(work)
    const end = (): boolean => all.delete(work)
    work.then(end, end)
  }

  /** Waits for the work in the background, at most 2 s. Then the client can be closed. */
  async settled(): Promise<void> {
    const all = async (): Promise<void> => {
      while (this.#background !== undefined && this.#background.size > 0) {
        await Promise.allSettled(this.#background)
      }
    }
    if (this.#background !== undefined) await within(all(), SETTLE_MS, () => {})
  }

  /**
   * Returns whether the server responds to a request within `limitMs`, with any status. Uses the current token
   * and requests no other. Returns undefined if this cannot be known: headers or a token are missing, or the
   * client was closed.
   */
  isAnswered(request: HttpRequest, limitMs: number): Promise<boolean | undefined> {
    return new Promise((resolve) => {
      let exchange: Exchange | undefined
      exchange = this.send(
        { ...request, limitMs },
        {
          activity: () => {
            resolve(true)
            exchange?.abort(this.closed('The check is over'))
          },
          message: () => {},
          outcome: (outcome) => {
            const code = outcome.kind === 'failed' ? outcome.error.code : undefined
            if (code === 'TIMEOUT') resolve(false)
            else if (this.#isClosed || code === 'CONFIG' || code === 'UNAUTHORIZED')
              resolve(undefined)
            else setTimeout(() => resolve(false), limitMs).unref() // the server may be starting
          },
        },
      )
    })
  }

  /**
   * Called when nothing of an exchange is needed any more. A server should end a response immediately after its answer
   * (2025-11-25, transports). Otherwise each call would occupy a connection, so the response is closed after some
   * seconds.
   */
  answered(exchange: Exchange | undefined): void {
    if (exchange === undefined || exchange.isDone) return
    exchange.answeredAt = performance.now()
    this.#lingerTimer ??= setTimeout(() => this.#closeLingering(), LINGER_MS).unref()
  }

  async close(): Promise<void> {
    this.#isClosed = true
    clearTimeout(this.#lingerTimer)
    const closed = this.closed('The transport was closed')
    const unsent = this.closed(UNSENT, 'not-executed')
    for (const exchange of this.open.slice()) exchange.abort(exchange.isSent ? closed : unsent)
    const own = this.#ownDispatcher
    this.#ownDispatcher = undefined
    await own?.destroy()
  }

  emit(
    request: HttpRequest,
    result: Omit<ExchangeEvent, 'httpMethod' | 'url' | 'rpcMethod' | 'era' | 'sessionId'>,
  ): void {
    const { method, era, sessionId } = request
    if (era === undefined) return
    const event: ExchangeEvent = {
      httpMethod: method,
      url: this.url.display,
      rpcMethod: rpcMethodOf(request),
      era,
      sessionId: sessionId === undefined ? undefined : shortSessionId(sessionId),
      ...result,
    }
    try {
      this.observer.onExchange?.(event)
    } catch {
      // A listener that throws must not affect the exchange.
    }
  }

  #closeLingering(): void {
    this.#lingerTimer = undefined
    const before = performance.now() - LINGER_MS
    const message = 'The response stayed open after its answer, and was closed'
    for (const exchange of this.open.filter(({ answeredAt }) => answeredAt !== undefined)) {
      if (Number(exchange.answeredAt) <= before)
        exchange.abort(new TransportError('CLOSED', message))
      else this.#lingerTimer ??= setTimeout(() => this.#closeLingering(), LINGER_MS).unref()
    }
  }

  async #orConfigError<T>(what: 'headers' | 'token', get: () => Promise<T>): Promise<T> {
    try {
      return await get()
    } catch (cause) {
      if (what === 'token' && isWithoutToken(cause)) throw cause
      const message = `No ${what} for ${this.url.display}: nothing was sent`
      throw this.error('CONFIG', message, { cause })
    }
  }
}

/**
 * Returns whether the error of a provider means that the user has no token. Its other errors belong to other requests,
 * such as one to an authorization server, and say nothing about this request or its session.
 */
function isWithoutToken(error: unknown): boolean {
  if (!TransportError.is(error) || error.status !== undefined) return false
  if (error.outcome !== 'not-executed') return false // it would become the outcome of this request
  return error.code === 'UNAUTHORIZED' || error.code === 'CONFIG'
}

function rpcMethodOf({ body }: HttpRequest): string | undefined {
  return typeof body === 'object' && 'method' in body ? body.method : undefined
}

const OAUTH_MS = 30_000

/**
 * `fetch` for metadata and authorization servers, over the transport's dispatcher. Follows redirects only
 * within the origin, limits time (30 s, body included) and size, and shows no query in errors. Sends only the
 * given headers, and none of the transport's user.
 */
export function createOAuthFetch(dispatcher: Dispatcher): FetchFunction {
  return async function oauthFetch(input, init = {}) {
    const { body, signal } = init
    if (body != null && typeof body !== 'string' && !(body instanceof URLSearchParams)) {
      throw new TypeError('The body must be a string or URLSearchParams')
    }
    const url = parseServerUrl(input)
    const request: HttpRequest = {
      method: init.method === 'POST' ? 'POST' : 'GET',
      era: undefined,
      headers: [...new Headers(init.headers)].flat(),
      body: body == null ? undefined : String(body),
      signal: signal ?? undefined,
      limitMs: OAUTH_MS,
    }
    const client = new HttpClient({
      url,
      dispatcher,
      connectMs: 0,
      headers: {},
      authProvider: undefined,
      limits: resolveLimits(),
      observer: {},
    })
    const outcome = await new Promise<AnswerOutcome>((resolve) => {
      client.send(request, { message: () => {}, outcome: resolve })
    })
    if (outcome.kind === 'failed') throw outcome.error
    if (outcome.kind === 'ended' || outcome.refusal.isPartial) {
      const message = `${url.display} sent a response that cannot be decoded, or is larger than 1 MiB`
      throw client.error('LIMIT', message)
    }
    return toResponse(outcome.refusal)
  }
}

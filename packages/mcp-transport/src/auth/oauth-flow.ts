// Runs `auth()` of `@modelcontextprotocol/client`, and adds what it does not promise:
// - One refresh at a time for each credential, also across processes. Users sign in again only if the server refused
//   the refresh token or the client: other failures are temporary.
// - Metadata that cannot be read is an error: `auth()` would use the MCP server as the authorization server.
// - Credentials are sent to https or to this machine only, and a refused token request is never repeated.
// - `state` is always sent and compared, and an error in a callback is used only after its `iss`.
import {
  auth,
  AuthorizationServerMismatchError,
  computeScopeUnion,
  IssuerMismatchError,
  OAuthError,
  RegistrationRejectedError,
  validateAuthorizationResponseIssuer,
} from '@modelcontextprotocol/client'
import type { OAuthClientProvider as LibraryProvider } from '@modelcontextprotocol/client'
import { isLoopback, isRecord } from '@x/internal'
import { parseJson } from '../json-rpc.ts'
import { TransportError } from '../transport-error.ts'
import { AuthError, storedTokens } from './auth-provider.ts'
import type {
  AuthorizationCallback,
  OAuthClientProvider,
  OAuthDiscoveryState,
} from './auth-provider.ts'
import { oauthChallenge } from './authorizer.ts'
import type { FetchFunction, Renewal } from './authorizer.ts'

type LibraryOptions = Omit<Parameters<typeof auth>[1], 'serverUrl' | 'fetchFn'>
type Overrides = { [Name in keyof OAuthClientProvider]?: OAuthClientProvider[Name] | undefined }

/** What a provider may not keep: some providers for SDK v1 drop the issuer of a credential. */
interface Memory {
  pending?: OAuthDiscoveryState | undefined
  tokenIssuer?: string | undefined
  clientIssuer?: string | undefined
}

const MEMORIES = new WeakMap<OAuthClientProvider, Memory>()

interface FlowOptions {
  readonly provider: OAuthClientProvider
  readonly serverUrl: URL
  readonly fetch: FetchFunction
  /** Aborts when no request waits for the tokens any more. */
  readonly signal: AbortSignal
}

export class OAuthFlow {
  readonly #options: FlowOptions
  readonly #memory: Memory
  /** Scope of the tokens that are requested, for servers that do not repeat it in the response. */
  #scope: string | undefined
  readonly #failures: unknown[] = []

  constructor(options: FlowOptions) {
    this.#options = options
    this.#memory = MEMORIES.get(options.provider) ?? {}
    MEMORIES.set(options.provider, this.#memory)
  }

  /**
   * Gets tokens and saves them with the provider: by a refresh, by a grant without a user, or from the user.
   *
   * @param isReplaced returns whether the provider has another token than the refused one by now
   * @throws AuthError `AUTHORIZATION_REQUIRED` if the user was sent away; `finish` completes it.
   */
  async obtain({ refusal, isStepUp }: Renewal, isReplaced: () => Promise<boolean>): Promise<void> {
    const { provider } = this.#options
    const stored = await storedTokens(provider, this.#options.serverUrl)
    this.#scope = stored?.scope
    const challenge = oauthChallenge(refusal.headers)
    const { resourceMetadata = '' } = challenge
    const scope = computeScopeUnion(isStepUp ? stored?.scope : undefined, challenge.scope)
    const options = {
      ...(scope && { scope }),
      ...(URL.canParse(resourceMetadata) && { resourceMetadataUrl: new URL(resourceMetadata) }),
    }
    const hasUser = provider.redirectUrl !== undefined
    let isDone = false
    if (!hasUser || (!isStepUp && stored?.refresh_token !== undefined)) {
      const work = async (): Promise<void> => {
        isDone = await isReplaced() // by the process that held the lock before
        if (isDone) return
        if (hasUser) isDone = await this.#refreshed(options, isReplaced)
        else isDone = (await this.#auth(options, {})) === 'AUTHORIZED'
      }
      await (provider.exclusively === undefined ? work() : provider.exclusively(work))
    }
    if (!isDone) await this.#askUser(options)
  }

  /**
   * Completes an authorization with the callback, possibly in another process than the one that started it.
   *
   * @throws AuthError
   * @throws TypeError for a callback without a code and without an error.
   */
  async finish(callback: AuthorizationCallback): Promise<void> {
    const text = String(callback).trim()
    const parameters = callbackParameters(text)
    if (parameters === undefined && !/^[^?&\s]+$/.test(text)) {
      throw new TypeError('The callback holds neither a code nor an error: pass its whole query')
    }
    const pending = this.#memory.pending ?? (await this.#options.provider.discoveryState?.())
    await this.#complete(pending, parameters ?? text)
  }

  /**
   * Returns whether there are other tokens now, by this refresh or by another process. If not, the user has to
   * sign in.
   *
   * @throws AuthError or TransportError for temporary failures.
   */
  async #refreshed(options: LibraryOptions, isReplaced: () => Promise<boolean>): Promise<boolean> {
    const { provider } = this.#options
    try {
      await this.#auth(options, {
        saveClientInformation: undefined, // the redirect URL is not ready for a registration yet
        saveDiscoveryState: undefined,
        state() {
          throw new TypeError('The stored tokens cannot be refreshed')
        },
      })
      return true
    } catch (error) {
      // Another process may have used the refresh token first. Its tokens serve this process, too.
      if (await isReplaced()) return true
      const refused = AuthError.is(error) ? (error.oauthError ?? '') : ''
      if (['invalid_grant', 'invalid_dpop_proof'].includes(refused)) {
        await provider.invalidateCredentials?.('tokens')
      } else if (
        ['invalid_client', 'unauthorized_client'].includes(refused) &&
        provider.saveClientInformation !== undefined
      ) {
        await provider.invalidateCredentials?.('client')
      } else if (this.#failures.length > 0) throw error
      return false
    }
  }

  /** Sends the user to the authorization server, and continues if the provider waits for the callback. */
  async #askUser(options: LibraryOptions): Promise<void> {
    const { provider, serverUrl, signal } = this.#options
    const memory = this.#memory
    await provider.prepareRedirect?.({ signal })
    const state = (await provider.state?.()) ?? crypto.randomUUID()
    let discovered: OAuthDiscoveryState | undefined
    let pending: OAuthDiscoveryState | undefined
    let returned: unknown
    await this.#auth(
      { ...options, forceReauthorization: true },
      {
        state: () => state,
        saveDiscoveryState: (found) => void (discovered = found),
        async redirectToAuthorization(url) {
          const { searchParams, origin } = secureUrl(url, serverUrl)
          pending = {
            authorizationServerUrl: origin,
            ...discovered,
            state,
            scope: searchParams.get('scope') ?? undefined,
            redirectUrl: searchParams.get('redirect_uri') ?? undefined,
          }
          memory.pending = pending
          await provider.saveDiscoveryState?.(pending)
          returned = await provider.redirectToAuthorization(url, { signal })
        },
      },
    )
    const parameters = callbackParameters(returned) // many providers return something else
    if (parameters !== undefined) return this.#complete(pending, parameters)
    const message =
      'The user was sent to the authorization server. Pass the callback to finishAuth(), then try again'
    throw new AuthError('AUTHORIZATION_REQUIRED', message)
  }

  /** Neither `state` nor `iss` of a bare code can be checked. */
  async #complete(
    pending: OAuthDiscoveryState | undefined,
    answer: URLSearchParams | string,
  ): Promise<void> {
    const isBareCode = typeof answer === 'string'
    const parameters = isBareCode ? new URLSearchParams({ code: answer }) : answer
    const metadata = pending?.authorizationServerMetadata
    const iss = parameters.get('iss') ?? undefined
    try {
      // Before anything else in the callback is used, errors included (RFC 9207, section 2.4).
      validateAuthorizationResponseIssuer({
        iss,
        expectedIssuer: metadata?.issuer,
        issParameterSupported:
          metadata?.['authorization_response_iss_parameter_supported'] === true,
      })
    } catch (cause) {
      throw toAuthError(cause)
    }
    if (pending?.state !== undefined && !isBareCode && parameters.get('state') !== pending.state) {
      throw new AuthError('STATE_MISMATCH', 'The callback answers another authorization request')
    }
    const oauthError = printable(parameters.get('error'))
    if (oauthError !== undefined) {
      throw new AuthError('DENIED', `This client was not authorized: ${oauthError}`, { oauthError })
    }
    this.#scope = pending?.scope
    await this.#auth(
      { authorizationCode: parameters.get('code') ?? '', ...(iss !== undefined && { iss }) },
      {
        redirectUrl: pending?.redirectUrl ?? this.#options.provider.redirectUrl,
        discoveryState: () => pending,
        saveDiscoveryState: undefined,
      },
    )
    if (this.#memory.pending === pending) this.#memory.pending = undefined
  }

  async #auth(options: LibraryOptions, overrides: Overrides): Promise<'AUTHORIZED' | 'REDIRECT'> {
    this.#failures.length = 0
    try {
      return await auth(this.#view(overrides), {
        ...options,
        serverUrl: this.#options.serverUrl,
        fetchFn: (url, init) => this.#step(() => this.#send(url, init)),
      })
    } catch (cause) {
      throw this.#failures.length === 0 ? toAuthError(cause) : this.#failures[0]
    }
  }

  /** Runs a step of `auth()`. The first failure ends the flow: `auth()` would go on and ask the user. */
  async #step<Result>(work: () => Promise<Result>): Promise<Result> {
    try {
      if (this.#failures.length === 0) return await work()
    } catch (error) {
      this.#failures.push(error)
    }
    // `auth()` neither repeats nor replaces a request that fails with this error.
    throw new OAuthError('temporarily_unavailable', 'The authorization has failed')
  }

  /** The provider as `auth()` sees it. Each property that is not overridden is the provider's own. */
  #view(overrides: Overrides): LibraryProvider {
    const { provider } = this.#options
    const memory = this.#memory
    const own: Overrides = {
      clientInformation: async (context) => {
        const client = await provider.clientInformation(context)
        const issuer = client?.issuer ?? memory.clientIssuer ?? context?.issuer
        return client && { ...client, issuer }
      },
      saveClientInformation:
        provider.saveClientInformation === undefined
          ? undefined
          : async (client, context) => {
              memory.clientIssuer = client.issuer
              await provider.saveClientInformation?.(client, context)
            },
      tokens: async (context) => {
        const tokens = await storedTokens(provider, this.#options.serverUrl, context)
        const issuer = tokens?.issuer ?? memory.tokenIssuer ?? context?.issuer
        return tokens && { ...tokens, issuer }
      },
      saveTokens: (tokens, context) =>
        this.#step(async () => {
          memory.tokenIssuer = memory.clientIssuer = tokens.issuer
          const scope = tokens.scope ?? this.#scope
          await provider.saveTokens(
            { ...tokens, scope, server: this.#options.serverUrl.origin },
            context,
          )
        }),
      discoveryState: () => undefined, // the server may have changed its authorization server
      ...overrides,
    }
    const target: LibraryProvider = Object.create(null)
    return new Proxy(target, {
      get(_target, name) {
        if (Object.hasOwn(own, name)) return Reflect.get(own, name)
        const value: unknown = Reflect.get(provider, name)
        return typeof value === 'function' ? value.bind(provider) : value
      },
    })
  }

  async #send(input: string | URL, init: RequestInit = {}): Promise<Response> {
    const url = secureUrl(input, this.#options.serverUrl)
    const headers = new Headers(init.headers)
    headers.delete('mcp-protocol-version') // some authorization servers refuse it
    const response = this.#options.fetch(url, { ...init, headers, signal: this.#options.signal })
    if (init.body instanceof URLSearchParams) {
      this.#scope = init.body.get('scope') ?? this.#scope
      return tokenResponse(await response, url)
    }
    return init.method === 'POST' ? response : metadataResponse(response, url)
  }
}

/** Returns other errors unchanged: they are of the provider, or say what is wrong with the server. */
function toAuthError(cause: unknown): unknown {
  if (cause instanceof IssuerMismatchError || cause instanceof AuthorizationServerMismatchError) {
    const message =
      'The response or the stored client belongs to another authorization server. Pass the whole callback, and the issuer of the client'
    return new AuthError('ISSUER_MISMATCH', message, { cause })
  }
  if (cause instanceof RegistrationRejectedError) {
    const oauthError = errorCode(parseJson(cause.body))
    const why = oauthError === undefined ? '' : `, ${oauthError}`
    const message = `The authorization server did not register this client (HTTP ${cause.status}${why}). Register it there by hand, and pass its client id`
    return new AuthError('NOT_REGISTERED', message, { oauthError })
  }
  if (!(cause instanceof Error) || !['ZodError', 'SyntaxError'].includes(cause.name)) return cause
  // Without the cause: a `SyntaxError` quotes the response, which may hold a secret.
  return new AuthError('INVALID_RESPONSE', 'The authorization server sent a malformed response')
}

/**
 * A response that is not a JSON object counts as 404, because many servers answer unknown paths with a page or a
 * redirect.
 *
 * @throws AuthError `DISCOVERY_FAILED` if the request fails: the server may have metadata
 */
async function metadataResponse(response: Promise<Response>, url: URL): Promise<Response> {
  try {
    const { ok, status } = await response
    if (status >= 500) throw new Error(`HTTP ${status}`)
    const document = ok ? parseJson(await (await response).text()) : undefined
    if (isRecord(document)) return Response.json(document)
  } catch (cause) {
    const code = TransportError.is(cause) ? cause.code : undefined
    if (code === 'CLOSED') throw cause
    if (code !== 'UNEXPECTED_RESPONSE') {
      const message = `Metadata could not be read from ${url.origin}${url.pathname}`
      throw new AuthError('DISCOVERY_FAILED', message, { cause })
    }
  }
  return new Response(null, { status: 404 })
}

/** @throws AuthError `TOKEN_REFUSED` */
async function tokenResponse(response: Response, { origin }: URL): Promise<Response> {
  const { status, headers } = response
  const text = await response.text()
  const body = parseJson(text)
  const oauthError = errorCode(body)
  const type = isRecord(body) ? String(body['token_type']) : ''
  const isToken = response.ok && oauthError === undefined && /^(?:bearer|dpop)$/i.test(type)
  // The library repeats the request once with the nonce.
  if (isToken || oauthError === 'use_dpop_nonce') return new Response(text, { status, headers })
  const why = oauthError === undefined ? '' : `: ${oauthError}`
  const message = `${origin} gave no usable token${why} (HTTP ${status})`
  throw new AuthError('TOKEN_REFUSED', message, { oauthError })
}

/** Returns the error code of a response (RFC 6749, section 5.2), safe to show. */
function errorCode(body: unknown): string | undefined {
  return isRecord(body) ? printable(body['error']) : undefined
}

function printable(code: unknown): string | undefined {
  if (typeof code !== 'string') return undefined
  return code.replaceAll(/[^\x21-\x7E]/g, '?').slice(0, 64)
}

/**
 * Accepts a URL for credentials: https, or http on this machine if the MCP server is on it too (OAuth 2.1,
 * section 1.5). So a remote server cannot make this machine send requests to its own services.
 *
 * @throws AuthError `INSECURE_URL`
 */
export function secureUrl(input: string | URL, serverUrl: URL): URL {
  const url = new URL(input)
  const isLocal = url.protocol === 'http:' && isOnThisMachine(url) && isOnThisMachine(serverUrl)
  if (url.protocol === 'https:' || isLocal) return url
  const where = url.origin === 'null' ? url.protocol : url.origin
  const message = `${where} is named for authorization, but it is neither https nor on this machine`
  throw new AuthError('INSECURE_URL', message)
}

function isOnThisMachine({ hostname }: URL): boolean {
  return isLoopback(hostname) || hostname.endsWith('.localhost')
}

/** Returns the parameters of a callback URL. Undefined for a bare code and for other texts. */
export function callbackParameters(callback: unknown): URLSearchParams | undefined {
  const text = String(callback)
  const parameters = new URLSearchParams(URL.canParse(text) ? new URL(text).search : text)
  return parameters.has('code') || parameters.has('error') ? parameters : undefined
}

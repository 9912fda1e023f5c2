// Runs `auth()` of `@modelcontextprotocol/client`, and adds what it does not promise:
// - One refresh at a time for each credential, also across processes. Users sign in again only if the server refused
//   the refresh token or the client: other failures are temporary.
// - Metadata that cannot be read is an error: `auth()` would use the MCP server as the authorization server.
// - Credentials are sent to https or to this machine only, and a refused token request is never repeated.
// - `state` is always sent and compared, and an error in a callback is used only after its `iss`.
// - The authorization server is chosen before `auth()` runs: it takes the first of several, and no `issuer`.
// - A registration that the authorization server has forgotten is made again once.
// - The device authorization grant (RFC 8628), whose rules are in `device-flow.ts`.
import type * as client from '@modelcontextprotocol/client'
import type { OAuthClientProvider as LibraryProvider } from '@modelcontextprotocol/client'
import { AuthError, storedTokens } from './auth-provider.ts'
import type {
  AuthorizationCallback,
  OAuthClientInformation,
  OAuthClientProvider,
  OAuthDiscoveryState,
} from './auth-provider.ts'
import { oauthChallenge } from './authorizer.ts'
import type { FetchFunction, Renewal } from './authorizer.ts'
import { deviceEndpoint, DeviceFlow } from './device-flow.ts'
import type { Clock } from './device-flow.ts'
import { chooseServer, isSameIssuer, namedServer, withFinalSlash } from './discovery.ts'
import type { Discovery } from './discovery.ts'
import {
  metadataDocument,
  printable,
  registrationResponse,
  toAuthError,
  tokenResponse,
} from './oauth-responses.ts'
import { secureUrl } from './secure-url.ts'

type LibraryOptions = Omit<Parameters<typeof client.auth>[1], 'serverUrl' | 'fetchFn'>
type Overrides = { [Name in keyof OAuthClientProvider]?: OAuthClientProvider[Name] | undefined } & {
  saveResourceUrl?: (url: string) => void
}

/** What a provider may not keep: some providers for SDK v1 drop the issuer of a credential. */
interface Memory {
  pending?: OAuthDiscoveryState | undefined
  tokenIssuer?: string | undefined
  clientIssuer?: string | undefined
  /** Id of the client that was registered last. */
  registered?: string | undefined
  /** Id of a client that the authorization server has forgotten, for providers that keep it nevertheless. */
  forgotten?: string | undefined
}

/** Codes for a client that the authorization server does not know. Keycloak sends the second one. */
const FORGOTTEN = new Set(['invalid_client', 'unauthorized_client'])

/** Authorizations without a callback after which the client is registered again. */
const MAX_UNANSWERED = 2

const MEMORIES = new WeakMap<OAuthClientProvider, Memory>()

interface FlowOptions {
  readonly provider: OAuthClientProvider
  readonly serverUrl: URL
  readonly fetch: FetchFunction
  /** Aborts when no request waits for the tokens any more. */
  readonly signal: AbortSignal
  /** Called when the user is asked to sign in. */
  readonly onAsked?: (() => void) | undefined
  /** For the device authorization grant. @default the time of this machine */
  readonly clock?: Clock | undefined
}

/** Parts of the library that this package uses. */
export type OAuthLibrary = Pick<
  typeof client,
  | 'auth'
  | 'AuthorizationServerMismatchError'
  | 'computeScopeUnion'
  | 'discoverOAuthProtectedResourceMetadata'
  | 'IssuerMismatchError'
  | 'OAuthError'
  | 'RegistrationRejectedError'
  | 'selectClientAuthMethod'
  | 'validateAuthorizationResponseIssuer'
>

/**
 * Not an import at the top: in a bundle of one file, that would need the optional package at every start. A bundler accepts
 * that it is not installed if the import is in `try`, and leaves out the rest of it if the import is destructured.
 */
async function loadLibrary(): Promise<OAuthLibrary> {
  try {
    const {
      auth,
      AuthorizationServerMismatchError,
      computeScopeUnion,
      discoverOAuthProtectedResourceMetadata,
      IssuerMismatchError,
      OAuthError,
      RegistrationRejectedError,
      selectClientAuthMethod,
      validateAuthorizationResponseIssuer,
    } = await import('@modelcontextprotocol/client')
    return {
      auth,
      AuthorizationServerMismatchError,
      computeScopeUnion,
      discoverOAuthProtectedResourceMetadata,
      IssuerMismatchError,
      OAuthError,
      RegistrationRejectedError,
      selectClientAuthMethod,
      validateAuthorizationResponseIssuer,
    }
  } catch (cause) {
    const message =
      'The server requires OAuth, and @modelcontextprotocol/client could not be loaded. Install it: npm i @modelcontextprotocol/client'
    throw new AuthError('LIBRARY_MISSING', message, { cause })
  }
}

/** @throws AuthError `LIBRARY_MISSING` if `@modelcontextprotocol/client` is not installed */
export async function createOAuthFlow(options: FlowOptions): Promise<OAuthFlow> {
  return new OAuthFlow(options, await loadLibrary())
}

export class OAuthFlow {
  readonly #library: OAuthLibrary
  readonly #options: FlowOptions
  readonly #memory: Memory
  /** Scope of the tokens that are requested, for servers that do not repeat it in the response. */
  #scope: string | undefined
  readonly #failures: unknown[] = []
  /** Metadata documents by URL, undefined for a missing one. A flow reads each of them once. */
  readonly #documents = new Map<string, Record<string, unknown> | undefined>()
  #discovery: Discovery | undefined
  /** Authorization server that the user named. */
  #named: string | undefined
  /** The client that the last request was for. */
  #client: OAuthClientInformation | undefined
  #hasForgottenClient = false

  constructor(options: FlowOptions, library: OAuthLibrary) {
    this.#library = library
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
    const scope = this.#library.computeScopeUnion(
      isStepUp ? stored?.scope : undefined,
      challenge.scope,
    )
    const options = {
      ...(scope && { scope }),
      ...(URL.canParse(resourceMetadata) && { resourceMetadataUrl: new URL(resourceMetadata) }),
    }
    const isDevice = provider.showUserCode !== undefined
    const hasUser = isDevice || provider.redirectUrl !== undefined
    let isDone = false
    if (!hasUser || (!isStepUp && stored?.refresh_token !== undefined)) {
      const work = async (): Promise<void> => {
        isDone = await isReplaced() // by the process that held the lock before
        if (isDone) return
        if (hasUser) isDone = await this.#refreshed(options, isReplaced)
        else isDone = (await this.#registeredAgain(() => this.#auth(options, {}))) === 'AUTHORIZED'
      }
      await (provider.exclusively === undefined ? work() : provider.exclusively(work))
    }
    if (isDone) return
    if (isDevice) await this.#registeredAgain(() => this.#signInByCode(options, isReplaced))
    else await this.#signIn(options, isStepUp)
  }

  /**
   * Asks the user. An authorization server that has forgotten the client shows an error page to the user, and calls
   * nothing here. After two authorizations without a callback, the client is registered again, once.
   */
  async #signIn(options: LibraryOptions, isStepUp: boolean): Promise<void> {
    const { provider } = this.#options
    const memory = this.#memory
    const client = await provider.clientInformation()
    const unanswered = await this.#unanswered()
    // A step-up keeps the client that its tokens belong to.
    if (unanswered !== MAX_UNANSWERED || isStepUp || !this.#isRegistered(client)) {
      return this.#registeredAgain(() => this.#askUser(options))
    }
    memory.forgotten = client?.client_id
    this.#hasForgottenClient = true
    try {
      await this.#askUser(options)
    } catch (error) {
      if (this.#client !== undefined) throw error
      memory.forgotten = undefined // registering failed, and the old registration may be valid
      await this.#askUser(options)
    }
  }

  /** Number of authorizations in a row, up to now, whose callback has not come. */
  async #unanswered(): Promise<number> {
    const kept = await this.#options.provider.discoveryState?.()
    return kept?.unanswered ?? this.#memory.pending?.unanswered ?? 0
  }

  /** Lets the user enter a code on another device, and requests the tokens until that is done (RFC 8628). */
  async #signInByCode(options: LibraryOptions, isReplaced: () => Promise<boolean>): Promise<void> {
    const { provider, serverUrl, signal, onAsked, clock } = this.#options
    const flow = new DeviceFlow({
      provider,
      onAsked,
      serverUrl,
      library: this.#library,
      signal,
      clock,
      fetch: (url, init) => this.#exchange(this.#secureUrl(url), init),
      secureUrl: (url) => this.#secureUrl(url),
    })
    let found: OAuthDiscoveryState | undefined
    let resource: string | undefined
    const overrides: Overrides = {
      redirectUrl: undefined,
      saveDiscoveryState: (state) => {
        found = state
        deviceEndpoint(state) // before the client is registered
      },
      saveResourceUrl: (url) => void (resource = url),
      prepareTokenRequest: (scope) => {
        const { authorizationServerUrl = serverUrl.origin } = this.#discovery ?? {}
        const all = { ...this.#discovery, ...found, authorizationServerUrl }
        this.#scope = scope
        if (this.#client === undefined) throw new TypeError('The client is not registered')
        return flow.tokenRequest({ found: all, client: this.#client, scope, resource })
      },
    }
    for (;;) {
      try {
        await this.#auth(options, overrides)
        return await flow.end()
      } catch (error) {
        if (await isReplaced()) return // a process that shares the store has got the tokens
        await flow.failed(error)
      }
    }
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
    try {
      await this.#complete(pending, parameters ?? text)
    } catch (cause) {
      if (!isOfForgottenClient(cause) || !(await this.#forgetClient())) throw cause
      const { code, oauthError } = cause
      const message = `The authorization server has forgotten this client (${oauthError}), and its registration was removed. Start the authorization again`
      throw new AuthError(code, message, { cause, oauthError })
    }
  }

  /** Finds the authorization server. @throws AuthError `ISSUER_MISMATCH`, or for metadata that cannot be read */
  async #discover(url: URL | undefined): Promise<Discovery> {
    const { provider, serverUrl } = this.#options
    const server = await namedServer(provider)
    this.#named = server.url
    this.#failures.length = 0
    const found = await this.#library
      .discoverOAuthProtectedResourceMetadata(
        serverUrl,
        { ...(url && { resourceMetadataUrl: url }) },
        this.#fetch,
      )
      .catch(() => undefined) // none, or malformed
    if (this.#failures.length > 0) throw this.#failures[0]
    return { resourceMetadataUrl: url?.href, ...chooseServer(server, serverUrl, found) }
  }

  /** Runs `work`, and once more if the authorization server has forgotten the client. */
  async #registeredAgain<Result>(work: () => Promise<Result>): Promise<Result> {
    try {
      return await work()
    } catch (error) {
      if (!isOfForgottenClient(error) || !(await this.#forgetClient())) throw error
      return work()
    }
  }

  /**
   * Removes a registration that the authorization server has forgotten. Tokens are kept: they may be of another
   * server. Returns whether the client can be registered again: once for each flow, and never if the user has
   * registered it.
   */
  async #forgetClient(): Promise<boolean> {
    const { provider } = this.#options
    if (this.#hasForgottenClient || provider.saveClientInformation === undefined) return false
    const stored = await provider.clientInformation()
    const id = (this.#client ?? stored)?.client_id
    if (id === undefined || id === provider.clientMetadataUrl) return false
    // Another process may have registered the client already.
    if (id === stored?.client_id) {
      await provider.invalidateCredentials?.('client')
      const isKept = (await provider.clientInformation())?.client_id === id
      if (isKept && !this.#isRegistered(stored)) return false
      this.#memory.forgotten = isKept ? id : undefined
    }
    this.#hasForgottenClient = true
    return true
  }

  /** Returns whether a client shows that it was registered by a request, and not by the user. */
  #isRegistered(client: OAuthClientInformation | undefined): boolean {
    const { provider } = this.#options
    if (!client || provider.saveClientInformation === undefined) return false
    const { client_id: id, redirect_uris: uris, client_id_issued_at: issuedAt } = client
    if (id === provider.clientMetadataUrl) return false
    return id === this.#memory.registered || uris !== undefined || issuedAt !== undefined
  }

  /**
   * Returns whether there are other tokens now, by this refresh or by another process. If not, the user has to
   * sign in.
   *
   * @throws AuthError or TransportError for temporary failures.
   */
  async #refreshed(options: LibraryOptions, isReplaced: () => Promise<boolean>): Promise<boolean> {
    const { provider, serverUrl } = this.#options
    try {
      await this.#auth(options, {
        redirectUrl: provider.redirectUrl ?? serverUrl, // without one, the library requests new tokens
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
      } else if (FORGOTTEN.has(refused) && provider.saveClientInformation !== undefined) {
        await this.#forgetClient()
      } else if (this.#failures.length > 0) throw error
      return false
    }
  }

  /** Sends the user to the authorization server, and continues if the provider waits for the callback. */
  async #askUser(options: LibraryOptions): Promise<void> {
    const { provider, signal, onAsked } = this.#options
    const memory = this.#memory
    await provider.prepareRedirect?.({ signal })
    const state = (await provider.state?.()) ?? crypto.randomUUID()
    const unanswered = 1 + (await this.#unanswered())
    let discovered: OAuthDiscoveryState | undefined
    let pending: OAuthDiscoveryState | undefined
    let returned: unknown
    await this.#auth(
      { ...options, forceReauthorization: true },
      {
        state: () => state,
        saveDiscoveryState: (found) => void (discovered = found),
        redirectToAuthorization: async (url) => {
          const { searchParams, origin } = this.#secureUrl(url)
          const { authorizationServerUrl = origin } = this.#discovery ?? {}
          pending = {
            ...this.#discovery,
            ...discovered,
            authorizationServerUrl, // as the server spells it
            state,
            scope: searchParams.get('scope') ?? undefined,
            redirectUrl: searchParams.get('redirect_uri') ?? undefined,
            unanswered,
          }
          memory.pending = pending
          await provider.saveDiscoveryState?.(pending)
          onAsked?.()
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
    const { provider } = this.#options
    const isBareCode = typeof answer === 'string'
    const parameters = isBareCode ? new URLSearchParams({ code: answer }) : answer
    const metadata = pending?.authorizationServerMetadata
    const iss = parameters.get('iss') ?? undefined
    const spelling = pending?.authorizationServerUrl
    // The server has published its issuer twice, and may use either spelling.
    const isOther = iss !== undefined && iss === spelling && isSameIssuer(iss, metadata?.issuer)
    try {
      // Before anything else in the callback is used, errors included (RFC 9207, section 2.4).
      this.#library.validateAuthorizationResponseIssuer({
        iss,
        expectedIssuer: isOther ? iss : metadata?.issuer,
        issParameterSupported:
          metadata?.['authorization_response_iss_parameter_supported'] === true,
      })
    } catch (cause) {
      throw toAuthError(cause, this.#library)
    }
    if (pending?.state !== undefined && !isBareCode && parameters.get('state') !== pending.state) {
      throw new AuthError('STATE_MISMATCH', 'The callback answers another authorization request')
    }
    const answered = pending && { ...pending, unanswered: 0 }
    if (this.#memory.pending === pending) this.#memory.pending = answered
    if (answered && pending.unanswered) await provider.saveDiscoveryState?.(answered)
    const oauthError = printable(parameters.get('error'))
    if (oauthError !== undefined) {
      throw new AuthError('DENIED', `This client was not authorized: ${oauthError}`, { oauthError })
    }
    this.#scope = pending?.scope
    this.#discovery = pending
    this.#named = (await namedServer(provider)).url
    await this.#auth(
      {
        authorizationCode: parameters.get('code') ?? '',
        ...(iss !== undefined && { iss: metadata?.issuer ?? iss }),
      },
      {
        redirectUrl: pending?.redirectUrl ?? provider.redirectUrl,
        saveDiscoveryState: undefined,
      },
    )
    if (this.#memory.pending === answered) this.#memory.pending = undefined
  }

  async #auth(options: LibraryOptions, overrides: Overrides): Promise<'AUTHORIZED' | 'REDIRECT'> {
    const { serverUrl } = this.#options
    const discovery = (this.#discovery ??= await this.#discover(options.resourceMetadataUrl))
    const resource = discovery.resourceMetadata?.resource
    this.#failures.length = 0
    try {
      return await this.#library.auth(this.#view(overrides), {
        ...options,
        // A resource with a final slash is the same one. The library sends the spelling of the metadata.
        serverUrl: resource === `${serverUrl.href}/` ? resource : serverUrl,
        fetchFn: this.#fetch,
      })
    } catch (cause) {
      throw this.#failures.length === 0 ? toAuthError(cause, this.#library) : this.#failures[0]
    }
  }

  readonly #fetch: FetchFunction = (url, init) => this.#step(() => this.#send(url, init))

  /** Runs a step of `auth()`. The first failure ends the flow: `auth()` would go on and ask the user. */
  async #step<Result>(work: () => Promise<Result>): Promise<Result> {
    try {
      if (this.#failures.length === 0) return await work()
    } catch (error) {
      this.#failures.push(error)
    }
    // `auth()` neither repeats nor replaces a request that fails with this error.
    throw new this.#library.OAuthError('temporarily_unavailable', 'The authorization has failed')
  }

  /** The provider as `auth()` sees it. Each property that is not overridden is the provider's own. */
  #view(overrides: Overrides): LibraryProvider {
    const { provider } = this.#options
    const memory = this.#memory
    const own: Overrides = {
      clientInformation: async (context) => {
        const client = await provider.clientInformation(context)
        const isForgotten = client?.client_id === memory.forgotten
        const issuer = client?.issuer ?? memory.clientIssuer ?? context?.issuer
        this.#client = client && !isForgotten ? { ...client, issuer } : undefined
        return this.#client
      },
      saveClientInformation:
        provider.saveClientInformation === undefined
          ? undefined
          : async (client, context) => {
              memory.clientIssuer = client.issuer
              this.#client = client
              memory.registered = client.client_id
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
      discoveryState: () => this.#discovery && withFinalSlash(this.#discovery),
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

  #secureUrl(input: string | URL): URL {
    return secureUrl(input, this.#options.serverUrl, this.#named)
  }

  #exchange(url: URL, init: RequestInit): Promise<Response> {
    const headers = new Headers(init.headers)
    headers.delete('mcp-protocol-version') // some authorization servers refuse it
    return this.#options.fetch(url, { ...init, headers, signal: this.#options.signal })
  }

  async #send(input: string | URL, init: RequestInit = {}): Promise<Response> {
    const url = this.#secureUrl(input)
    const send = (): Promise<Response> => this.#exchange(url, init)
    if (init.body instanceof URLSearchParams) {
      this.#scope = init.body.get('scope') ?? this.#scope
      return tokenResponse(await send(), url)
    }
    if (init.method === 'POST') return registrationResponse(await send(), init.body)
    if (!this.#documents.has(url.href)) {
      this.#documents.set(url.href, await metadataDocument(send(), url))
    }
    const document = this.#documents.get(url.href)
    return document === undefined ? new Response(null, { status: 404 }) : Response.json(document)
  }
}

function isOfForgottenClient(error: unknown): error is AuthError {
  const isRefusal = AuthError.is(error) && ['TOKEN_REFUSED', 'DENIED'].includes(error.code)
  return isRefusal && FORGOTTEN.has(error.oauthError ?? '')
}

/** Returns the parameters of a callback URL. Undefined for a bare code and for other texts. */
export function callbackParameters(callback: unknown): URLSearchParams | undefined {
  const text = String(callback)
  const parameters = new URLSearchParams(URL.canParse(text) ? new URL(text).search : text)
  return parameters.has('code') || parameters.has('error') ? parameters : undefined
}

// The OAuth flow of `@modelcontextprotocol/client`, and the promises that it does not keep:
// - One refresh at a time for each credential, also across processes. A failed refresh sends the user away only if
//   the server refused the refresh token.
// - One token request for each refusal: a refused request is never repeated.
// - PKCE has to be advertised, `state` is compared, and an error in a callback is used only after its `iss`.
// - Discovery, URLs and responses are checked: see `discover`, `secureUrl` and `checkTokenResponse`.
import type {
  AuthorizationServerMetadata,
  DpopSession as LibraryDpopSession,
  OAuthClientInformationMixed,
  OAuthClientProvider as LibraryProvider,
} from '@modelcontextprotocol/client'
import { isRecord } from '@x/internal'
import { parseJson } from '../json-rpc.ts'
import { AuthError, storedTokens } from './auth-provider.ts'
import type {
  AuthorizationCallback,
  OAuthClientInformation,
  OAuthClientProvider,
  OAuthTokens,
} from './auth-provider.ts'
import type { AuthEdges, FetchFunction, Challenge } from './authorizer.ts'
import { discover, secureUrl } from './discovery.ts'
import type { Discovered, Library } from './discovery.ts'

interface FlowOptions extends AuthEdges {
  readonly provider: OAuthClientProvider
  readonly serverUrl: URL
}

/** @throws AuthError `LIBRARY_MISSING` */
export async function startFlow(options: FlowOptions): Promise<OAuthFlow> {
  try {
    return new OAuthFlow(options, await import('@modelcontextprotocol/client'))
  } catch (cause) {
    const message =
      'The server requires OAuth, and @modelcontextprotocol/client could not be loaded. Install it: npm i @modelcontextprotocol/client'
    throw new AuthError('LIBRARY_MISSING', message, { cause })
  }
}

/** An authorization request whose callback has not come yet. */
interface PendingAuthorization {
  readonly serverUrl: string
  readonly discovered: Discovered
  readonly redirectUri: string
  /** Undefined if another process made the request, with a provider that keeps no state. */
  readonly state: string | undefined
  readonly scope: string | undefined
}

/** What a provider may not keep: providers for SDK v1 drop the issuer of a credential. */
interface Memory {
  pending?: PendingAuthorization | undefined
  /** Scope requested for the tokens in use. */
  scope?: string | undefined
  /** Client id that the authorization server does not know any more. */
  deadClientId?: string
  token?: { readonly value: string; readonly issuer: string }
  client?: { readonly id: string; readonly issuer: string }
}

type LibraryClient = OAuthClientInformationMixed & { issuer: string }
type ClientAuthentication = NonNullable<LibraryProvider['addClientAuthentication']>

const MEMORIES = new WeakMap<OAuthClientProvider, Memory>()

class OAuthFlow {
  readonly #library: Library
  readonly #provider: OAuthClientProvider
  readonly #serverUrl: URL
  readonly #signal: AbortSignal
  readonly #fetch: FetchFunction
  readonly #memory: Memory

  constructor({ provider, serverUrl, fetch, signal }: FlowOptions, library: Library) {
    this.#library = library
    this.#provider = provider
    this.#serverUrl = serverUrl
    this.#signal = signal
    this.#fetch = (url, init) => {
      const headers = new Headers(init?.headers)
      headers.delete('mcp-protocol-version') // some authorization servers refuse it
      if (!headers.has('accept')) headers.set('accept', 'application/json')
      return fetch(secureUrl(url, serverUrl), { ...init, headers, signal })
    }
    this.#memory = MEMORIES.get(provider) ?? {}
    MEMORIES.set(provider, this.#memory)
  }

  /**
   * Gets tokens and saves them with the provider: by a refresh, by a grant without a user, or from the user.
   *
   * @param isStepUp more scopes are needed: a refresh would not give them
   * @throws AuthError `AUTHORIZATION_REQUIRED` if the user was sent away; `finish` completes it.
   */
  async obtain(challenge: Challenge | undefined, isStepUp: boolean): Promise<void> {
    const before = await storedTokens(this.#provider, this.#serverUrl)
    const discovered = await this.#discover(challenge?.resourceMetadata, this.#issuerOf(before))
    const stored = await this.#tokensOf(discovered.server.issuer)
    const hasUser = this.#provider.redirectUrl !== undefined
    if (hasUser && !isStepUp && (await this.#refreshed(discovered, stored))) return
    const needed = challenge?.scope ?? discovered.resource.scopes_supported?.join(' ')
    const scope = isStepUp
      ? this.#library.computeScopeUnion(this.#memory.scope, stored?.scope, needed)
      : challenge?.scope
    if (hasUser) await this.#askUser(discovered, scope)
    else await this.#auth(discovered, this.#view(discovered), { ...(scope && { scope }) })
  }

  /**
   * Completes an authorization with the callback, possibly in another process than the one that started it.
   *
   * @throws AuthError
   * @throws TypeError for a callback without a code and without an error.
   */
  async finish(callback: AuthorizationCallback): Promise<void> {
    const answer = parseCallback(callback)
    if (!isAnswer(answer)) {
      throw new TypeError('The callback holds neither a code nor an error: pass its whole query')
    }
    const { pending } = this.#memory
    const isOurs = pending?.serverUrl === this.#serverUrl.href
    await this.#complete(isOurs ? pending : await this.#recall(), answer)
  }

  /** Sends the user to the authorization server, and continues if the provider waits for the callback. */
  async #askUser(discovered: Discovered, scope: string | undefined): Promise<void> {
    const { server, resource, metadataUrl } = discovered
    const { issuer } = server
    const provider = this.#provider
    if (server.code_challenge_methods_supported?.includes('S256') !== true) {
      const message = `${issuer} does not advertise PKCE with S256, so it cannot be used safely`
      throw new AuthError('PKCE_UNSUPPORTED', message)
    }
    await provider.prepareRedirect?.({ signal: this.#signal })
    await this.#assertRegistrable(server)
    const state = (await provider.state?.()) ?? crypto.randomUUID()
    let pending: PendingAuthorization | undefined
    let returned: unknown
    const view: LibraryProvider = {
      ...this.#view(discovered),
      state: () => state,
      redirectToAuthorization: async (url) => {
        const { searchParams } = url
        pending = {
          serverUrl: this.#serverUrl.href,
          discovered,
          redirectUri: searchParams.get('redirect_uri') ?? '',
          state,
          scope: searchParams.get('scope') ?? undefined,
        }
        this.#memory.pending = pending
        await provider.saveDiscoveryState?.({
          authorizationServerUrl: issuer,
          authorizationServerMetadata: server,
          resourceMetadata: resource,
          resourceMetadataUrl: metadataUrl,
          state,
        })
        returned = await provider.redirectToAuthorization(url, { signal: this.#signal })
      },
    }
    await this.#auth(discovered, view, { ...(scope && { scope }), forceReauthorization: true })
    const answer = returnedCallback(returned)
    if (pending !== undefined && answer !== undefined) return this.#complete(pending, answer)
    const message = `The user was sent to ${issuer}. Pass the callback to finishAuth(), then try again`
    throw new AuthError('AUTHORIZATION_REQUIRED', message)
  }

  async #assertRegistrable(server: AuthorizationServerMetadata): Promise<void> {
    const provider = this.#provider
    const hasDocument = provider.clientMetadataUrl && server.client_id_metadata_document_supported
    const canRegister = hasDocument || server.registration_endpoint
    if (canRegister && provider.saveClientInformation !== undefined) return
    if ((await this.#clientAt(server)) !== undefined) return
    throw notRegistered(server.issuer, 'does not know this client, which cannot register itself')
  }

  /** Repeats the discovery of another process, or of a provider's earlier transport. */
  async #recall(): Promise<PendingAuthorization> {
    const recorded = await this.#provider.discoveryState?.()
    const issuer = recorded?.authorizationServerUrl
    const discovered = await this.#discover(recorded?.resourceMetadataUrl, issuer)
    if (issuer !== undefined && issuer !== discovered.server.issuer) {
      const message = `The authorization was started at ${issuer}, and the server now names ${discovered.server.issuer}. Start it again`
      throw new AuthError('ISSUER_MISMATCH', message)
    }
    if ((await this.#clientAt(discovered.server)) === undefined) {
      throw notRegistered(discovered.server.issuer, 'does not know this client any more')
    }
    const redirectUri = String(this.#provider.redirectUrl)
    const { href: serverUrl } = this.#serverUrl
    return { serverUrl, discovered, redirectUri, state: recorded?.state, scope: undefined }
  }

  async #complete(pending: PendingAuthorization, answer: CallbackAnswer): Promise<void> {
    const { discovered, state } = pending
    const { parameters, isBareCode } = answer
    const { issuer, authorization_response_iss_parameter_supported } = discovered.server
    const iss = parameters.get('iss') ?? undefined
    try {
      // Before anything else in the callback is used, errors included (RFC 9207, section 2.4).
      this.#library.validateAuthorizationResponseIssuer({
        iss,
        expectedIssuer: issuer,
        issParameterSupported: authorization_response_iss_parameter_supported === true,
      })
    } catch {
      const what = iss === undefined ? 'does not name its issuer' : 'is not from it'
      const hint = isBareCode ? '. Pass the whole query of the callback, not only its code' : ''
      throw new AuthError('ISSUER_MISMATCH', `${issuer} was asked, but the callback ${what}${hint}`)
    }
    if (state !== undefined && !isBareCode && parameters.get('state') !== state) {
      throw new AuthError('STATE_MISMATCH', 'The callback answers another authorization request')
    }
    const oauthError = printable(parameters.get('error'))
    if (oauthError !== undefined) {
      const message = `${issuer} did not authorize this client: ${oauthError}`
      throw new AuthError('DENIED', message, { oauthError })
    }
    await this.#auth(discovered, this.#view(discovered, pending), {
      authorizationCode: parameters.get('code') ?? '',
      ...(iss !== undefined && { iss }),
    })
    if (this.#memory.pending === pending) this.#memory.pending = undefined
  }

  /**
   * Returns whether there are other tokens than the stored ones now, by this refresh or by another process. If
   * not, the server has refused the refresh token or the client.
   *
   * @throws AuthError or TransportError for temporary failures: they are no reason to ask the user.
   */
  async #refreshed(discovered: Discovered, stored: OAuthTokens | undefined): Promise<boolean> {
    const provider = this.#provider
    const { issuer } = discovered.server
    const client = stored?.refresh_token ? await this.#clientAt(discovered.server) : undefined
    if (stored === undefined || client?.issuer !== issuer) return false
    const isReplaced = async (): Promise<boolean> => {
      const now = await this.#tokensOf(issuer)
      return now !== undefined && now.access_token !== stored.access_token
    }
    let isDone = false
    const refresh = async (): Promise<void> => {
      isDone = await isReplaced() // by the process that held the lock before
      if (isDone) return
      try {
        await this.#refresh(discovered, { stored, client })
        isDone = true
      } catch (cause) {
        const error = this.#toAuthError(cause, issuer)
        const code = AuthError.is(error) ? error.oauthError : undefined
        // Another process may have used the refresh token first. Its tokens serve this process, too.
        isDone = code !== undefined && (await isReplaced())
        if (isDone) return
        if (code === 'invalid_grant' || code === 'invalid_dpop_proof') {
          return provider.invalidateCredentials?.('tokens')
        }
        const isUnknown = code === 'invalid_client' || code === 'unauthorized_client'
        if (!isUnknown || provider.saveClientInformation === undefined) throw error
        this.#memory.deadClientId = client.client_id
        await provider.invalidateCredentials?.('client')
      }
    }
    await (provider.exclusively === undefined ? refresh() : provider.exclusively(refresh))
    return isDone
  }

  async #refresh(
    discovered: Discovered,
    { stored, client }: { stored: OAuthTokens; client: LibraryClient },
  ): Promise<void> {
    const { server, resource } = discovered
    const view = this.#view(discovered, { scope: stored.scope ?? this.#memory.scope })
    const { addClientAuthentication } = view
    const own = await view.validateResourceURL?.(this.#serverUrl, resource.resource)
    const [dpop, scope] = [await view.dpop?.(), await this.#provider.scopeForRefresh?.(stored)]
    const tokens = await this.#library.refreshAuthorization(server.issuer, {
      metadata: server,
      clientInformation: client,
      refreshToken: stored.refresh_token ?? '',
      resource: own ?? resource.resource,
      fetchFn: this.#fetchFrom(server),
      ...(addClientAuthentication && { addClientAuthentication }),
      ...(dpop && { dpop }),
      ...(scope && { scope }),
    })
    await view.saveTokens(tokens, { issuer: server.issuer })
  }

  async #auth(
    { server }: Discovered,
    view: LibraryProvider,
    options: Partial<Parameters<Library['auth']>[1]>,
  ): Promise<void> {
    const fetchFn = this.#fetchFrom(server)
    try {
      await this.#library.auth(view, { ...options, serverUrl: this.#serverUrl, fetchFn })
    } catch (error) {
      throw this.#toAuthError(error, server.issuer)
    }
  }

  /** The provider as the library sees it in one flow: after the discovery, and with checked credentials. */
  #view(
    { server, resource }: Discovered,
    request: { readonly redirectUri?: string; readonly scope?: string | undefined } = {},
  ): LibraryProvider {
    const provider = this.#provider
    const memory = this.#memory
    const serverUrl = this.#serverUrl
    const { issuer } = server
    const { redirectUrl, clientMetadataUrl } = provider
    let { scope } = request
    return {
      redirectUrl: request.redirectUri ?? redirectUrl,
      clientMetadata: this.#clientMetadata(server),
      ...(clientMetadataUrl !== undefined && { clientMetadataUrl }),
      clientInformation: () => this.#clientAt(server),
      ...(provider.saveClientInformation !== undefined && {
        saveClientInformation: async (client: OAuthClientInformation) => {
          memory.client = { id: client.client_id, issuer }
          await provider.saveClientInformation?.(client, { issuer })
        },
      }),
      tokens: () => undefined, // they were refreshed before
      async saveTokens(tokens) {
        const client = await provider.clientInformation({ issuer })
        if (client !== undefined) memory.client = { id: client.client_id, issuer }
        memory.token = { value: tokens.access_token, issuer }
        memory.scope = scope
        const granted = tokens.scope ?? scope
        const { origin } = serverUrl
        await provider.saveTokens({ ...tokens, scope: granted, issuer, server: origin }, { issuer })
      },
      redirectToAuthorization: () => {}, // see #askUser
      saveCodeVerifier: (codeVerifier) => provider.saveCodeVerifier(codeVerifier),
      codeVerifier: () => provider.codeVerifier(),
      discoveryState: () => ({
        authorizationServerUrl: issuer,
        authorizationServerMetadata: server,
        resourceMetadata: resource,
      }),
      ...(provider.addClientAuthentication !== undefined && {
        addClientAuthentication: (...[headers, params, url]: Parameters<ClientAuthentication>) =>
          provider.addClientAuthentication?.(headers, params, url, server),
      }),
      async dpop() {
        const session = await provider.dpop?.()
        return isDpopSession(session) ? session : undefined
      },
      ...(provider.validateResourceURL !== undefined && {
        validateResourceURL: async (url: string | URL, named?: string) =>
          provider.validateResourceURL?.(url, named),
      }),
      async prepareTokenRequest(requested) {
        const prepared = await provider.prepareTokenRequest?.(requested)
        if (redirectUrl !== undefined) return prepared
        scope = requested
        return prepared ?? clientCredentialsGrant(requested)
      },
      saveAuthorizationServerUrl: (url) => provider.saveAuthorizationServerUrl?.(url),
      saveResourceUrl: (url) => provider.saveResourceUrl?.(url),
    }
  }

  /** Registers a native client without a secret, if the authorization server supports that. */
  #clientMetadata(server: AuthorizationServerMetadata): LibraryProvider['clientMetadata'] {
    const { clientMetadata: own, redirectUrl } = this.#provider
    const clientMetadata: LibraryProvider['clientMetadata'] = JSON.parse(JSON.stringify(own)) // without undefined
    if (redirectUrl === undefined) return clientMetadata
    const complete = this.#library.resolveClientMetadata({ clientMetadata, redirectUrl })
    const isPublic =
      complete.application_type === 'native' &&
      server.token_endpoint_auth_methods_supported?.includes('none') === true
    const method = isPublic ? { token_endpoint_auth_method: 'none' } : {}
    return { response_types: ['code'], ...method, ...clientMetadata }
  }

  /** The client with its issuer. Undefined if it has to be registered, or registered again. */
  async #clientAt(server: AuthorizationServerMetadata): Promise<LibraryClient | undefined> {
    const { clientMetadataUrl } = this.#provider
    const { issuer } = server
    const canSave = this.#provider.saveClientInformation !== undefined
    const stored = await this.#provider.clientInformation({ issuer })
    if (stored === undefined) {
      // The library finds a client without registration only if the provider can save it.
      const isKnown = !canSave && server.client_id_metadata_document_supported === true
      return isKnown && clientMetadataUrl !== undefined
        ? { client_id: clientMetadataUrl, issuer }
        : undefined
    }
    const { client_id, client_secret_expires_at: expiresAt } = stored
    const { client, deadClientId } = this.#memory
    const isExpired = expiresAt !== undefined && expiresAt !== 0 && expiresAt * 1000 < Date.now()
    if (canSave && (isExpired || client_id === deadClientId)) return undefined
    return {
      ...stored,
      client_secret: stored.client_secret || undefined, // an empty secret is none
      redirect_uris: [...(stored.redirect_uris ?? [])],
      issuer: stored.issuer ?? (client?.id === client_id ? client.issuer : issuer),
    }
  }

  #issuerOf(tokens: OAuthTokens | undefined): string | undefined {
    const { token } = this.#memory
    return tokens?.issuer ?? (tokens?.access_token === token?.value ? token?.issuer : undefined)
  }

  /** The stored tokens, if they are from this issuer or from an unknown one. */
  async #tokensOf(issuer: string): Promise<OAuthTokens | undefined> {
    const tokens = await storedTokens(this.#provider, this.#serverUrl, { issuer })
    return (this.#issuerOf(tokens) ?? issuer) === issuer ? tokens : undefined
  }

  async #discover(
    metadataUrl: string | undefined,
    preferredIssuer: string | undefined,
  ): Promise<Discovered> {
    try {
      return await discover(this.#library, {
        provider: this.#provider,
        serverUrl: this.#serverUrl,
        fetch: this.#fetch,
        metadataUrl,
        preferredIssuer,
      })
    } catch (error) {
      throw this.#toAuthError(error, this.#serverUrl.origin)
    }
  }

  /** Checks token responses before the library sees them: it would repeat a request that was refused. */
  #fetchFrom(server: AuthorizationServerMetadata): FetchFunction {
    return async (url, init) => {
      const isTokenRequest = init?.body instanceof URLSearchParams && init.body.has('grant_type')
      if (!isTokenRequest) return this.#fetch(url, init)
      const headers = new Headers(init.headers)
      const isBasic = headers.get('authorization')?.startsWith('Basic ') === true
      if (isBasic && this.#provider.addClientAuthentication === undefined) {
        headers.set('authorization', basicCredentials(await this.#clientAt(server)))
      }
      return checkTokenResponse(await this.#fetch(url, { ...init, headers }), server.issuer)
    }
  }

  #toAuthError(cause: unknown, issuer: string): unknown {
    const library = this.#library
    if (cause instanceof library.RegistrationRejectedError) {
      const oauthError = errorCode(cause.body)
      const what = `did not register this client (HTTP ${cause.status}${oauthError === undefined ? '' : `, ${oauthError}`})`
      return notRegistered(issuer, what, oauthError)
    }
    if (cause instanceof library.IssuerMismatchError) {
      const message = `The metadata of ${cause.expected ?? issuer} is of another issuer, so it is not used`
      return new AuthError('ISSUER_MISMATCH', message, { cause })
    }
    if (cause instanceof library.AuthorizationServerMismatchError) {
      const message = `This client is registered with another authorization server than ${issuer}`
      return new AuthError('ISSUER_MISMATCH', message, { cause })
    }
    if (cause instanceof library.OAuthError && cause.code === 'invalid_client_metadata') {
      return notRegistered(issuer, 'needs an https URL with a path as clientMetadataUrl')
    }
    if (cause instanceof library.OAuthError) {
      const message = `${issuer} gave no token: ${printable(cause.code)}`
      return new AuthError('TOKEN_REFUSED', message, { cause, oauthError: printable(cause.code) })
    }
    if (!(cause instanceof Error) || cause.name !== 'ZodError') return cause
    return new AuthError('INVALID_RESPONSE', `${issuer} sent a malformed response`, { cause })
  }
}

function notRegistered(issuer: string, what: string, oauthError?: string): AuthError {
  const message = `${issuer} ${what}. Register it there by hand, and pass its client id`
  return new AuthError('NOT_REGISTERED', message, { oauthError })
}

/** @throws AuthError `TOKEN_REFUSED`, `INVALID_RESPONSE` */
async function checkTokenResponse(response: Response, issuer: string): Promise<Response> {
  const { status, headers } = response
  const text = await response.text()
  const isChallenge = headers.has('www-authenticate')
  const oauthError = errorCode(text) ?? (isChallenge ? 'invalid_client' : undefined)
  if (oauthError !== 'use_dpop_nonce') {
    // Otherwise the library repeats the request once.
    if (!response.ok || oauthError !== undefined) {
      const why = oauthError === undefined ? '' : `: ${oauthError}`
      const message = `${issuer} gave no token${why} (HTTP ${status})`
      throw new AuthError('TOKEN_REFUSED', message, { oauthError })
    }
    if (!/^(?:bearer|dpop)$/i.test(String(fieldOf(text, 'token_type')))) {
      const message = `${issuer} gave a token that is neither a Bearer nor a DPoP token`
      throw new AuthError('INVALID_RESPONSE', message)
    }
  }
  return new Response(text, { status, headers })
}

/** Returns a field of a JSON object; undefined for other texts. */
function fieldOf(json: string, name: string): unknown {
  const value = parseJson(json)
  return isRecord(value) ? value[name] : undefined
}

/** Returns the error code of a response (RFC 6749, section 5.2), safe to show. */
function errorCode(json: string): string | undefined {
  return printable(fieldOf(json, 'error'))
}

function printable(code: unknown): string | undefined {
  if (typeof code !== 'string') return undefined
  return code.replaceAll(/[^\x21-\x7E]/g, '?').slice(0, 64)
}

/** Encodes id and secret (RFC 6749, section 2.3.1), which the library does not. */
function basicCredentials(client: OAuthClientInformation | undefined): string {
  const { client_id: id = '', client_secret: secret = '' } = client ?? {}
  const credentials = `${formEncoded(id)}:${formEncoded(secret)}`
  return `Basic ${Buffer.from(credentials).toString('base64')}`
}

function formEncoded(text: string): string {
  return new URLSearchParams({ '': text }).toString().slice(1)
}

function clientCredentialsGrant(scope: string | undefined): URLSearchParams {
  return new URLSearchParams({ grant_type: 'client_credentials', ...(scope && { scope }) })
}

/** Not `instanceof`: the class may come from another copy of the library. */
function isDpopSession(value: unknown): value is LibraryDpopSession {
  return isRecord(value) && typeof value['buildProof'] === 'function'
}

interface CallbackAnswer {
  readonly parameters: URLSearchParams
  /** Only a code was given: `state` and `iss` cannot be checked. */
  readonly isBareCode: boolean
}

/** Reads a URL, a query or a bare code. */
export function parseCallback(callback: AuthorizationCallback): CallbackAnswer {
  if (callback instanceof URLSearchParams) return { parameters: callback, isBareCode: false }
  const text = String(callback).trim()
  if (/^[a-z][a-z0-9+.-]*:\/\//i.test(text) && URL.canParse(text)) {
    return { parameters: new URL(text).searchParams, isBareCode: false }
  }
  const isBareCode = !/^\?|(?:^|&)(?:code|error)=/.test(text)
  const code = text === '' ? {} : { code: text }
  return { parameters: new URLSearchParams(isBareCode ? code : text), isBareCode }
}

/** The callback that a provider's redirect returned. Many providers return something else. */
export function returnedCallback(value: unknown): CallbackAnswer | undefined {
  const isCallback =
    typeof value === 'string' || value instanceof URL || value instanceof URLSearchParams
  const answer = isCallback ? parseCallback(value) : undefined
  return answer !== undefined && !answer.isBareCode && isAnswer(answer) ? answer : undefined
}

function isAnswer({ parameters }: CallbackAnswer): boolean {
  return parameters.has('code') || parameters.has('error')
}

import { once } from 'node:events'
import { createServer } from 'node:http'
import { assertOptions, check, isRecord, untilAborted, within } from '@x/internal'
import type { Checks } from '@x/internal'
import { AuthError } from './auth-provider.ts'
import type {
  DpopSession,
  OAuthClientInformation,
  OAuthClientMetadata,
  OAuthClientProvider,
  RedirectContext,
  TokenContext,
  TokenProvider,
} from './auth-provider.ts'
import { memoryTokenStore, tokenStoreCheck } from './token-store.ts'
import type { StoredCredentials, TokenStore } from './token-store.ts'

/** A token, or a function that returns one. */
export type BearerSource =
  | string
  | ((context: TokenContext) => string | undefined | Promise<string | undefined>)

/**
 * An `authProvider` for tokens without OAuth: from a secret store, a metadata service or a login of the
 * application. The function is called before every request. After a 401 it is called with the `refused` token,
 * once for all requests that carried it; if it returns another token, the request is sent again.
 *
 * @throws TypeError for an empty token, such as an environment variable that is not set
 * @example
 * ```ts
 * import { StreamableHttpTransport } from '@x/mcp-transport'
 * import { bearer } from '@x/mcp-transport/auth'
 *
 * const authProvider = bearer(() => process.env['SHOP_TOKEN'])
 * const transport = new StreamableHttpTransport('https://shop.example/mcp', { authProvider })
 * ```
 */
export function bearer(source: BearerSource): TokenProvider {
  assertOptions('bearer()', { token: source }, { token: check.required(BEARER_SOURCE) })
  return { token: (context = {}) => (typeof source === 'string' ? source : source(context)) }
}

const BEARER_SOURCE = check.or(check.text, check.func)

interface CredentialOptions {
  /** One store for each server and user. @default memoryTokenStore() */
  readonly store?: TokenStore | undefined
  /** Requested if the server names no scopes. */
  readonly scope?: string | undefined
  /**
   * Issuer of the authorization server, with or without a final slash. Without resource metadata (RFC 9728), it names
   * the server. No other server gets the credentials. @default the server that the metadata names
   */
  readonly issuer?: string | undefined
  /** Binds tokens to a key (RFC 9449). Return the same `DpopSession` of `@modelcontextprotocol/client` each time. */
  readonly dpop?: (() => DpopSession | Promise<DpopSession>) | undefined
}

const credentialChecks: Checks<CredentialOptions> = {
  store: tokenStoreCheck,
  scope: check.text,
  issuer: check.text,
  dpop: check.func,
}

export interface ClientCredentialsOptions extends CredentialOptions {
  readonly clientId: string
  /** Required, unless there is an `assertion`. */
  readonly clientSecret?: string | undefined
  /**
   * Returns the JWT of a workload identity, such as a Kubernetes service account token. It is exchanged for an
   * access token (RFC 7523, section 2.1). @default the client credentials grant (RFC 6749, section 4.4)
   */
  readonly assertion?: (() => string | Promise<string>) | undefined
}

const clientCredentialsChecks: Checks<ClientCredentialsOptions> = {
  ...credentialChecks,
  clientId: check.required(check.text),
  clientSecret: check.text,
  assertion: check.func,
}

/**
 * An `authProvider` for a program that acts for itself, without a user. Requests a new token when the server
 * refuses the old one.
 *
 * @throws TypeError for an option that is missing, unknown or cannot be used.
 * @example
 * ```ts
 * import { clientCredentials } from '@x/mcp-transport/auth'
 *
 * const authProvider = clientCredentials({
 *   clientId: 'reports',
 *   clientSecret: process.env['CLIENT_SECRET'] ?? '',
 *   issuer: 'https://login.example',
 * })
 * ```
 */
export function clientCredentials(options: ClientCredentialsOptions): OAuthClientProvider {
  const needsSecret = !isRecord(options) || options.assertion === undefined
  const { clientSecret: secretCheck } = clientCredentialsChecks
  assertOptions('clientCredentials()', options, {
    ...clientCredentialsChecks,
    clientSecret: needsSecret ? check.required(secretCheck) : secretCheck,
  })
  const { clientId, clientSecret, assertion, issuer } = options
  return {
    ...new Credentials(options.store).methods(),
    ...(options.dpop && { dpop: options.dpop }),
    redirectUrl: undefined,
    clientMetadata: { redirect_uris: [], ...(options.scope && { scope: options.scope }) },
    clientInformation: () => ({ client_id: clientId, client_secret: clientSecret, issuer }),
    async prepareTokenRequest(scope) {
      const grant =
        assertion === undefined
          ? { grant_type: 'client_credentials' }
          : {
              grant_type: 'urn:ietf:params:oauth:grant-type:jwt-bearer',
              assertion: await assertion(),
            }
      return new URLSearchParams({ ...grant, ...(scope && { scope }) })
    },
    redirectToAuthorization: noUser,
    saveCodeVerifier: noUser,
    codeVerifier: noUser,
  }
}

function noUser(): never {
  throw new TypeError('clientCredentials() has no user to redirect')
}

/** Options of each provider that asks a user. */
export interface UserOptions extends CredentialOptions {
  /** Name shown to users. */
  readonly clientName?: string | undefined
  /** More metadata for the registration. */
  readonly clientMetadata?: Partial<OAuthClientMetadata> | undefined
  /** Id of a client that was registered by hand. */
  readonly clientId?: string | undefined
  readonly clientSecret?: string | undefined
  /** URL of the client id metadata document of this client. */
  readonly clientMetadataUrl?: string | undefined
}

export const userChecks: Checks<UserOptions> = {
  ...credentialChecks,
  clientName: check.text,
  clientMetadata: check.record,
  clientId: check.text,
  clientSecret: check.text,
  clientMetadataUrl: check.text,
}

export interface AuthProviderOptions extends UserOptions {
  /** URL that the user's browser comes back to. */
  readonly redirectUrl: string | URL
  /**
   * Sends the user to `url`. If it can wait for the user, it returns the callback (a URL or its query), and the
   * request that needs the token goes on. Otherwise pass the callback to `finishAuth`.
   */
  readonly redirect: (url: URL, context: RedirectContext) => unknown
}

const authProviderChecks: Checks<AuthProviderOptions> = {
  ...userChecks,
  redirectUrl: check.required(check.url),
  redirect: check.required(check.func),
}

/**
 * A complete provider, from a store and a function that reaches the user.
 *
 * @throws TypeError for an option that is missing, unknown or cannot be used.
 * @example
 * ```ts
 * import { createAuthProvider, memoryTokenStore } from '@x/mcp-transport/auth'
 *
 * const authProvider = createAuthProvider({
 *   store: memoryTokenStore(), // one for each server and user
 *   redirectUrl: 'https://app.example/callback',
 *   clientName: 'app',
 *   redirect: (url) => console.log(`Sign in at ${url.href}`),
 * })
 * ```
 */
export function createAuthProvider(options: AuthProviderOptions): OAuthClientProvider {
  assertOptions('createAuthProvider()', options, authProviderChecks)
  const { redirectUrl, redirect, scope, clientName, dpop } = options
  const { clientId, clientSecret, issuer, clientMetadataUrl, clientMetadata } = options
  const credentials = new Credentials(options.store)
  const preRegistered: OAuthClientInformation | undefined =
    clientId === undefined
      ? undefined
      : { client_id: clientId, client_secret: clientSecret, issuer }
  return {
    ...credentials.methods(),
    ...(dpop && { dpop }),
    ...(issuer !== undefined && { issuer }),
    redirectUrl,
    clientMetadata: {
      grant_types: ['authorization_code', 'refresh_token'],
      ...(clientName && { client_name: clientName }),
      ...(scope && { scope }),
      ...clientMetadata,
      redirect_uris: [String(redirectUrl)],
    },
    clientMetadataUrl,
    clientInformation: async () => preRegistered ?? (await credentials.read()).client,
    ...(preRegistered === undefined && {
      saveClientInformation: (client: OAuthClientInformation) => credentials.update({ client }),
    }),
    redirectToAuthorization: (url, context = { signal: new AbortController().signal }) =>
      redirect(url, context),
    saveCodeVerifier: (codeVerifier) => credentials.update({ codeVerifier }),
    async codeVerifier() {
      const { codeVerifier } = await credentials.read()
      if (codeVerifier !== undefined) return codeVerifier
      throw new AuthError('STATE_MISMATCH', 'No authorization is in progress: start it again')
    },
    saveDiscoveryState: (discovery) => credentials.update({ discovery }),
    discoveryState: async () => (await credentials.read()).discovery,
  }
}

/** The last change of each store, which several providers may use. */
const lastChanges = new WeakMap<TokenStore, Promise<void>>()

/** Stored credentials, and the methods of a provider that need nothing else. */
class Credentials {
  readonly #store: TokenStore

  constructor(store: TokenStore = memoryTokenStore()) {
    this.#store = store
  }

  async read(): Promise<StoredCredentials> {
    return (await this.#store.read()) ?? { v: 1 }
  }

  /** Explicit `undefined` removes a part. Makes one change after the other, so that none is lost. */
  update(change: Partial<Omit<StoredCredentials, 'v'>>): Promise<void> {
    const last = lastChanges.get(this.#store) ?? Promise.resolve()
    const done = last.then(async () => this.#store.write({ ...(await this.read()), ...change }))
    const changed = done.catch(() => {}) // the caller of this update gets the error
    lastChanges.set(this.#store, changed)
    return done
  }

  methods(): Pick<
    OAuthClientProvider,
    'tokens' | 'saveTokens' | 'exclusively' | 'invalidateCredentials'
  > {
    return {
      tokens: async () => (await this.read()).tokens,
      saveTokens: (tokens) => this.update({ tokens, codeVerifier: undefined }),
      exclusively: (work) => this.#store.exclusively?.(work) ?? work(),
      invalidateCredentials: (what) =>
        this.update({
          ...((what === 'all' || what === 'client') && { client: undefined }),
          ...((what === 'all' || what === 'tokens') && { tokens: undefined }),
          ...((what === 'all' || what === 'verifier') && { codeVerifier: undefined }),
          ...((what === 'all' || what === 'discovery') && { discovery: undefined }),
        }),
    }
  }
}

export interface LoopbackOAuthOptions extends UserOptions {
  /** Opens `url` in a browser on this machine. An error that it throws ends the authorization. */
  readonly openBrowser: (url: URL) => unknown
  /** For servers that compare redirect URLs exactly. @default the registered port, or else any free one */
  readonly port?: number | undefined
  /** @default '/callback' */
  readonly path?: string | undefined
  /** Time limit for the user, in milliseconds. @default 300_000 */
  readonly waitMs?: number | undefined
}

const loopbackChecks: Checks<LoopbackOAuthOptions> = {
  ...userChecks,
  openBrowser: check.required(check.func),
  port: check.number(),
  path: check.text,
  waitMs: check.number(),
}

/**
 * An `authProvider` for commands and desktop applications. Opens a browser when the user has to be asked, and
 * listens on 127.0.0.1 until the browser comes back (RFC 8252). The request that needs the token waits.
 *
 * @throws TypeError for an option that is missing, unknown or cannot be used.
 * @example
 * ```ts
 * import { loopbackOAuth, memoryTokenStore } from '@x/mcp-transport/auth'
 *
 * const authProvider = loopbackOAuth({
 *   store: memoryTokenStore(),
 *   clientName: 'shop',
 *   openBrowser: (url) => console.log(`Sign in at ${url.href}`),
 * })
 * ```
 */
export function loopbackOAuth(options: LoopbackOAuthOptions): OAuthClientProvider {
  assertOptions('loopbackOAuth()', options, loopbackChecks)
  const { openBrowser, port, path = '/callback', waitMs = 300_000, ...rest } = options
  let listener: CallbackListener | undefined
  const redirectUrl = (): string => urlOf(listener?.port ?? port, path)
  const close = async (): Promise<void> => {
    const open = listener
    listener = undefined
    await open?.[Symbol.asyncDispose]()
  }
  const base = createAuthProvider({
    ...rest,
    redirectUrl: redirectUrl(),
    async redirect(url, { signal }) {
      if (listener === undefined) throw new TypeError('Call prepareRedirect() first')
      try {
        const callback = listener.callback(url.searchParams.get('state'))
        await openBrowser(url)
        return await within(untilAborted(callback, signal), waitMs, () => {
          throw new AuthError('TIMEOUT', `The user did not come back within ${waitMs} ms`)
        })
      } finally {
        await close()
      }
    },
  })
  return {
    ...base,
    get redirectUrl() {
      return redirectUrl()
    },
    get clientMetadata() {
      return { ...base.clientMetadata, application_type: 'native', redirect_uris: [redirectUrl()] }
    },
    async prepareRedirect({ signal }) {
      await close()
      const registered = registeredPort((await base.clientInformation())?.redirect_uris, path)
      listener = await listenForCallback(port ?? registered ?? 0, path).catch((error: unknown) => {
        if (port !== undefined || registered === undefined) throw error
        return listenForCallback(0, path) // another program uses the registered port
      })
      signal.addEventListener('abort', () => void close(), { once: true })
      if (signal.aborted) await close()
    },
    /** While a user is asked, a registration for another port cannot be used. */
    async clientInformation(context) {
      const client = await base.clientInformation(context)
      const uris = client?.redirect_uris
      if (listener === undefined || uris === undefined || uris.length === 0) return client
      return uris.includes(redirectUrl()) ? client : undefined
    },
  }
}

function urlOf(port: number | undefined, path: string): string {
  const url = new URL(path, 'http://127.0.0.1')
  if (port !== undefined && port !== 0) url.port = String(port)
  return url.href
}

function registeredPort(uris: readonly string[] | undefined, path: string): number | undefined {
  const urls = (uris ?? []).flatMap((uri) => URL.parse(uri) ?? [])
  const own = urls.find(({ hostname, pathname }) => hostname === '127.0.0.1' && pathname === path)
  return own === undefined || own.port === '' ? undefined : Number(own.port)
}

const PAGE = '<!doctype html><title>Done</title><p>Done. You can close this page.</p>'
const PAGE_HEADERS = {
  'content-type': 'text/html; charset=utf-8',
  'cache-control': 'no-store',
  'content-security-policy': "default-src 'none'; style-src 'unsafe-inline'",
  'referrer-policy': 'no-referrer',
  connection: 'close',
}

/** A server on 127.0.0.1 for one callback (RFC 8252, section 7.3). */
interface CallbackListener extends AsyncDisposable {
  readonly port: number
  /** Waits for the callback with this `state`; other requests get an error. */
  callback(state: string | null): Promise<URL>
}

/** Listens on `port`; 0 for any free port. */
async function listenForCallback(port: number, path: string): Promise<CallbackListener> {
  const server = createServer()
  server.requestTimeout = 10_000
  server.listen(port, '127.0.0.1').unref()
  await once(server, 'listening')
  const address = server.address()
  return {
    port: address !== null && typeof address === 'object' ? address.port : port,
    callback: (state) =>
      new Promise((resolve) => {
        server.on('request', ({ url: target = '/' }, response) => {
          const url = URL.parse(target, 'http://127.0.0.1')
          const parameters = url?.pathname === path ? url.searchParams : new URLSearchParams()
          const isCallback = parameters.has('code') || parameters.has('error')
          if (url === null || !isCallback) {
            response.writeHead(404, PAGE_HEADERS).end('Not found.')
          } else if (parameters.get('state') !== state) {
            response.writeHead(400, PAGE_HEADERS).end('This answers another authorization request.')
          } else {
            response.once('close', () => resolve(url)) // also if the browser did not read the page
            response.writeHead(200, PAGE_HEADERS).end(PAGE)
          }
        })
      }),
    async [Symbol.asyncDispose]() {
      const closed = once(server, 'close')
      server.close()
      server.closeAllConnections()
      await closed
    },
  }
}

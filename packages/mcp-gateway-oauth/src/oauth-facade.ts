import { check, isRecord, type Checks } from '@x/internal'
import { createGuardedFetch, GatewayError } from '@x/mcp-gateway'
import type { Authenticator, GatewayStore, GuardedFetch, RequestSource } from '@x/mcp-gateway'
import {
  assertGatewayOptions,
  authenticateToken,
  challengeResponse,
  pathEnds,
  ProtectedResource,
  publicDocument,
  secureUrlFrom,
  subnetOf,
  wellKnownPaths,
} from '@x/mcp-gateway/adapter'
import { BrowserCookies } from './browser-cookies.ts'
import { Clients } from './clients.ts'
import { oauthError, register, token, tooManyAttempts } from './endpoints.ts'
import type { Facade } from './endpoints.ts'
import { Grants, secretKey } from './grants.ts'
import type { IdentityService } from './identity-service.ts'
import { authorize, callback, decide } from './sign-in.ts'

export interface OAuthFacadeOptions {
  /** The store of the gateway. Any process with this store continues a sign-in that another one began. */
  readonly store: Pick<GatewayStore, 'records' | 'rates'>
  /**
   * URL of the MCP endpoint as clients see it. The URL without its last segment is the issuer: `https://agents.example/team`
   * for `https://agents.example/team/mcp`. The endpoints are below it, at `/oauth`.
   */
  readonly resource: string
  /** Signs people in: a preset such as `solaceIdentity()`, or an object of yours with these three functions. */
  readonly identity: IdentityService
  /** Exact URLs that codes may be sent to, besides loopback addresses. @default none */
  readonly redirectUris?: readonly string[] | undefined
  /** Claim with the name of the caller. The id of the principal is `<issuer>|<name>`. @default 'sub' */
  readonly principalClaim?: string | undefined
  /** Scopes that a signed-in user has. A client may ask for a part of them. @default ['*'] */
  readonly scopes?:
    | readonly string[]
    | ((claims: Readonly<Record<string, unknown>>) => readonly string[])
    | undefined
  /** Scopes that the metadata documents name. @default none */
  readonly scopesSupported?: readonly string[] | undefined
  /** Called with errors that clients see as `server_error`. @default nothing */
  readonly onError?: ((error: unknown) => void) | undefined
  /** Fetches metadata documents of clients. @default createGuardedFetch() */
  readonly guardedFetch?: GuardedFetch | undefined
  /** Milliseconds since 1970. @default Date.now */
  readonly now?: (() => number) | undefined
}

const optionChecks: Checks<OAuthFacadeOptions> = {
  store: check.required({
    takes: 'the store of the gateway',
    accepts: (value) => isRecord(value) && isRecord(value['records']) && isRecord(value['rates']),
  }),
  resource: check.required(check.string),
  identity: check.required(check.methods('loginUrl', 'exchange', 'refresh')),
  redirectUris: check.listOf(check.string),
  principalClaim: check.text,
  scopes: check.or(check.func, check.listOf(check.text)),
  scopesSupported: check.listOf(check.text),
  onError: check.func,
  guardedFetch: check.func,
  now: check.func,
}

/** Time in which the metadata document of a client must arrive: a person waits for it. Milliseconds. */
const DOCUMENT_MS = 10_000

const AS_METADATA = '/.well-known/oauth-authorization-server'

interface Endpoint {
  readonly name: 'register' | 'authorize' | 'callback' | 'token'
  readonly method: 'GET' | 'POST'
  /** Requests of one address. Tokens cannot be guessed, but each request may write to the store. */
  readonly perMinute: number
  readonly answer: (facade: Facade, request: Request) => Promise<Response>
}

const ENDPOINTS: readonly Endpoint[] = [
  { name: 'register', method: 'POST', perMinute: 10, answer: register },
  { name: 'authorize', method: 'GET', perMinute: 60, answer: authorize },
  { name: 'authorize', method: 'POST', perMinute: 60, answer: decide },
  { name: 'callback', method: 'GET', perMinute: 60, answer: callback },
  { name: 'token', method: 'POST', perMinute: 120, answer: token },
]

/** Registrations of all addresses together, because they stay in the store for a day. */
const ALL_REGISTRATIONS_PER_MINUTE = 120

/**
 * Creates an authorization server for a gateway, in front of an identity service that does not support OAuth as MCP
 * needs it. It issues tokens of its own, which are valid for this gateway only. The tokens of the identity service
 * never leave the gateway.
 *
 * @throws GatewayError `CONFIG`
 * @example
 * ```ts
 * import { createGateway, MemoryGatewayStore } from '@x/mcp-gateway'
 * import { oauthFacade, solaceIdentity } from '@x/mcp-gateway-oauth'
 *
 * const store = new MemoryGatewayStore()
 * const auth = oauthFacade({
 *   store,
 *   resource: 'https://agents.example/mcp',
 *   identity: solaceIdentity({ url: 'https://identity.example', provider: 'azure' }),
 * })
 * const gateway = createGateway({ auth, store })
 * ```
 */
export function oauthFacade(options: OAuthFacadeOptions): Authenticator {
  assertGatewayOptions('oauthFacade()', options, optionChecks)
  const facade = facadeFrom(options)
  const { store, scopesSupported = [] } = options
  const { issuer, resource, grants, onError } = facade
  const metadata = new ProtectedResource({
    resource,
    authorizationServers: [issuer],
    scopesSupported,
  })
  const extras = { resourceMetadata: metadata.metadataUrl(resource) }
  const document = serverMetadata(issuer, scopesSupported)
  const { pathname: prefix } = new URL(issuer)
  const documentPaths = wellKnownPaths(AS_METADATA, prefix)
  // A proxy may remove the prefix, or a part of it.
  const names: ReadonlyMap<string, Endpoint['name']> = new Map(
    pathEnds(prefix).flatMap((end) =>
      ENDPOINTS.map(({ name }) => [`${end}/oauth/${name}`, name] as const),
    ),
  )

  const handle = async (
    request: Request,
    { address }: RequestSource = {},
  ): Promise<Response | undefined> => {
    const { pathname } = new URL(request.url)
    if (documentPaths.includes(pathname)) return publicDocument(request, document)
    const name = names.get(pathname)
    if (!name) return metadata.handle(request)
    const found = ENDPOINTS.filter((each) => each.name === name)
    const endpoint = found.find(({ method }) => method === request.method)
    if (!endpoint) {
      const allow = found.map(({ method }) => method).join(', ')
      return new Response(null, { status: 405, headers: { allow } })
    }
    try {
      const client = address && `oauth:${name}:${endpoint.method}:${secretKey(subnetOf(address))}`
      let waitMs = client ? await store.rates.take(client, endpoint.perMinute) : 0
      if (waitMs === 0 && name === 'register') {
        waitMs = await store.rates.take('oauth:register', ALL_REGISTRATIONS_PER_MINUTE)
      }
      return waitMs > 0 ? tooManyAttempts(waitMs) : await endpoint.answer(facade, request)
    } catch (error) {
      onError(error)
      const isUnavailable = GatewayError.is(error) && error.code === 'UNAVAILABLE'
      return oauthError('server_error', isUnavailable ? 503 : 500)
    }
  }
  return {
    authenticate: (request) =>
      authenticateToken(request, async (text) => (await grants.caller(text)) ?? 'refused', extras),
    paths: [...documentPaths, ...names.keys(), ...metadata.paths],
    pages: pathEnds(prefix).map((end) => `${end}/oauth/authorize`),
    handle,
    refuseScopes: (_request, scopes) =>
      challengeResponse({ error: 'insufficient_scope', scopes, ...extras }),
  }
}

/** Authorization server metadata (RFC 8414). */
function serverMetadata(issuer: string, scopesSupported: readonly string[]): object {
  return {
    issuer,
    authorization_endpoint: `${issuer}/oauth/authorize`,
    token_endpoint: `${issuer}/oauth/token`,
    registration_endpoint: `${issuer}/oauth/register`,
    response_types_supported: ['code'],
    response_modes_supported: ['query'],
    grant_types_supported: ['authorization_code', 'refresh_token'],
    token_endpoint_auth_methods_supported: ['none'],
    code_challenge_methods_supported: ['S256'],
    authorization_response_iss_parameter_supported: true,
    client_id_metadata_document_supported: true,
    ...(scopesSupported.length > 0 && { scopes_supported: scopesSupported }),
  }
}

function facadeFrom(options: OAuthFacadeOptions): Facade {
  const { redirectUris = [], principalClaim = 'sub', scopes = ['*'] } = options
  const { onError = () => undefined, now = Date.now } = options
  const { guardedFetch = createGuardedFetch({ timeoutMs: DOCUMENT_MS }) } = options
  const resource = secureUrlFrom(options.resource, 'auth.resource').href
  const issuer = issuerOf(resource)
  const { records } = options.store
  return {
    issuer,
    resource,
    callback: `${issuer}/oauth/callback`,
    identity: options.identity,
    clients: new Clients({ records, guardedFetch, redirectUris }),
    grants: new Grants({ records, resource, now }),
    cookies: new BrowserCookies(issuer),
    principalClaim,
    scopesOf: typeof scopes === 'function' ? scopes : () => scopes,
    onError,
  }
}

/** Returns the URL of a resource without its last segment, and without a slash at the end. */
function issuerOf(resource: string): string {
  const { origin, pathname } = new URL(resource)
  return origin + pathname.replace(/\/+$/, '').replace(/\/+[^/]*$/, '')
}

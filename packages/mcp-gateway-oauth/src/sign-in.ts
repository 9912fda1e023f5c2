import { readWebBody } from '@x/mcp-gateway/adapter'
import { consentPage, consentToken, isConsentToken, type ConsentRequest } from './consent-page.ts'
import {
  FORM,
  grantFor,
  isForResource,
  MAX_BODY_BYTES,
  oauthError,
  singleValues,
  statusFor,
  type Facade,
  type OAuthErrorName,
} from './endpoints.ts'
import { newSecret, secretKey, STATE_TTL_MS, type PendingAuthorization } from './grants.ts'
import { leavingPage, markup, pageResponse } from './pages.ts'

const CHALLENGE = /^[A-Za-z0-9_-]{43}$/

/** RFC 6749 section 3.3. */
const SCOPE = /^[\x21\x23-\x5b\x5d-\x7e]+$/

/** A page with more scopes would be too long to read. */
const MAX_SCOPES = 100

/** Cookie with the secret of the forms of a browser. */
const FORM_COOKIE = 'mcp-consent'

/** Time that a person has to answer the page. Seconds. */
const FORM_SEC = 3600

/** `GET /oauth/authorize`: asks the person. Nothing is stored before the answer. */
export async function authorize(facade: Facade, request: Request): Promise<Response> {
  const asked = await requestFrom(facade, request)
  if (asked instanceof Response) return asked
  const { cookies, resource } = facade
  // Kept if it is there: another tab may show a form that was made with it.
  const secret = cookies.read(request, FORM_COOKIE) ?? newSecret()
  return consentPage({
    request: asked,
    resource,
    token: consentToken(secret, asked),
    setCookie: cookies.set(FORM_COOKIE, secret, FORM_SEC),
  })
}

/** `POST /oauth/authorize`: the answer of the person. The sign-in begins here, and can be finished in this browser only. */
export async function decide(facade: Facade, request: Request): Promise<Response> {
  const asked = await requestFrom(facade, request)
  if (asked instanceof Response) return asked
  const { cookies, grants, identity } = facade
  const form = await ownForm(facade, request)
  const secret = cookies.read(request, FORM_COOKIE)
  const isOwn =
    form !== undefined &&
    secret !== undefined &&
    isConsentToken(form['token'] ?? '', consentToken(secret, asked))
  if (!isOwn) return foreignForm()
  const { client, redirectUri, clientState, codeChallenge, scopes } = asked
  if (form['decision'] !== 'allow') {
    const answer = { error: 'access_denied', state: clientState, iss: facade.issuer }
    return leavingPage(urlWith(redirectUri, answer), { title: 'The app gets no access' })
  }
  const browser = newSecret()
  const state = await grants.begin({
    clientId: client.id,
    redirectUri,
    codeChallenge,
    clientState,
    scopes,
    browser: secretKey(browser),
  })
  return leavingPage(identity.loginUrl({ callback: facade.callback, state }), {
    title: 'Going to the sign-in page',
    setCookie: cookies.set(cookieOf(state), browser, STATE_TTL_MS / 1000),
  })
}

/** `GET /oauth/callback`: the identity service sends the browser back. */
export async function callback(facade: Facade, request: Request): Promise<Response> {
  const { cookies, grants } = facade
  const query = singleValues(new URL(request.url).searchParams)
  const { state = '' } = query ?? {}
  const browser = cookies.read(request, cookieOf(state))
  const pending = browser && (await grants.takePending(state, secretKey(browser)))
  if (!query || !pending) return foreignCallback()
  const response = await finish(facade, query, pending)
  response.headers.append('set-cookie', cookies.clear(cookieOf(state)))
  return response
}

async function finish(
  facade: Facade,
  { code, error }: Readonly<Record<string, string | undefined>>,
  pending: PendingAuthorization,
): Promise<Response> {
  const { redirectUri, clientState, clientId, codeChallenge, scopes } = pending
  const answer = { state: clientState, iss: facade.issuer }
  if (error !== undefined) return redirectTo(redirectUri, { error: 'access_denied', ...answer })
  if (!code) return oauthError('invalid_request')
  try {
    const identity = await facade.identity.exchange(code, facade.callback)
    const grant = grantFor(facade, identity, scopes.length === 0 ? 'all' : scopes)
    await facade.clients.keep(clientId)
    const issued = await facade.grants.putCode({ ...grant, clientId, redirectUri, codeChallenge })
    return redirectTo(redirectUri, { code: issued, ...answer })
  } catch (cause) {
    facade.onError(cause)
    return oauthError('server_error', statusFor(cause))
  }
}

/**
 * Returns the request of a client, or the response that refuses it. That is a redirect only if the redirect URI belongs
 * to the client (RFC 6749 section 4.1.2.1).
 */
async function requestFrom(facade: Facade, request: Request): Promise<ConsentRequest | Response> {
  const query = singleValues(new URL(request.url).searchParams)
  const { client_id: clientId, redirect_uri: redirectUri } = query ?? {}
  if (!query || !clientId || !redirectUri) return oauthError('invalid_request')
  const found = await facade.clients.find(clientId, redirectUri)
  if (found === undefined) return oauthError('invalid_client', 401)
  if (!found.mayRedirect) return oauthError('invalid_request')

  const { state, scope = '', code_challenge: codeChallenge, resource } = query
  const refuse = (error: OAuthErrorName): Response =>
    redirectTo(redirectUri, { error, state, iss: facade.issuer })
  if (query['response_type'] !== 'code') return refuse('unsupported_response_type')
  if (query['code_challenge_method'] !== 'S256') return refuse('invalid_request')
  if (codeChallenge === undefined || !CHALLENGE.test(codeChallenge)) {
    return refuse('invalid_request')
  }
  if (!isForResource(resource, facade)) return refuse('invalid_target')
  const scopes = scope.split(' ').filter((each) => each !== '')
  if (scopes.length > MAX_SCOPES || !scopes.every((each) => SCOPE.test(each))) {
    return refuse('invalid_scope')
  }
  return { client: found.client, redirectUri, codeChallenge, clientState: state, scopes }
}

/** Reads the form of a page of this gateway. `undefined` if the browser says that another page sent it. */
async function ownForm(
  { issuer }: Facade,
  request: Request,
): Promise<Readonly<Record<string, string | undefined>> | undefined> {
  const { headers } = request
  // The page sends no referrer, so browsers send the origin `null` with its form.
  const origin = headers.get('origin') ?? 'null'
  if (origin !== 'null' && origin !== new URL(issuer).origin) return undefined
  if ((headers.get('sec-fetch-site') ?? 'same-origin') !== 'same-origin') return undefined
  if (!FORM.test(headers.get('content-type') ?? '')) return undefined
  const body = await readWebBody(request, MAX_BODY_BYTES)
  return body.ok ? singleValues(new URLSearchParams(body.text)) : undefined
}

/** Name of the cookie of one sign-in: each tab has its own. */
function cookieOf(state: string): string {
  return `mcp-sign-in-${secretKey(state).slice(0, 16)}`
}

function foreignForm(): Response {
  return pageResponse({
    status: 400,
    title: 'This answer cannot be used',
    body: markup`<p>It did not come from a page that this gateway showed in this browser in the last hour, or the browser refuses
cookies. No app has got access.</p>
<p>Go back to your app and connect it again, in one browser that accepts cookies of this website.</p>`,
  })
}

function foreignCallback(): Response {
  return pageResponse({
    status: 400,
    title: 'This sign-in cannot be finished here',
    body: markup`<p>It did not begin in this browser, was finished before, or began more than ${String(STATE_TTL_MS / 60_000)} minutes ago.
No app has got access.</p>
<p>Go back to your app and connect it again, in this browser. If somebody sent you a link to this page, close it.</p>`,
  })
}

/** Sends the browser to a URL with the answer in its query. Codes must not get into caches or a `Referer` header. */
function redirectTo(uri: string, answer: Readonly<Record<string, string | undefined>>): Response {
  const headers = { 'cache-control': 'no-store', 'referrer-policy': 'no-referrer' }
  return new Response(null, {
    status: 302,
    headers: { location: urlWith(uri, answer), ...headers },
  })
}

function urlWith(uri: string, answer: Readonly<Record<string, string | undefined>>): string {
  const url = new URL(uri)
  for (const [name, value] of Object.entries(answer)) {
    if (value !== undefined) url.searchParams.append(name, value)
  }
  return url.href
}

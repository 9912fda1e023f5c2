import { createHash } from 'node:crypto'
import { MemoryGatewayStore } from '@x/mcp-gateway'
import type { Authenticator } from '@x/mcp-gateway'
import { FormBrowser, startTestServer } from '@x/mcp-testing'
import { expect } from 'vitest'
import { oauthFacade } from '../src/oauth-facade.ts'
import type { IdentityService, OAuthFacadeOptions } from '../src/index.ts'
import { solaceIdentity } from '../src/solace-identity.ts'

export const ORIGIN = 'https://gateway.example'
export const RESOURCE: string = `${ORIGIN}/mcp`
export const REDIRECT = 'http://127.0.0.1:4444/callback'
const VERIFIER: string = 'v'.repeat(50)
export const CHALLENGE: string = createHash('sha256').update(VERIFIER).digest('base64url')

export interface Upstream extends AsyncDisposable {
  readonly url: string
  readonly asked: string[]
  /** Status of all answers but sign-in pages. */
  status: number
  isDown: boolean
  user: object
  /** `expires_in` of its tokens. Seconds. */
  expiresIn: number
}

/** Starts an identity service on loopback. */
async function startUpstream(): Promise<Upstream> {
  const asked: string[] = []
  const server = await startTestServer((request, response) => {
    asked.push(`${request.method} ${request.url}`)
    if (upstream.isDown) return void response.destroy()
    const { pathname } = new URL(request.url ?? '', 'http://upstream')
    const renewed = pathname === '/refresh_token'
    const tokens = {
      access_token: renewed ? 'upstream-access-2' : 'upstream-access',
      refresh_token: renewed ? 'upstream-refresh-2' : 'upstream-refresh',
      expires_in: upstream.expiresIn,
    }
    response.writeHead(upstream.status, { 'content-type': 'application/json' })
    response.end(JSON.stringify(pathname === '/user_info' ? upstream.user : tokens))
  }, '')
  const upstream: Upstream = {
    url: server.url,
    asked,
    status: 200,
    isDown: false,
    user: { sub: 'ann', email: 'ann@example.org' },
    expiresIn: 600,
    [Symbol.asyncDispose]: () => server[Symbol.asyncDispose](),
  }
  return upstream
}

/** The identity service at a URL. */
export const identityAt = (url: string): IdentityService =>
  solaceIdentity({ url, provider: 'azure' })

/** Two authorization servers with one store, as in two processes, and their identity service. */
export interface OAuthWorld extends AsyncDisposable {
  readonly upstream: Upstream
  /** Clock of both servers and of the store. Milliseconds since 1970. */
  readonly time: { now: number }
  readonly store: MemoryGatewayStore
  /** Errors that `onError` was called with. */
  readonly errors: readonly unknown[]
  readonly one: Authenticator
  readonly other: Authenticator
}

export async function start(options: Partial<OAuthFacadeOptions> = {}): Promise<OAuthWorld> {
  const upstream = await startUpstream()
  const time = { now: Date.parse('2026-01-01') }
  const now = (): number => time.now
  const store = new MemoryGatewayStore({ now })
  const errors: unknown[] = []
  const make = (): Authenticator =>
    oauthFacade({
      store,
      resource: RESOURCE,
      identity: identityAt(upstream.url),
      now,
      onError: (error) => errors.push(error),
      ...options,
    })
  return {
    upstream,
    time,
    store,
    errors,
    one: make(),
    other: make(),
    [Symbol.asyncDispose]: async () => {
      await store.close()
      await upstream[Symbol.asyncDispose]()
    },
  }
}

export interface Asked extends RequestInit {
  readonly address?: string
  /** Browser that sends the request. @default one that all tests of a file share */
  readonly browser?: FormBrowser
}

const sharedBrowser = new FormBrowser()

export async function ask(
  auth: Authenticator,
  path: string,
  { address = '192.0.2.1', browser = sharedBrowser, ...init }: Asked = {},
): Promise<Response> {
  return browser.fetch(`${ORIGIN}${path}`, init, async (request) => {
    const answer = await auth.handle?.(request, { address })
    if (answer === undefined) throw new Error(`No answer for ${path}`)
    return answer
  })
}

export const post = (auth: Authenticator, form: Record<string, string>): Promise<Response> =>
  ask(auth, '/oauth/token', { method: 'POST', body: new URLSearchParams(form) })

export const registration = (auth: Authenticator, body: unknown): Promise<Response> =>
  ask(auth, '/oauth/register', { method: 'POST', body: JSON.stringify(body) })

export async function register(
  auth: Authenticator,
  redirectUris: string[] = [REDIRECT],
): Promise<string> {
  const response = await registration(auth, { redirect_uris: redirectUris })
  expect(response.status).toBe(201)
  return ((await response.json()) as { client_id: string }).client_id
}

export const authorizeQuery = (clientId: string, more: Record<string, string> = {}): string => {
  const all = {
    response_type: 'code',
    client_id: clientId,
    redirect_uri: REDIRECT,
    code_challenge: CHALLENGE,
    code_challenge_method: 'S256',
    state: 'client-state',
    ...more,
  }
  return `/oauth/authorize?${new URLSearchParams(all).toString()}`
}

export const locationOf = (response: Response): URL => {
  expect(response.status).toBe(302)
  return new URL(response.headers.get('location') ?? '')
}

/** Presses a button of a consent page. */
export async function press(
  auth: Authenticator,
  { path, page, decision }: { path: string; page: Response; decision: 'allow' | 'deny' },
  more: Asked = {},
): Promise<Response> {
  expect(page.status).toBe(200)
  const [, token = ''] = /name="token" value="([^"]+)"/.exec(await page.text()) ?? []
  const headers = { origin: 'null', 'sec-fetch-site': 'same-origin' }
  const body = new URLSearchParams({ token, decision })
  return ask(auth, path, { method: 'POST', headers, body, ...more })
}

/** URL to which a page sends the browser. */
export async function refreshOf(page: Response): Promise<URL> {
  expect(page.status).toBe(200)
  const [, url = ''] = /content="0; url=([^"]+)"/.exec(await page.text()) ?? []
  return new URL(url.replaceAll('&#38;', '&'))
}

/** Agrees to a sign-in in some browser, and returns the state for the callback. */
export async function beginIn(
  auth: Authenticator,
  clientId: string,
  { query, ...asked }: Asked & { readonly query?: Record<string, string> | undefined },
): Promise<string> {
  const path = authorizeQuery(clientId, query)
  const page = await ask(auth, path, asked)
  const login = await refreshOf(await press(auth, { path, page, decision: 'allow' }, asked))
  expect(login.pathname).toBe('/login')
  expect(login.searchParams.get('gateway_uri')).toBe(`${ORIGIN}/oauth/callback`)
  return login.searchParams.get('state') ?? ''
}

/** Agrees to a sign-in, and returns the state for the callback. */
export const begin = (
  auth: Authenticator,
  clientId: string,
  query?: Record<string, string>,
): Promise<string> => beginIn(auth, clientId, { query })

export const comeBack = (
  auth: Authenticator,
  state: string,
  { more = '&code=upstream-code', ...asked }: Asked & { readonly more?: string } = {},
): Promise<Response> => ask(auth, `/oauth/callback?state=${state}${more}`, asked)

/** Signs a user in, and returns the code. */
export async function codeOf(
  auth: Authenticator,
  clientId: string,
  more?: Record<string, string>,
): Promise<string> {
  const back = locationOf(await comeBack(auth, await begin(auth, clientId, more)))
  return back.searchParams.get('code') ?? ''
}

export const exchangeOf = (clientId: string, code: string): Record<string, string> => ({
  grant_type: 'authorization_code',
  client_id: clientId,
  redirect_uri: REDIRECT,
  code,
  code_verifier: VERIFIER,
})

export interface Tokens {
  access_token: string
  refresh_token: string
  expires_in: number
  scope: string
}

export async function tokensOf(auth: Authenticator, clientId: string): Promise<Tokens> {
  const response = await post(auth, exchangeOf(clientId, await codeOf(auth, clientId)))
  expect(response.status).toBe(200)
  return (await response.json()) as Tokens
}

export const callerOf = (auth: Authenticator, token: string): Promise<unknown> =>
  auth.authenticate({
    method: 'POST',
    url: RESOURCE,
    headers: new Headers({ authorization: `Bearer ${token}` }),
  })

export async function expectPage(response: Response, title: string): Promise<void> {
  expect(response.status).toBe(400)
  expect(response.headers.get('location')).toBeNull()
  expect(response.headers.get('content-type')).toBe('text/html; charset=utf-8')
  await expect(response.text()).resolves.toContain(`<h1>${title}</h1>`)
}

export async function expectError(
  response: Response,
  status: number,
  error: string,
): Promise<void> {
  expect(response.status).toBe(status)
  // No details: not what was wrong, and not for whom.
  await expect(response.json()).resolves.toEqual({ error })
  expect(response.headers.get('cache-control')).toBe('no-store')
}

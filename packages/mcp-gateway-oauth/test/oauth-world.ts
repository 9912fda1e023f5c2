import { createHash } from 'node:crypto'
import { MemoryGatewayStore } from '@x/mcp-gateway'
import type { Authenticator } from '@x/mcp-gateway'
import { startTestServer } from '@x/mcp-testing'
import { expect } from 'vitest'
import { oauthFacade } from '../src/oauth-facade.ts'
import type { OAuthFacadeOptions } from '../src/oauth-facade.ts'

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
      upstreamUrl: upstream.url,
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

export async function ask(
  auth: Authenticator,
  path: string,
  { address = '192.0.2.1', ...init }: RequestInit & { readonly address?: string } = {},
): Promise<Response> {
  const answer = await auth.handle?.(new Request(`${ORIGIN}${path}`, init), { address })
  if (answer === undefined) throw new Error(`No answer for ${path}`)
  return answer
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

/** Begins a sign-in, and returns the state for the callback. */
export async function begin(
  auth: Authenticator,
  clientId: string,
  more?: Record<string, string>,
): Promise<string> {
  const login = locationOf(await ask(auth, authorizeQuery(clientId, more)))
  expect(login.pathname).toBe('/login')
  expect(login.searchParams.get('gateway_uri')).toBe(`${ORIGIN}/oauth/callback`)
  return login.searchParams.get('state') ?? ''
}

export const comeBack = (
  auth: Authenticator,
  state: string,
  more = '&code=upstream-code',
): Promise<Response> => ask(auth, `/oauth/callback?state=${state}${more}`)

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

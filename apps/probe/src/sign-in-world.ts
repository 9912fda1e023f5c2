// A gateway with sign-in, and what its clients, their browsers and the identity service do.
import { createHash, randomBytes } from 'node:crypto'
import { MemoryGatewayStore, type GatewayStore } from '@x/mcp-gateway'
import { oauthFacade, solaceIdentity, type IdentityService } from '@x/mcp-gateway-oauth'
import { startTestServer } from '@x/mcp-testing'
import { modern, textOf, toAnswer, type Answer, type Fields, type Json } from './client.ts'
import { startTarget, type Target } from './target.ts'

export const VERIFIER: string = 'v'.repeat(64)
export const CHALLENGE: string = createHash('sha256').update(VERIFIER).digest('base64url')
export const CALLBACK = 'http://127.0.0.1:4444/callback'

/** Header from which the gateway takes the address of a client. */
export const ADDRESS = 'x-forwarded-for'

/** A gateway with sign-in, as browsers and clients see it. */
export interface World {
  readonly target: Target
  /** Time that has passed for the sign-in, besides the real time. */
  readonly time: { passedMs: number }
}

/** Follows no redirect. The endpoints limit the requests of an address, so each request has another one. */
export function request(
  { target }: Pick<World, 'target'>,
  path: string,
  { headers, ...init }: Omit<RequestInit, 'headers'> & { readonly headers?: Fields } = {},
): Promise<Response> {
  const [, a, b] = /(.{4})(.{4})/.exec(randomBytes(4).toString('hex')) ?? []
  const own = { [ADDRESS]: `2001:db8:${a}:${b}::1`, connection: 'close', ...headers }
  return fetch(new URL(path, target.url), { redirect: 'manual', ...init, headers: own })
}

export async function register(world: World, body: unknown): Promise<Answer> {
  const text = typeof body === 'string' ? body : JSON.stringify(body)
  const headers = { 'content-type': 'application/json' }
  return toAnswer(await request(world, '/oauth/register', { method: 'POST', headers, body: text }))
}

export async function clientOf(world: World): Promise<string> {
  const { message } = await register(world, { redirect_uris: [CALLBACK] })
  return String(message['client_id'])
}

export const authorizeQuery = (clientId: string, over: Json = {}): string => {
  const all: Json = {
    response_type: 'code',
    client_id: clientId,
    redirect_uri: CALLBACK,
    code_challenge: CHALLENGE,
    code_challenge_method: 'S256',
    state: 'state-of-the-client',
    ...over,
  }
  const entries = Object.entries(all).filter((entry) => entry[1] !== undefined)
  const query = new URLSearchParams(
    Object.fromEntries(entries.map(([name, value]) => [name, String(value)])),
  )
  return `/oauth/authorize?${String(query)}`
}

const locationOf = (response: Pick<Answer, 'headers'>): URL =>
  new URL(response.headers.get('location') ?? 'about:blank')

/** Cookies of the browser, by the state of the sign-in that they belong to. */
const cookies = new Map<string, string>()

/** The headers with which the browser of a sign-in comes back. */
export const browserOf = (state: string): Fields => {
  const cookie = cookies.get(state)
  return cookie === undefined ? {} : { cookie }
}

const cookieIn = ({ headers }: Pick<Answer, 'headers'>): string =>
  headers.get('set-cookie')?.split(';', 1)[0] ?? ''

/** Opens the page that asks the user, and agrees. @returns the URL of the sign-in page of the identity service */
export async function toSignIn(world: Pick<World, 'target'>, query: string): Promise<URL> {
  const page = await toAnswer(await request(world, query))
  const [, text = ''] = /name="token" value="([^"]*)"/.exec(page.text) ?? []
  const answer = await toAnswer(
    await request(world, query, {
      method: 'POST',
      headers: { cookie: cookieIn(page), 'sec-fetch-site': 'same-origin', origin: 'null' },
      body: new URLSearchParams({ token: text, decision: 'allow' }),
    }),
  )
  const [, next] = /content="0; url=([^"]*)"/.exec(answer.text) ?? []
  if (next === undefined) throw new Error(`No sign-in: ${answer.status} ${answer.text}`)
  const url = new URL(next.replaceAll('&#38;', '&'))
  cookies.set(url.searchParams.get('state') ?? '', cookieIn(answer))
  return url
}

/** Signs a user in. @returns the URL to which the client is sent, with the code */
export async function codeFor(world: World, clientId: string, over: Json = {}): Promise<URL> {
  const page = await toSignIn(world, authorizeQuery(clientId, over))
  const state = page.searchParams.get('state') ?? ''
  const headers = browserOf(state)
  return locationOf(
    await request(world, `/oauth/callback?code=upstream&state=${state}`, { headers }),
  )
}

export async function token(world: World, form: Json): Promise<Answer> {
  const entries = Object.entries(form).flatMap(([name, value]) =>
    [value].flat().map((each): [string, string] => [name, String(each)]),
  )
  return toAnswer(
    await request(world, '/oauth/token', { method: 'POST', body: new URLSearchParams(entries) }),
  )
}

export const exchange = (clientId: string, code: string, over: Json = {}): Json => ({
  grant_type: 'authorization_code',
  client_id: clientId,
  redirect_uri: CALLBACK,
  code,
  code_verifier: VERIFIER,
  ...over,
})

export interface SignedIn {
  readonly clientId: string
  readonly code: string
  readonly access: string
  readonly refresh: string
}

export async function signedIn(world: World): Promise<SignedIn> {
  const clientId = await clientOf(world)
  const code = (await codeFor(world, clientId)).searchParams.get('code') ?? ''
  const { message } = await token(world, exchange(clientId, code))
  return {
    clientId,
    code,
    access: String(message['access_token']),
    refresh: String(message['refresh_token']),
  }
}

export const mayCall = async ({ target }: World, access: string): Promise<boolean> =>
  textOf(
    await modern(target, 'tools/call', {
      name: 'echo',
      arguments: { message: 'Hi' },
      token: access,
    }),
  ) === 'Hi'

export async function startWorld(stack: AsyncDisposableStack, url: string): Promise<World> {
  const time = { passedMs: 0 }
  const now = (): number => Date.now() + time.passedMs
  const store = new MemoryGatewayStore({ now })
  const rates: GatewayStore['rates'] = {
    // All addresses together may register 120 clients in a minute, and the probes are more.
    take: async (name, perMinute) =>
      name === 'oauth:register' ? 0 : store.rates.take(name, perMinute),
  }
  const auth = oauthFacade({
    store: { records: store.records, rates },
    resource: 'https://gateway.example/mcp',
    identity: identityAt(url),
    now,
    redirectUris: ['https://app.example/callback'],
  })
  const http = { proxies: 1 }
  return { target: await startTarget(stack, { auth, store, http }), time }
}

export const identityAt = (url: string): IdentityService =>
  solaceIdentity({ url, provider: 'azure' })

/** Starts an identity service in which everyone is the same person. @returns its URL */
export async function startIdentityService(stack: AsyncDisposableStack): Promise<string> {
  const server = stack.use(
    await startTestServer((incoming, response) => {
      const user = { sub: 'ann', email: 'ann@example.org' }
      const tokens = {
        access_token: 'upstream-access',
        refresh_token: 'upstream-refresh',
        expires_in: 600,
      }
      response.writeHead(200, { 'content-type': 'application/json' })
      response.end(JSON.stringify(incoming.url?.startsWith('/user_info') ? user : tokens))
    }, ''),
  )
  return server.url
}

/** An error without details, which no cache keeps. */
export const isOAuthError = ({ status, headers, text }: Answer): boolean =>
  status >= 400 &&
  status < 500 &&
  /^\{"error":"[a-z_]+"\}$/.test(text) &&
  headers.get('cache-control') === 'no-store' &&
  !headers.has('location')

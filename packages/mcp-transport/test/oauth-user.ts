import { Agent } from 'undici'
import { afterAll, beforeEach, vi } from 'vitest'
import { AuthError } from '../src/auth/auth-provider.ts'
import type { OAuthClientProvider } from '../src/auth/auth-provider.ts'
import { Authorizer } from '../src/auth/authorizer.ts'
import type { FetchFunction, Renewal } from '../src/auth/authorizer.ts'
import { createAuthProvider } from '../src/auth/providers.ts'
import type { AuthProviderOptions } from '../src/auth/providers.ts'
import { createOAuthFetch } from '../src/http/http-client.ts'
import { browse } from './protected-server.ts'
import type { ProtectedServer } from './protected-server.ts'

/** A request that the server has refused with this challenge. */
export function renewal(challenge = ''): Renewal {
  const isStepUp = challenge.includes('insufficient_scope')
  const headers = { 'www-authenticate': challenge }
  const refusal = { status: isStepUp ? 403 : 401, headers, text: '' }
  return { signal: new AbortController().signal, refused: undefined, isStepUp, refusal }
}

/** Handles a refusal in the same way as a transport. Returns the token of the next request. */
export async function renewToken(
  provider: OAuthClientProvider,
  server: { readonly url: string; readonly fetch: FetchFunction },
  challenge?: string,
): Promise<string | undefined> {
  const authorizer = new Authorizer(provider, new URL(server.url), server.fetch)
  const refused = (await authorizer.credential('POST'))?.token
  await authorizer.renew({ ...renewal(challenge), refused })
  return (await authorizer.credential('POST'))?.token
}

/** URL that the user's browser comes back to. */
export const REDIRECT_URL = 'http://127.0.0.1:9/callback'

/** Paths of the metadata of the MCP server at `/mcp`, and of an authorization server. */
export const RESOURCE = '/.well-known/oauth-protected-resource/mcp'
export const ISSUER = '/.well-known/oauth-authorization-server'

/** Lets the resource metadata name other authorization servers. */
export function nameIssuers(server: ProtectedServer, ...issuers: readonly string[]): void {
  const body = { resource: server.url, authorization_servers: issuers }
  server.behaviour.pages[RESOURCE] = { status: 200, body }
}

/** A user who agrees, and everything that a test does as this user. */
export interface OAuthUser {
  readonly fetch: FetchFunction
  /** Pages that this test has sent the user to. */
  readonly sentTo: URL[]
  /** A provider that waits for the user. */
  readonly user: (options?: Partial<AuthProviderOptions>) => OAuthClientProvider
  /** A provider that does not wait for the user. */
  readonly leaves: (options?: Partial<AuthProviderOptions>) => OAuthClientProvider
  /** Handles a refusal. Returns the next token. */
  readonly signIn: (
    server: ProtectedServer,
    provider: OAuthClientProvider,
  ) => Promise<string | undefined>
  /** The callback of a user who agrees on the page that came last. */
  readonly comesBack: () => Promise<URL>
  readonly finish: (
    server: ProtectedServer,
    provider: OAuthClientProvider,
    callback: string | URL,
  ) => Promise<void>
}

/** For the tests of one file. A warning of the library fails the test that causes it. */
export function oauthUser(): OAuthUser {
  const dispatcher = new Agent()
  const fetch = createOAuthFetch(dispatcher)
  const warn = vi.spyOn(console, 'warn').mockImplementation((text) => {
    throw new Error(`Unexpected warning: ${text}`)
  })
  const sentTo: URL[] = []
  beforeEach(() => void sentTo.splice(0))
  afterAll(async () => {
    warn.mockRestore()
    await dispatcher.destroy()
  })
  const user: OAuthUser['user'] = (options) =>
    createAuthProvider({
      redirectUrl: REDIRECT_URL,
      clientName: 'test',
      redirect: (url) => {
        sentTo.push(url)
        return browse(url)
      },
      ...options,
    })
  return {
    fetch,
    sentTo,
    user,
    leaves: (options) => user({ redirect: (url) => void sentTo.push(url), ...options }),
    signIn: (server, provider) => renewToken(provider, { url: server.url, fetch }),
    comesBack: () => browse(sentTo.at(-1) ?? new URL('none:')),
    finish: (server, provider, callback) =>
      new Authorizer(provider, new URL(server.url), fetch).finish(callback),
  }
}

/** The `AuthError` that some work fails with. */
export async function authErrorOf(work: Promise<unknown>): Promise<AuthError> {
  const error: unknown = await work.then(
    () => undefined,
    (reason: unknown) => reason,
  )
  if (AuthError.is(error)) return error
  throw new Error('No AuthError', { cause: error })
}

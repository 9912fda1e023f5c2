import type { IssuerContext, OAuthClientProvider, OAuthTokens } from './oauth-client-provider.ts'

/** A refusal, for a provider that knows what to do about it. */
export interface UnauthorizedContext {
  /** Head and start of the body of the 401. */
  readonly response: Response
  readonly serverUrl: URL
  /** Over the transport's dispatcher, bounded, and without any header of the caller. */
  readonly fetchFn: (url: string | URL, init?: RequestInit) => Promise<Response>
}

export interface TokenContext {
  /** The token that the server has just refused: time for another one. */
  readonly refused?: string | undefined
}

/** Gives tokens, and that is all. What SDK v2 calls `AuthProvider` fits. */
export interface TokenProvider {
  /** Asked before every request, and after a refusal, then with the token that was refused. */
  token(context?: TokenContext): string | undefined | Promise<string | undefined>
  /** Called after a 401, once for all requests that carried the same token; then `token` is asked again. */
  onUnauthorized?(context: UnauthorizedContext): void | Promise<void>
}

/** What `authProvider` of a transport may be. */
export type AuthProvider = OAuthClientProvider | TokenProvider

export function isOAuthClientProvider(provider: AuthProvider): provider is OAuthClientProvider {
  return 'tokens' in provider && 'clientInformation' in provider
}

/**
 * The tokens that a provider keeps for an MCP server. Tokens of another server, from a store that two
 * providers share by mistake, count as none.
 */
export async function storedTokens(
  provider: OAuthClientProvider,
  serverUrl: URL,
  context?: IssuerContext,
): Promise<OAuthTokens | undefined> {
  const tokens = await provider.tokens(context)
  const isOther = tokens?.server !== undefined && tokens.server !== serverUrl.origin
  return isOther ? undefined : tokens
}

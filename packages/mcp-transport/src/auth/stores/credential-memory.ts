import type { AuthorizationServer } from '../discovery/authorization-server.ts'
import type { OAuthClientInformation, OAuthTokens } from '../oauth-client-provider.ts'

/** An authorization request whose answer has not come yet. */
export interface PendingAuthorization {
  readonly serverUrl: string
  /** As it was before the redirect: the answer is checked against it. */
  readonly server: AuthorizationServer
  readonly client: OAuthClientInformation
  readonly resource: string
  readonly redirectUri: string
  /** Undefined where another process made the request. */
  readonly state: string | undefined
  readonly scope: string | undefined
}

/**
 * What a provider need not be able to keep: the shape of SDK v1 has no place for some of it, and providers
 * drop the `issuer` that credentials are marked with.
 */
export class CredentialMemory {
  pending: PendingAuthorization | undefined
  /** What was asked for with the tokens in use. */
  askedScope: string | undefined
  /** A client id that its server does not know any more. */
  deadClientId: string | undefined
  #token: { readonly accessToken: string; readonly issuer: string } | undefined
  #client: { readonly clientId: string; readonly issuer: string } | undefined

  rememberTokens({ access_token: accessToken }: OAuthTokens, issuer: string): void {
    this.#token = { accessToken, issuer }
  }

  rememberClient({ client_id: clientId }: OAuthClientInformation, issuer: string): void {
    this.#client = { clientId, issuer }
  }

  /** Undefined where nobody knows: credentials from before they were marked. */
  issuerOfTokens(tokens: OAuthTokens): string | undefined {
    if (tokens.issuer !== undefined) return tokens.issuer
    return this.#token?.accessToken === tokens.access_token ? this.#token.issuer : undefined
  }

  issuerOfClient(client: OAuthClientInformation): string | undefined {
    if (client.issuer !== undefined) return client.issuer
    return this.#client?.clientId === client.client_id ? this.#client.issuer : undefined
  }
}

// Everything exported here is public API. The flow itself is deliberately private: a transport runs it.
import '../runtime-check.ts' // stays the first import
export { AuthError } from './auth-error.ts'
export type { AuthErrorCode, AuthErrorOptions } from './auth-error.ts'
export { bearer } from './bearer.ts'
export type { BearerSource } from './bearer.ts'
export type { TokenEndpointAuthMethod } from './client/client-authentication.ts'
export { clientCredentials } from './client-credentials.ts'
export type { ClientCredentialsOptions } from './client-credentials.ts'
export { createAuthProvider } from './create-auth-provider.ts'
export type { AuthProviderOptions } from './create-auth-provider.ts'
export { fileTokenStore } from './stores/file-token-store.ts'
export { loopbackOAuth } from './loopback-oauth.ts'
export type { LoopbackOAuthOptions } from './loopback-oauth.ts'
export type {
  AuthorizationCallback,
  AuthorizationServerMetadata,
  IssuerContext,
  OAuthClientInformation,
  OAuthClientMetadata,
  OAuthClientProvider,
  OAuthDiscoveryState,
  OAuthTokens,
  ProtectedResourceMetadata,
  RedirectContext,
} from './oauth-client-provider.ts'
export { storedCredentialsFrom } from './stores/stored-credentials.ts'
export type { StoredCredentials } from './stores/stored-credentials.ts'
export type {
  AuthProvider,
  TokenContext,
  TokenProvider,
  UnauthorizedContext,
} from './token-provider.ts'
export { memoryTokenStore } from './stores/token-store.ts'
export type { TokenStore } from './stores/token-store.ts'

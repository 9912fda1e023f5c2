// Everything exported here is public API. The OAuth flow is private: a transport runs it.
import '../runtime-check.ts' // stays the first import
export { AuthError } from './auth-provider.ts'
export type { AuthErrorCode, AuthErrorOptions } from './auth-provider.ts'
export type {
  AuthorizationCallback,
  AuthProvider,
  DeviceAuthorization,
  DpopSession,
  IssuerContext,
  OAuthClientInformation,
  OAuthClientMetadata,
  OAuthClientProvider,
  OAuthDiscoveryState,
  OAuthTokens,
  RedirectContext,
  TokenContext,
  TokenProvider,
  UnauthorizedContext,
  UserCode,
} from './auth-provider.ts'
export { deviceOAuth } from './device-oauth.ts'
export type { DeviceOAuthOptions } from './device-oauth.ts'
export { bearer, clientCredentials, createAuthProvider, loopbackOAuth } from './providers.ts'
export type {
  AuthProviderOptions,
  BearerSource,
  ClientCredentialsOptions,
  LoopbackOAuthOptions,
  UserOptions,
} from './providers.ts'
export { fileTokenStore, memoryTokenStore } from './token-store.ts'
export type { StoredCredentials, TokenStore } from './token-store.ts'

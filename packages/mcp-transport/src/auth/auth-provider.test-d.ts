import type {
  AuthProvider as AuthProviderV2,
  ClientCredentialsProvider as ClientCredentialsV2,
  CrossAppAccessProvider as CrossAppAccessV2,
  DpopSession as DpopSessionV2,
  OAuthClientProvider as ProviderV2,
  PrivateKeyJwtProvider as PrivateKeyJwtV2,
  StaticPrivateKeyJwtProvider as StaticPrivateKeyJwtV2,
} from '@modelcontextprotocol/client'
import type { ClientCredentialsProvider as ClientCredentialsV1 } from '@modelcontextprotocol/sdk/client/auth-extensions.js'
import type { OAuthClientProvider as ProviderV1 } from '@modelcontextprotocol/sdk/client/auth.js'
import { expectTypeOf, test } from 'vitest'
import type { AuthProvider, DpopSession, OAuthClientProvider, TokenProvider } from './index.ts'
import { bearer, clientCredentials, createAuthProvider, loopbackOAuth } from './index.ts'

test('providers written for SDK v1 fit', () => {
  expectTypeOf<ProviderV1>().toExtend<OAuthClientProvider>()
  expectTypeOf<ClientCredentialsV1>().toExtend<OAuthClientProvider>()
})

test('providers written for SDK v2 fit', () => {
  expectTypeOf<ProviderV2>().toExtend<OAuthClientProvider>()
  expectTypeOf<ClientCredentialsV2>().toExtend<OAuthClientProvider>()
  expectTypeOf<PrivateKeyJwtV2>().toExtend<OAuthClientProvider>()
  expectTypeOf<StaticPrivateKeyJwtV2>().toExtend<OAuthClientProvider>()
  expectTypeOf<CrossAppAccessV2>().toExtend<OAuthClientProvider>()
  expectTypeOf<DpopSessionV2>().toExtend<DpopSession>()
  expectTypeOf<AuthProviderV2>().toExtend<TokenProvider>()
})

test('all of ours fit where a provider is wanted', () => {
  expectTypeOf(bearer).returns.toExtend<AuthProvider>()
  expectTypeOf(clientCredentials).returns.toExtend<AuthProvider>()
  expectTypeOf(loopbackOAuth).returns.toExtend<AuthProvider>()
  expectTypeOf(createAuthProvider).returns.toExtend<AuthProvider>()
})

test('what is no provider does not fit', () => {
  expectTypeOf<{ tokens(): string }>().not.toExtend<AuthProvider>()
  // @ts-expect-error -- a browser has to be opened somehow
  loopbackOAuth({ clientName: 'x' })
})

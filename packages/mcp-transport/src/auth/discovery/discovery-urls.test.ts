import { expect, test } from 'vitest'
import { authorizationServerMetadataUrls, resourceMetadataUrls } from './discovery-urls.ts'

const hrefs = (urls: readonly URL[]): string[] => urls.map(({ href }) => href)

test.each([
  [
    'https://a.test/mcp?key=1',
    undefined,
    [
      'https://a.test/.well-known/oauth-protected-resource/mcp',
      'https://a.test/.well-known/oauth-protected-resource',
    ],
  ],
  ['https://a.test/', undefined, ['https://a.test/.well-known/oauth-protected-resource']],
  [
    'https://a.test/x/mcp/',
    'https://b.test/meta?x=1',
    [
      'https://b.test/meta?x=1',
      'https://a.test/.well-known/oauth-protected-resource/x/mcp',
      'https://a.test/.well-known/oauth-protected-resource',
    ],
  ],
  ['https://a.test', 'not a url', ['https://a.test/.well-known/oauth-protected-resource']],
])('metadata of the server %s, challenge %s', (server, challenge, expected) => {
  expect(hrefs(resourceMetadataUrls(new URL(server), challenge))).toEqual(expected)
})

test.each([
  [
    'https://as.test',
    [
      'https://as.test/.well-known/oauth-authorization-server',
      'https://as.test/.well-known/openid-configuration',
    ],
  ],
  [
    'https://as.test/tenant/1/',
    [
      'https://as.test/.well-known/oauth-authorization-server/tenant/1',
      'https://as.test/.well-known/openid-configuration/tenant/1',
      'https://as.test/tenant/1/.well-known/openid-configuration',
    ],
  ],
])('metadata of the issuer %s', (issuer, expected) => {
  expect(hrefs(authorizationServerMetadataUrls(new URL(issuer)))).toEqual(expected)
})

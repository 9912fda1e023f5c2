import { expect, test } from 'vitest'
import { resourceMetadataFrom, serverMetadataFrom } from './metadata.ts'

test('metadata is taken as it is, with what we do not know', () => {
  const resource = { resource: 'https://a.test/mcp', authorization_servers: ['x'], other: 1 }
  expect(resourceMetadataFrom(resource)).toEqual(resource)
  const server = { issuer: 'https://as.test', token_endpoint: 'https://as.test/t', other: [] }
  expect(serverMetadataFrom(server)).toEqual(server)
})

test.each([null, [], 'x', {}, { resource: 1 }, { resource: 'x', authorization_servers: 'y' }])(
  '%j is no metadata of an MCP server',
  (value) => {
    expect(resourceMetadataFrom(value)).toBeUndefined()
  },
)

test.each([
  null,
  {},
  { issuer: 7 },
  { issuer: 'x', token_endpoint: {} },
  { issuer: 'x', code_challenge_methods_supported: ['S256', 1] },
  { issuer: 'x', client_id_metadata_document_supported: 'true' },
])('%j is no metadata of an authorization server', (value) => {
  expect(serverMetadataFrom(value)).toBeUndefined()
})

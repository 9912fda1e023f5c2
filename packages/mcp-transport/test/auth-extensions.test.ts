// Features of the OAuth library: tokens bound to a key, signed client assertions, workload identities.
import { createHash, generateKeyPairSync } from 'node:crypto'
import type { IncomingMessage, ServerResponse } from 'node:http'
import { DpopSession, PrivateKeyJwtProvider } from '@modelcontextprotocol/client'
import { Client } from '@modelcontextprotocol/sdk/client/index.js'
import { afterEach, describe, expect, test } from 'vitest'
import { startTestServer } from '@x/mcp-testing'
import { clientCredentials, createAuthProvider } from '../src/auth/index.ts'
import type { AuthProvider } from '../src/auth/index.ts'
import { StreamableHttpTransport } from '../src/index.ts'
import { browse, startProtectedServer } from './protected-server.ts'

const open: AsyncDisposable[] = []
afterEach(async () => {
  for (const one of open.splice(0)) await one[Symbol.asyncDispose]()
})

async function connect(url: string, authProvider: AuthProvider, listen = false): Promise<Client> {
  const headers = { DPoP: 'a header of the user', Authorization: 'Bearer of-the-user' }
  const transport = new StreamableHttpTransport(url, {
    era: 'legacy',
    listen,
    authProvider,
    headers,
  })
  open.push(transport)
  const client = new Client({ name: 'test', version: '1' })
  await client.connect(transport)
  return client
}

/** The claims of a JWT. */
function claimsOf(jwt: string): Record<string, unknown> {
  return JSON.parse(Buffer.from(jwt.split('.')[1] ?? '', 'base64url').toString())
}

interface BoundServer extends AsyncDisposable {
  readonly url: string
  readonly origin: string
  /** Claims of the proofs that were accepted, with the status of their requests. */
  readonly proofs: Record<string, unknown>[]
  readonly statuses: number[]
  /** Nonce that the MCP endpoint requires; undefined for none. */
  nonce: string | undefined
  /** Nonce in the next responses. */
  nextNonce: string | undefined
}

/** An MCP server whose tokens are bound to a key, and which can require nonces. */
async function startBoundServer(): Promise<BoundServer> {
  const json = (response: ServerResponse, status: number, body: unknown): void =>
    void response
      .writeHead(status, { 'content-type': 'application/json' })
      .end(JSON.stringify(body))
  const answer = (request: IncomingMessage, body: string, response: ServerResponse): void => {
    const path = request.url ?? ''
    const proof = typeof request.headers['dpop'] === 'string' ? request.headers['dpop'] : ''
    if (path.startsWith('/.well-known/oauth-protected-resource')) {
      return json(response, 200, { resource: server.url, authorization_servers: [server.origin] })
    }
    if (path.startsWith('/.well-known/')) {
      return json(response, 200, {
        issuer: server.origin,
        authorization_endpoint: `${server.origin}/authorize`,
        token_endpoint: `${server.origin}/token`,
        response_types_supported: ['code'],
        code_challenge_methods_supported: ['S256'],
        token_endpoint_auth_methods_supported: ['client_secret_basic'],
      })
    }
    const claims = proof.includes('.') ? claimsOf(proof) : {}
    if (path === '/token') {
      response.setHeader('dpop-nonce', 'as-1')
      if (claims['nonce'] !== 'as-1') return json(response, 400, { error: 'use_dpop_nonce' })
      server.proofs.push(claims)
      return json(response, 200, { access_token: 'bound', token_type: 'DPoP' })
    }
    const { nonce } = server
    const isProven =
      request.headers.authorization === 'DPoP bound' &&
      (nonce === undefined || claims['nonce'] === nonce)
    if (server.nextNonce !== undefined) server.nonce = server.nextNonce
    if (server.nonce !== undefined) response.setHeader('dpop-nonce', server.nonce)
    const error =
      request.headers.authorization === 'DPoP bound' ? 'use_dpop_nonce' : 'invalid_token'
    response.setHeader('www-authenticate', `DPoP error="${error}"`)
    server.statuses.push(isProven ? 200 : 401)
    if (!isProven) return json(response, 401, {})
    server.proofs.push(claims)
    if (request.method !== 'POST') return void response.writeHead(405).end()
    const message = JSON.parse(body)
    if (message.id === undefined) return void response.writeHead(202).end()
    const result =
      message.method === 'initialize'
        ? {
            protocolVersion: '2025-11-25',
            capabilities: {},
            serverInfo: { name: 's', version: '1' },
          }
        : {}
    json(response, 200, { jsonrpc: '2.0', id: message.id, result })
  }
  const base = await startTestServer((request, response) => {
    const chunks: Buffer[] = []
    request.on('data', (chunk: Buffer) => chunks.push(chunk))
    request.on('end', () => answer(request, Buffer.concat(chunks).toString(), response))
  })
  const server: BoundServer = {
    url: base.url,
    origin: new URL(base.url).origin,
    proofs: [],
    statuses: [],
    nonce: undefined,
    nextNonce: undefined,
    [Symbol.asyncDispose]: () => base[Symbol.asyncDispose](),
  }
  return server
}

describe('DPoP', () => {
  const bound = async (): Promise<AuthProvider> => {
    const session = await DpopSession.create()
    return clientCredentials({ clientId: 'c', clientSecret: 's', dpop: () => session })
  }

  test('adds an own proof to every request, which a user header cannot replace', async () => {
    await using server = await startBoundServer()
    const client = await connect(server.url, await bound(), true)
    await client.ping()
    await expect.poll(() => server.proofs.map(({ htm }) => htm)).toContain('GET')
    const [token, ...requests] = server.proofs
    expect(token).toMatchObject({ htm: 'POST', htu: `${server.origin}/token`, nonce: 'as-1' })
    expect(token).not.toHaveProperty('ath')
    const ath = createHash('sha256').update('bound').digest('base64url')
    for (const claims of requests) expect(claims).toMatchObject({ htu: server.url, ath })
    expect(new Set(server.proofs.map(({ jti }) => jti)).size).toBe(server.proofs.length)
  })

  test('sends a required nonce immediately, without another token', async () => {
    await using server = await startBoundServer()
    const client = await connect(server.url, await bound())
    server.nonce = 'rs-1'
    server.proofs.length = 0
    server.statuses.length = 0
    await client.ping()
    expect(server.statuses).toEqual([401, 200])
    expect(server.proofs).toMatchObject([{ nonce: 'rs-1', htu: server.url }])
  })

  test('uses the nonce of any response for the next request', async () => {
    await using server = await startBoundServer()
    const client = await connect(server.url, await bound())
    server.nextNonce = 'rs-2' // in the next response
    await client.ping()
    server.statuses.length = 0
    await client.ping()
    expect(server.statuses).toEqual([200])
  })

  test('sends three requests and one renewal to a server that refuses every nonce', async () => {
    await using server = await startBoundServer()
    const client = await connect(server.url, await bound())
    let count = 0
    Object.defineProperty(server, 'nonce', { get: () => `never-${(count += 1)}`, set: () => {} })
    server.statuses.length = 0
    await expect(client.ping()).rejects.toMatchObject({ data: { code: 'UNAUTHORIZED' } })
    expect(server.statuses).toEqual([401, 401, 401])
  })
})

test('works with a provider of the SDK that signs assertions', async () => {
  await using server = await startProtectedServer()
  const { privateKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' })
  const authProvider = new PrivateKeyJwtProvider({
    clientId: 'c',
    privateKey: privateKey.export({ type: 'pkcs8', format: 'pem' }).toString(),
    algorithm: 'ES256',
    expectedIssuer: server.origin,
  })
  const client = await connect(server.url, authProvider)
  server.revoke()
  await client.callTool({ name: 'any' })
  const assertions = server.of('/token').map(({ form }) => form.get('client_assertion') ?? '')
  expect(assertions.map(claimsOf)).toMatchObject([
    { iss: 'c', sub: 'c', aud: server.origin },
    { iss: 'c', sub: 'c', aud: server.origin },
  ])
  expect(server.of('/token')[0]?.headers).not.toHaveProperty('authorization')
})

describe('a workload identity', () => {
  test('is read and exchanged for each token', async () => {
    await using server = await startProtectedServer({ scopesSupported: ['read'] })
    let read = 0
    const assertion = async (): Promise<string> => `jwt-${(read += 1)}`
    server.behaviour.token = () => ({ status: 200, body: server.issue() })
    const client = await connect(server.url, clientCredentials({ clientId: 'c', assertion }))
    server.revoke()
    await client.callTool({ name: 'any' })
    const grant = 'urn:ietf:params:oauth:grant-type:jwt-bearer'
    const common = { grant_type: grant, client_id: 'c', scope: 'read', resource: server.url }
    expect(server.of('/token').map(({ form }) => Object.fromEntries(form))).toEqual([
      { ...common, assertion: 'jwt-1' },
      { ...common, assertion: 'jwt-2' },
    ])
  })

  test('requires a secret or an assertion', () => {
    expect(() => clientCredentials({ clientId: 'c' })).toThrow('"clientSecret" is missing')
  })
})

describe('sends a refused token request only once', () => {
  test('for a program', async () => {
    await using server = await startProtectedServer()
    server.behaviour.token = () => ({ status: 400, body: { error: 'invalid_client' } })
    const provider = clientCredentials({ clientId: 'c', clientSecret: 's' })
    await expect(connect(server.url, provider)).rejects.toMatchObject({
      data: {
        code: 'UNAUTHORIZED',
        cause: { code: 'TOKEN_REFUSED', oauthError: 'invalid_client' },
      },
    })
    expect(server.of('/token')).toHaveLength(1)
  })

  test.each([
    [400, 'invalid_grant'],
    [200, 'bad_verification_code'], // some servers report errors with status 200
  ])('for a user with HTTP %i %s', async (status, error) => {
    await using server = await startProtectedServer()
    server.behaviour.token = () => ({ status, body: { error } })
    const redirectUrl = 'http://127.0.0.1:9/callback'
    const provider = createAuthProvider({ redirectUrl, redirect: browse })
    await expect(connect(server.url, provider)).rejects.toMatchObject({
      data: { cause: { code: 'TOKEN_REFUSED', oauthError: error } },
    })
    expect(server.of('/token')).toHaveLength(1)
    expect(server.of('/authorize')).toHaveLength(1)
  })
})

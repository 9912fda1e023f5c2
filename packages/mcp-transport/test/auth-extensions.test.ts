// Features of the OAuth library: tokens bound to a key, signed client assertions, workload identities.
import { createHash, generateKeyPairSync } from 'node:crypto'
import { DpopSession, PrivateKeyJwtProvider } from '@modelcontextprotocol/client'
import { Client } from '@modelcontextprotocol/sdk/client/index.js'
import { afterEach, describe, expect, test } from 'vitest'
import { clientCredentials, createAuthProvider } from '../src/auth/index.ts'
import type { AuthProvider } from '../src/auth/index.ts'
import { StreamableHttpTransport } from '../src/index.ts'
import { browse, startProtectedServer } from './protected-server.ts'
import type { ProtectedServer } from './protected-server.ts'

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

/** Binds the tokens of a server to a key, and requires a nonce for the token endpoint. */
function bindTokens(server: ProtectedServer): {
  /** Claims of the proofs that were accepted, and the statuses of the MCP endpoint. */
  readonly proofs: Record<string, unknown>[]
  readonly statuses: number[]
  /** Nonce that the MCP endpoint requires. @default none */
  nonce: string | undefined
  /** Nonce in the next responses, which is required then. */
  nextNonce: string | undefined
} {
  const { behaviour } = server
  const bound: ReturnType<typeof bindTokens> = {
    proofs: [],
    statuses: [],
    nonce: undefined,
    nextNonce: undefined,
  }
  behaviour.pages['/token'] = ({ headers }) => {
    const claims = claimsOf(String(headers['dpop']))
    const nonce = { 'dpop-nonce': 'as-1' }
    if (claims['nonce'] !== 'as-1') {
      return { status: 400, headers: nonce, body: { error: 'use_dpop_nonce' } }
    }
    bound.proofs.push(claims)
    return { status: 200, headers: nonce, body: { ...server.issue(), token_type: 'DPoP' } }
  }
  behaviour.pages['/mcp'] = ({ headers }) => {
    const hasToken = headers.authorization?.startsWith('DPoP ') === true
    const proof = String(headers['dpop'])
    const claims = hasToken ? claimsOf(proof) : {}
    const { nonce } = bound
    const isAlone = !proof.includes(',') // Node joins two headers
    const isProven = hasToken && isAlone && (nonce === undefined || claims['nonce'] === nonce)
    if (bound.nextNonce !== undefined) bound.nonce = bound.nextNonce
    behaviour.headers = bound.nonce === undefined ? {} : { 'dpop-nonce': bound.nonce }
    bound.statuses.push(isProven ? 200 : 401)
    if (isProven) {
      bound.proofs.push(claims)
      return undefined
    }
    const challenge = `DPoP error="${hasToken ? 'use_dpop_nonce' : 'invalid_token'}"`
    return { status: 401, headers: { ...behaviour.headers, 'www-authenticate': challenge } }
  }
  return bound
}

describe('DPoP', () => {
  const call = (client: Client): Promise<unknown> => client.callTool({ name: 'any' })

  async function connectBound(server: ProtectedServer, listen?: boolean): Promise<Client> {
    const session = await DpopSession.create()
    const secret = { clientId: 'c', clientSecret: 's' }
    return connect(server.url, clientCredentials({ ...secret, dpop: () => session }), listen)
  }

  test('adds an own proof to every request, which a user header cannot replace', async () => {
    await using server = await startProtectedServer()
    const { proofs } = bindTokens(server)
    await call(await connectBound(server, true))
    await expect.poll(() => proofs.map(({ htm }) => htm)).toContain('GET')
    const [token, ...requests] = proofs
    expect(token).toMatchObject({ htm: 'POST', htu: `${server.origin}/token`, nonce: 'as-1' })
    expect(token).not.toHaveProperty('ath')
    const ath = createHash('sha256').update('access-1').digest('base64url')
    for (const claims of requests) expect(claims).toMatchObject({ htu: server.url, ath })
    expect(new Set(proofs.map(({ jti }) => jti)).size).toBe(proofs.length)
  })

  test('sends a required nonce immediately, without another token', async () => {
    await using server = await startProtectedServer()
    const bound = bindTokens(server)
    const client = await connectBound(server)
    bound.nonce = 'rs-1'
    bound.proofs.length = 0
    bound.statuses.length = 0
    await call(client)
    expect(bound.statuses).toEqual([401, 200])
    expect(bound.proofs).toMatchObject([{ nonce: 'rs-1', htu: server.url }])
  })

  test('uses the nonce of any response for the next request', async () => {
    await using server = await startProtectedServer()
    const bound = bindTokens(server)
    const client = await connectBound(server)
    bound.nextNonce = 'rs-2' // in the next response
    await call(client)
    bound.statuses.length = 0
    await call(client)
    expect(bound.statuses).toEqual([200])
  })

  test('sends three requests and one renewal to a server that refuses every nonce', async () => {
    await using server = await startProtectedServer()
    const bound = bindTokens(server)
    const client = await connectBound(server)
    let count = 0
    Object.defineProperty(bound, 'nonce', { get: () => `never-${(count += 1)}`, set: () => {} })
    bound.statuses.length = 0
    bound.proofs.length = 0
    await expect(call(client)).rejects.toMatchObject({ data: { code: 'UNAUTHORIZED' } })
    expect(bound.statuses).toEqual([401, 401, 401])
    expect(bound.proofs).toMatchObject([{ htu: `${server.origin}/token` }])
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
    server.behaviour.pages['/token'] = () => ({ status: 200, body: server.issue() })
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
    server.behaviour.pages['/token'] = () => ({ status: 400, body: { error: 'invalid_client' } })
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
    server.behaviour.pages['/token'] = () => ({ status, body: { error } })
    const redirectUrl = 'http://127.0.0.1:9/callback'
    const provider = createAuthProvider({ redirectUrl, redirect: browse })
    await expect(connect(server.url, provider)).rejects.toMatchObject({
      data: { cause: { code: 'TOKEN_REFUSED', oauthError: error } },
    })
    expect(server.of('/token')).toHaveLength(1)
    expect(server.of('/authorize')).toHaveLength(1)
  })
})

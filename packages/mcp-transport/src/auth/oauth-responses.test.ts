import { describe, expect, test } from 'vitest'
import { authErrorOf, oauthUser, REDIRECT_URL, RESOURCE } from '../../test/oauth-user.ts'
import { startProtectedServer } from '../../test/protected-server.ts'

const { comesBack, finish, leaves, sentTo, signIn, user } = oauthUser()

describe('null and empty text', () => {
  const nothing = [null, '']

  test.each(nothing)('in a token response is absent: %j', async (empty) => {
    await using server = await startProtectedServer({ scopesSupported: ['read'] })
    const optional = { expires_in: empty, scope: empty, id_token: empty, error: empty }
    server.behaviour.pages['/token'] = () => ({
      status: 200,
      body: { ...server.issue(), ...optional },
    })
    const provider = user()
    expect(await signIn(server, provider)).toBe('access-1')
    expect(await provider.tokens()).toMatchObject({ refresh_token: 'refresh-1', scope: 'read' })
    expect(await provider.tokens()).not.toHaveProperty('expires_in')
  })

  test.each(nothing)('as refresh_token keeps the one that is stored: %j', async (empty) => {
    await using server = await startProtectedServer()
    const provider = user()
    await signIn(server, provider)
    server.behaviour.pages['/token'] = () => ({
      status: 200,
      body: { ...server.issue(), refresh_token: empty },
    })
    expect(await signIn(server, provider)).toBe('access-2')
    expect((await provider.tokens())?.refresh_token).toBe('refresh-1')
    expect(sentTo).toHaveLength(1)
  })

  test.each([
    ...nothing.map((empty) => ({
      client_secret: empty,
      client_secret_expires_at: empty,
      client_id_issued_at: empty,
      grant_types: empty,
      response_types: empty,
      token_endpoint_auth_method: empty,
      redirect_uris: empty,
      client_name: empty,
      client_uri: empty,
      logo_uri: empty,
      scope: empty,
      contacts: empty,
      jwks_uri: empty,
      application_type: empty,
    })),
    { redirect_uris: [] },
    { redirect_uris: undefined },
  ])('in a registration response is absent: %j', async (fields) => {
    await using server = await startProtectedServer()
    server.behaviour.pages['/register'] = ({ body }) => ({
      status: 201,
      body: { ...JSON.parse(body), client_id: 'c', ...fields },
    })
    const provider = user()
    expect(await signIn(server, provider)).toBe('access-1')
    expect(await provider.clientInformation()).toMatchObject({
      client_id: 'c',
      redirect_uris: [REDIRECT_URL],
    })
    expect(server.of('/token')[0]?.form.get('client_id')).toBe('c')
  })

  test('in metadata is absent', async () => {
    await using server = await startProtectedServer({
      metadata: {
        scopes_supported: null,
        grant_types_supported: null,
        service_documentation: '',
        token_endpoint_auth_methods_supported: null,
        authorization_response_iss_parameter_supported: null,
      },
    })
    expect(await signIn(server, user())).toBe('access-1')
  })

  test.each([
    ['/register', { client_id: null }, 'INVALID_RESPONSE', 'client_id'],
    ['/register', { client_id: [] }, 'INVALID_RESPONSE', 'client_id'],
    ['/token', { access_token: null, token_type: 'Bearer' }, 'TOKEN_REFUSED', 'no access_token'],
    ['/token', { access_token: 'a-secret', token_type: 'mac' }, 'TOKEN_REFUSED', 'token_type'],
  ])(
    'where %s requires a value is an error that says so: %j',
    async (...[path, body, code, text]) => {
      await using server = await startProtectedServer({ pages: { [path]: { status: 200, body } } })
      const error = await authErrorOf(signIn(server, user()))
      expect(error).toMatchObject({ code, message: expect.stringContaining(text) })
      expect(error.message).not.toContain('secret')
    },
  )
})

describe('another type than the specifications say', () => {
  test('in a token response is read', async () => {
    await using server = await startProtectedServer()
    server.behaviour.pages['/token'] = () => ({
      status: 200,
      body: { ...server.issue(), scope: ['read', 'write'], expires_in: '2026-12-31T00:00:00Z' },
    })
    const provider = user()
    expect(await signIn(server, provider)).toBe('access-1')
    expect(await provider.tokens()).toMatchObject({ scope: 'read write' })
    expect(await provider.tokens()).not.toHaveProperty('expires_in')
  })

  test.each([
    [{ scope: ['read', 'write'] }, { scope: 'read write' }],
    [{ grant_types: 'authorization_code' }, { grant_types: ['authorization_code'] }],
    [
      { response_types: 'code', client_secret: 's', client_secret_expires_at: '0' },
      { response_types: ['code'], client_secret: 's', client_secret_expires_at: 0 },
    ],
    [{ client_id_issued_at: '2026-01-01T00:00:00Z' }, { client_id: 'c' }],
  ])('in a registration response is read: %j', async (fields, expected) => {
    await using server = await startProtectedServer()
    server.behaviour.pages['/register'] = ({ body }) => ({
      status: 201,
      body: { ...JSON.parse(body), client_id: 'c', ...fields },
    })
    const provider = user()
    expect(await signIn(server, provider)).toBe('access-1')
    expect(await provider.clientInformation()).toMatchObject(expected)
  })

  test.each([
    { scopes_supported: 'read write' },
    { grant_types_supported: 'authorization_code' },
    { code_challenge_methods_supported: 'S256' },
    { response_types_supported: undefined },
  ])('in metadata is read: %j', async (metadata) => {
    await using server = await startProtectedServer({ metadata })
    expect(await signIn(server, user())).toBe('access-1')
  })

  test.each([undefined, 'user', 'bot', 'BearerToken', 'Bearer ', 'bearer'])(
    'as the type of a token means a bearer token: %j',
    async (token_type) => {
      await using server = await startProtectedServer()
      server.behaviour.pages['/token'] = () => ({
        status: 200,
        body: { ...server.issue(), ok: true, token_type },
      })
      const provider = user()
      expect(await signIn(server, provider)).toBe('access-1')
      expect(await provider.tokens()).toMatchObject({ token_type: 'Bearer' })
    },
  )

  test('of a member that a token can do without is left out', async () => {
    await using server = await startProtectedServer()
    server.behaviour.pages['/token'] = () => ({
      status: 200,
      body: { ...server.issue(), refresh_token: false, id_token: {}, scope: { read: true } },
    })
    const provider = user()
    expect(await signIn(server, provider)).toBe('access-1')
    expect(await provider.tokens()).not.toHaveProperty('refresh_token')
  })

  test.each([
    [
      { client_id: 42, client_secret: 7 },
      { client_id: '42', client_secret: '7' },
    ],
    [{ client_uri: 'n/a', logo_uri: '-', tos_uri: 'none', policy_uri: '/' }, { client_id: 'c' }],
    [{ grant_types: { 1: 'authorization_code' } }, { grant_types: ['authorization_code'] }],
    [{ software_version: 2, client_name: { en: 'x' } }, { software_version: '2' }],
    [{ token_endpoint_auth_method: ['none'] }, { token_endpoint_auth_method: 'none' }],
  ])('in a registration is read or left out: %j', async (fields, expected) => {
    await using server = await startProtectedServer()
    server.behaviour.pages['/register'] = ({ body }) => ({
      status: 201,
      body: { ...JSON.parse(body), client_id: 'c', ...fields },
    })
    const provider = user()
    expect(await signIn(server, provider)).toBe('access-1')
    expect(await provider.clientInformation()).toMatchObject(expected)
  })

  test.each([
    { service_documentation: 'see the wiki', revocation_endpoint: '/revoke' },
    { introspection_endpoint: 5, jwks_uri: '/keys' },
    { scopes_supported: ['read', null, 5] },
    { scopes_supported: { 1: 'read' }, response_types_supported: [] },
    { token_endpoint_auth_methods_supported: {} },
    { client_id_metadata_document_supported: 'false' },
    { authorization_response_iss_parameter_supported: 'False' },
  ])('in metadata is read or left out: %j', async (metadata) => {
    await using server = await startProtectedServer({ metadata })
    expect(await signIn(server, user())).toBe('access-1')
  })

  test('in resource metadata leads to the authorization server that they name', async () => {
    await using issuer = await startProtectedServer()
    await using server = await startProtectedServer()
    const body = { resource: server.url, authorization_servers: issuer.origin }
    server.behaviour.pages[RESOURCE] = { status: 200, body }
    expect(await signIn(server, user())).toBe('access-1')
    expect(issuer.of('/token')).toHaveLength(1)
    expect(server.of('/token')).toHaveLength(0)
  })
})

describe('says what to do if', () => {
  test.each([
    ['registers no clients', { registration_endpoint: undefined }, 'NOT_REGISTERED', 'client id'],
    [
      'does not offer S256',
      { code_challenge_methods_supported: ['plain'] },
      'INVALID_RESPONSE',
      'S256 (code_challenge_methods_supported), which MCP requires. Report it',
    ],
    [
      'does not offer codes',
      { response_types_supported: ['token'] },
      'INVALID_RESPONSE',
      '(response_types_supported). Report it',
    ],
  ])('the authorization server %s', async (...[, metadata, code, advice]) => {
    await using server = await startProtectedServer({ metadata })
    const error = await authErrorOf(signIn(server, user()))
    expect(error).toMatchObject({ code, message: expect.stringContaining(advice) })
    expect(sentTo).toEqual([])
  })

  test('the metadata of the MCP server are for another resource', async () => {
    await using server = await startProtectedServer()
    const resource = 'https://shop.example/other?key=a-secret'
    const body = { resource, authorization_servers: [server.origin] }
    server.behaviour.pages[RESOURCE] = { status: 200, body }
    const error = await authErrorOf(signIn(server, user()))
    expect(error).toMatchObject({
      code: 'INVALID_RESPONSE',
      message: expect.stringContaining('"https://shop.example/other", and the client uses'),
    })
    expect(error.message).not.toContain('secret')
  })

  test.each([
    ['cannot keep a client', { saveClientInformation: undefined }, 'Pass the id of a client'],
    [
      'has lost the secret of its client',
      {
        clientInformation: () => ({
          client_id: 'c',
          token_endpoint_auth_method: 'client_secret_basic',
        }),
      },
      'Pass its secret',
    ],
  ])('the provider %s', async (_what, members, advice) => {
    await using server = await startProtectedServer()
    const error = await authErrorOf(signIn(server, Object.assign(user(), members)))
    expect(error).toMatchObject({
      code: 'NOT_REGISTERED',
      message: expect.stringContaining(advice),
    })
  })

  test('the provider has lost its client during the sign-in', async () => {
    await using server = await startProtectedServer()
    const provider = leaves()
    await authErrorOf(signIn(server, provider))
    const callback = await comesBack()
    const forgetful = Object.assign(provider, { clientInformation: () => undefined })
    expect(await authErrorOf(finish(server, forgetful, callback))).toMatchObject({
      code: 'NOT_REGISTERED',
      message: expect.stringContaining('start the authorization again'),
    })
  })
})

describe('a token response that is not JSON', () => {
  const FORM = 'application/x-www-form-urlencoded'

  test.each([
    [200, `${FORM}; charset=utf-8`, 'access_token=a-secret&scope=&token_type=bearer', 'a form'],
    [200, FORM.toUpperCase(), 'token_type=bearer&access_token=a-secret', 'a form'],
    [200, 'text/plain', 'access_token=a-secret&token_type=bearer', 'a form'],
    [200, 'text/html', '<html>access_token=a-secret</html>', 'text/html instead of JSON'],
    [200, 'application/json', '{"access_token":"a-secret"', 'malformed JSON'],
    [200, 'application/json', '["a-secret"]', 'malformed JSON'],
    [200, 'a-secret', 'a-secret', 'another type instead of JSON'],
    [502, 'text/html', '<html>a-secret</html>', 'no error code (HTTP 502)'],
  ])('is an error that says so: HTTP %i, %s, %s', async (...[status, type, body, text]) => {
    await using server = await startProtectedServer()
    server.behaviour.pages['/token'] = { status, body, headers: { 'content-type': type } }
    const error = await authErrorOf(signIn(server, user()))
    expect(error).toMatchObject({ code: 'TOKEN_REFUSED', message: expect.stringContaining(text) })
    expect(error.message).not.toContain('secret')
  })

  test('gives its error code', async () => {
    await using server = await startProtectedServer()
    const body = 'error=bad_verification_code&error_description=a-secret'
    server.behaviour.pages['/token'] = { status: 200, body, headers: { 'content-type': FORM } }
    const error = await authErrorOf(signIn(server, user()))
    expect(error).toMatchObject({ code: 'TOKEN_REFUSED', oauthError: 'bad_verification_code' })
    expect(error.message).not.toContain('secret')
  })
})

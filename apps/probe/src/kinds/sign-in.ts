// The authorization server in front of an identity service.
import { bearer, toAnswer, type Answer, type Json } from '../client.ts'
import { probe, type Kind, type Probe } from '../probe.ts'
import {
  ADDRESS,
  authorizeQuery,
  browserOf,
  CALLBACK,
  CHALLENGE,
  clientOf,
  codeFor,
  exchange,
  isOAuthError,
  mayCall,
  request,
  signedIn,
  startIdentityService,
  startWorld,
  token,
  toSignIn,
  VERIFIER,
  type World,
} from '../sign-in-world.ts'
import { honestClients } from '../target.ts'

/** Changes of a good authorization request, each with what must come of it. */
const BAD_REQUESTS: Readonly<
  Record<string, readonly [over: Json, error: string, isRedirected: boolean]>
> = {
  'no challenge': [{ code_challenge: undefined }, 'invalid_request', true],
  'an empty challenge': [{ code_challenge: '' }, 'invalid_request', true],
  'a challenge of 42 characters': [{ code_challenge: 'a'.repeat(42) }, 'invalid_request', true],
  'a challenge in base64': [{ code_challenge: `${'a'.repeat(42)}+` }, 'invalid_request', true],
  'the method plain': [{ code_challenge_method: 'plain' }, 'invalid_request', true],
  'no method': [{ code_challenge_method: undefined }, 'invalid_request', true],
  'the method s256': [{ code_challenge_method: 's256' }, 'invalid_request', true],
  'another resource': [{ resource: 'https://other.example/mcp' }, 'invalid_target', true],
  'a part of the resource': [{ resource: 'http://127.0.0.1' }, 'invalid_target', true],
  'the response type token': [{ response_type: 'token' }, 'unsupported_response_type', true],
  'two response types': [{ response_type: 'code token' }, 'unsupported_response_type', true],
  'an unknown client': [
    { client_id: '00000000-0000-4000-8000-000000000000' },
    'invalid_client',
    false,
  ],
  'a client that is a key of the store': [{ client_id: '*' }, 'invalid_client', false],
  'a client named __proto__': [{ client_id: '__proto__' }, 'invalid_client', false],
  'no client': [{ client_id: undefined }, 'invalid_request', false],
  'no redirect URI': [{ redirect_uri: undefined }, 'invalid_request', false],
  'another port': [{ redirect_uri: 'http://127.0.0.1:5555/callback' }, 'invalid_request', false],
  'another path': [{ redirect_uri: `${CALLBACK}/more` }, 'invalid_request', false],
  'a slash more': [{ redirect_uri: `${CALLBACK}/` }, 'invalid_request', false],
  'a query more': [{ redirect_uri: `${CALLBACK}?a=b` }, 'invalid_request', false],
}

/** Changes of a good exchange of a code. */
const BAD_EXCHANGES: Readonly<Record<string, Json>> = {
  'another verifier': { code_verifier: 'w'.repeat(64) },
  'the challenge as its verifier': { code_verifier: CHALLENGE },
  'no verifier': { code_verifier: '' },
  'a verifier of 42 characters': { code_verifier: 'v'.repeat(42) },
  'two verifiers': { code_verifier: [VERIFIER, VERIFIER] },
  'another redirect URI': { redirect_uri: 'http://127.0.0.1:5555/callback' },
  'no redirect URI': { redirect_uri: '' },
  'another client': { client_id: 'other' },
  'no client': { client_id: '' },
  'another resource': { resource: 'https://other.example/mcp' },
  'two codes': { code: ['x', 'y'] },
  'a code that is made up': { code: 'A'.repeat(43) },
  'a code that is a key of the store': { code: 'oauth:code:*' },
  'the password grant': { grant_type: 'password', username: 'ann', password: 'word' },
  'client credentials': { grant_type: 'client_credentials' },
  'the implicit grant': { grant_type: 'implicit' },
  'an assertion': { grant_type: 'urn:ietf:params:oauth:grant-type:jwt-bearer', assertion: 'a.b.c' },
  'a token exchange': {
    grant_type: 'urn:ietf:params:oauth:grant-type:token-exchange',
    subject_token: 'x',
  },
  'the grant __proto__': { grant_type: '__proto__' },
}

/** The answer is a page for the person, without a code. */
const isRefusedPage = ({ status, headers, text }: Answer): boolean =>
  status === 400 &&
  headers.get('content-type') === 'text/html; charset=utf-8' &&
  headers.get('content-security-policy')?.startsWith("default-src 'none';") === true &&
  headers.get('cache-control') === 'no-store' &&
  !text.includes('made-up') &&
  !headers.has('location')

function codeProbes(world: World): readonly Probe[] {
  return [
    ...Object.entries(BAD_REQUESTS).map(([name, [over, error, isRedirected]]) =>
      probe(
        `an authorization request with ${name}`,
        async () => {
          const answer = await toAnswer(
            await request(world, authorizeQuery(await clientOf(world), over)),
          )
          const location = answer.headers.get('location') ?? ''
          return { status: answer.status, location, text: answer.text }
        },
        ({ status, location, text }) =>
          isRedirected
            ? status === 302 &&
              location.startsWith(`${CALLBACK}?`) &&
              location.includes(`error=${error}`) &&
              !location.includes('code=')
            : status >= 400 && status < 500 && text.includes(error) && location === '',
      ),
    ),
    probe(
      'a parameter that comes twice',
      async () =>
        toAnswer(
          await request(
            world,
            `${authorizeQuery(await clientOf(world))}&redirect_uri=https://evil.example/`,
          ),
        ),
      isOAuthError,
    ),
    ...Object.entries(BAD_EXCHANGES).map(([name, over]) =>
      probe(
        `exchanges a code with ${name}`,
        async () => {
          const clientId = await clientOf(world)
          const code = (await codeFor(world, clientId)).searchParams.get('code') ?? ''
          return token(world, exchange(clientId, code, over))
        },
        isOAuthError,
      ),
    ),
    probe(
      'one attempt to guess a verifier',
      async () => {
        const clientId = await clientOf(world)
        const code = (await codeFor(world, clientId)).searchParams.get('code') ?? ''
        await token(world, exchange(clientId, code, { code_verifier: 'w'.repeat(64) }))
        return token(world, exchange(clientId, code))
      },
      isOAuthError,
    ),
    probe(
      'a code that is used twice',
      async () => {
        const { clientId, code, access, refresh } = await signedIn(world)
        const before = await mayCall(world, access)
        const again = await token(world, exchange(clientId, code))
        const renewed = await token(world, {
          grant_type: 'refresh_token',
          client_id: clientId,
          refresh_token: refresh,
        })
        return { before, again, renewed, after: await mayCall(world, access) }
      },
      ({ before, again, renewed, after }) =>
        before && isOAuthError(again) && isOAuthError(renewed) && !after,
    ),
    probe(
      'a code that ten clients use at once',
      async () => {
        const clientId = await clientOf(world)
        const code = (await codeFor(world, clientId)).searchParams.get('code') ?? ''
        const answers = await Promise.all(
          Array.from({ length: 10 }, () => token(world, exchange(clientId, code))),
        )
        const tokens = answers
          .filter(({ status }) => status === 200)
          .map(({ message }) => String(message['access_token']))
        return {
          tokens: tokens.length,
          valid: (await Promise.all(tokens.map((each) => mayCall(world, each)))).filter(Boolean)
            .length,
        }
      },
      ({ tokens, valid }) => tokens <= 1 && valid === 0,
    ),
    probe(
      'a refresh token that ten windows use at once',
      async () => {
        const { clientId, refresh } = await signedIn(world)
        const form = { grant_type: 'refresh_token', client_id: clientId, refresh_token: refresh }
        const answers = await Promise.all(Array.from({ length: 10 }, () => token(world, form)))
        const renewed = answers.filter(({ status }) => status === 200)
        return new Set(renewed.map(({ message }) => message['refresh_token'])).size
      },
      (kinds) => kinds <= 1,
    ),
    ...Object.entries({
      'a minute later': async (form: Json) => {
        world.time.passedMs += 60_000
        return token(world, form)
      },
      'at once by another client': async (form: Json) =>
        token(world, { ...form, client_id: await clientOf(world) }),
    }).map(([when, again]) =>
      probe(
        `a refresh token that is used again ${when}`,
        async () => {
          const { clientId, access, refresh } = await signedIn(world)
          const form = { grant_type: 'refresh_token', client_id: clientId, refresh_token: refresh }
          const { message } = await token(world, form)
          const stolen = await again(form)
          const fresh = String(message['access_token'])
          return { stolen, valid: [await mayCall(world, access), await mayCall(world, fresh)] }
        },
        ({ stolen, valid }) => isOAuthError(stolen) && !valid.includes(true),
      ),
    ),
    probe(
      'a refresh token of another client',
      async () => {
        const { access, refresh } = await signedIn(world)
        const stolen = await token(world, {
          grant_type: 'refresh_token',
          client_id: await clientOf(world),
          refresh_token: refresh,
        })
        return { stolen, after: await mayCall(world, access) }
      },
      ({ stolen, after }) => isOAuthError(stolen) && !after,
    ),
    ...['refresh', 'code', 'clientId'].map((name) =>
      probe(
        `the ${name} as an access token`,
        async () => {
          const all = await signedIn(world)
          return mayCall(world, String(Reflect.get(all, name)))
        },
        (isAccepted) => !isAccepted,
      ),
    ),
  ]
}

function callbackProbes(world: World, other: World): readonly Probe[] {
  const comeBack = async (query: string, state = ''): Promise<Answer> =>
    toAnswer(await request(world, `/oauth/callback?${query}`, { headers: browserOf(state) }))
  return [
    ...[
      '',
      'state=',
      'state=made-up&code=x',
      'state=__proto__&code=x',
      'state=oauth:state:*&code=x',
      'code=x',
      `state=${'a'.repeat(5000)}&code=x`,
    ].map((query) =>
      probe(
        `a browser comes back with "${query.slice(0, 40)}"`,
        () => comeBack(query),
        isRefusedPage,
      ),
    ),
    probe(
      'a state that is used twice',
      async () => {
        const page = await toSignIn(world, authorizeQuery(await clientOf(world)))
        const state = page.searchParams.get('state') ?? ''
        const first = await comeBack(`code=x&state=${state}`, state)
        if (first.status !== 302) return first
        return comeBack(`code=x&state=${state}`, state)
      },
      isRefusedPage,
    ),
    probe(
      'two states',
      async () => {
        const page = await toSignIn(world, authorizeQuery(await clientOf(world)))
        const state = page.searchParams.get('state') ?? ''
        return comeBack(`code=x&state=${state}&state=${state}`, state)
      },
      isRefusedPage,
    ),
    probe(
      'a sign-in that another browser began',
      async () => {
        const page = await toSignIn(world, authorizeQuery(await clientOf(world)))
        return comeBack(`code=x&state=${page.searchParams.get('state') ?? ''}`)
      },
      isRefusedPage,
    ),
    probe(
      'an answer that no page of the gateway sent',
      async () =>
        toAnswer(
          await request(world, authorizeQuery(await clientOf(world)), {
            method: 'POST',
            headers: {
              origin: 'https://evil.example',
              cookie: `__Host-mcp-consent=${'a'.repeat(43)}`,
            },
            body: new URLSearchParams({ token: 'a'.repeat(43), decision: 'allow' }),
          }),
        ),
      isRefusedPage,
    ),
    probe(
      'the state of the client is not the state of the gateway',
      async () =>
        (await toSignIn(world, authorizeQuery(await clientOf(world)))).searchParams.get('state') ??
        '',
      (state) => state.length >= 43 && !state.includes('state-of-the-client'),
    ),
    probe(
      'a refused sign-in',
      async () => {
        const page = await toSignIn(world, authorizeQuery(await clientOf(world)))
        const state = page.searchParams.get('state') ?? ''
        const answer = await comeBack(
          `error=%3Cscript%3E&error_description=%3Cscript%3E&state=${state}`,
          state,
        )
        return answer.headers.get('location') ?? ''
      },
      (location) =>
        location.startsWith(`${CALLBACK}?error=access_denied`) && !location.includes('script'),
    ),
    probe(
      'a token of another gateway',
      async () => [
        await mayCall(other, (await signedIn(world)).access),
        await mayCall(world, (await signedIn(other)).access),
      ],
      (accepted) => accepted.every((isAccepted) => !isAccepted),
    ),
    ...(
      ['/oauth/register', '/oauth/authorize', '/oauth/callback', '/oauth/token'] as const
    ).flatMap((path) =>
      [
        'PUT',
        'DELETE',
        path === '/oauth/register' || path === '/oauth/token' ? 'GET' : 'PATCH',
      ].map((method) =>
        probe(
          `${method} ${path}`,
          async () => (await request(world, path, { method })).status,
          (status) => status === 405 || status === 404,
        ),
      ),
    ),
    probe(
      'a page of another site registers a client',
      async () =>
        (
          await request(world, '/oauth/register', {
            method: 'POST',
            headers: { origin: 'https://evil.example', 'content-type': 'application/json' },
            body: JSON.stringify({ redirect_uris: [CALLBACK] }),
          })
        ).status,
      (status) => status === 403,
    ),
    probe(
      'a token request in JSON',
      async () =>
        toAnswer(
          await request(world, '/oauth/token', {
            method: 'POST',
            headers: { 'content-type': 'application/json' },
            body: '{}',
          }),
        ),
      isOAuthError,
    ),
    probe(
      'a token request of a megabyte',
      async () =>
        toAnswer(
          await request(world, '/oauth/token', {
            method: 'POST',
            headers: { 'content-type': 'application/x-www-form-urlencoded' },
            body: `code=${'a'.repeat(1_000_000)}`,
          }),
        ),
      isOAuthError,
    ),
  ]
}

/** Floods of one address. Others are served. */
function floodProbes(world: World): readonly Probe[] {
  const flood = async (path: string, init: RequestInit): Promise<readonly Response[]> => {
    const headers = { [ADDRESS]: '203.0.113.66', 'content-type': 'application/json' }
    return Promise.all(
      Array.from({ length: 150 }, () => request(world, path, { ...init, headers })),
    )
  }
  const isFlooded = (answers: readonly Response[]): boolean => {
    const refused = answers.filter(({ status }) => status === 429)
    return (
      refused.length >= 20 && refused.every(({ headers }) => Number(headers.get('retry-after')) > 0)
    )
  }
  return [
    ...Object.entries({
      '/oauth/register': { method: 'POST', body: JSON.stringify({ redirect_uris: [CALLBACK] }) },
      '/oauth/authorize': {},
      '/oauth/callback': {},
      '/oauth/token': { method: 'POST', body: 'x' },
    }).map(([path, init]) =>
      probe(`a flood of ${path} from one address`, () => flood(path, init), isFlooded),
    ),
    probe(
      'others sign in after the floods',
      async () => mayCall(world, (await signedIn(world)).access),
      (isAccepted) => isAccepted,
    ),
  ]
}

export const signIn: Kind = {
  name: 'sign-in',
  rule: 'codes and tokens reach the client that asked for them, once',
  async prepare(stack) {
    const identity = await startIdentityService(stack)
    const world = await startWorld(stack, identity)
    const other = await startWorld(stack, identity)
    const { access } = await signedIn(world)
    return {
      probes: [...codeProbes(world), ...callbackProbes(world, other), ...floodProbes(world)],
      honest: [
        ...honestClients('a gateway with sign-in', world.target, { token: access }),
        probe(
          'a gateway without a token',
          async () =>
            (
              await toAnswer(
                await fetch(world.target.url, { method: 'POST', headers: bearer('x') }),
              )
            ).status,
          (status) => status === 401,
        ),
      ],
    }
  },
}

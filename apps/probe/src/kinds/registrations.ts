// Clients that register with URIs and metadata that no honest client has.
import { jsonOf, toAnswer, type Json } from '../client.ts'
import { probe, type Kind, type Probe } from '../probe.ts'
import {
  authorizeQuery,
  CALLBACK,
  clientOf,
  isOAuthError,
  mayCall,
  register,
  request,
  signedIn,
  startIdentityService,
  startWorld,
  type World,
} from '../sign-in-world.ts'

/** URIs to which no code may be sent. */
const BAD_URIS: readonly string[] = [
  'https://evil.example/callback',
  'http://evil.example/callback',
  'http://127.0.0.1.evil.example/callback',
  'http://127.0.0.1@evil.example/callback',
  'http://evil.example#@127.0.0.1/callback',
  'http://evil.example\\@127.0.0.1/callback',
  'http://localhost.evil.example/callback',
  'javascript:alert(1)',
  'javascript://127.0.0.1/%0aalert(1)',
  'data:text/html,<script>alert(1)</script>',
  'vbscript:x',
  'file:///etc/passwd',
  'blob:http://127.0.0.1/x',
  'about:blank',
  'cursor://anysphere.evil/callback',
  'ftp://127.0.0.1/callback',
  'https://app.example/callback/../../evil',
  'https://app.example/callback#fragment',
  'https://app.example/callback?x=1',
  'https://app.example.evil.example/callback',
  'https://user@app.example/callback',
  'https://APP.example/callback',
  'https://app.example:8443/callback',
  'http://app.example/callback',
  '//evil.example/callback',
  '/callback',
  'http://127.0.0.1:4444/call back',
  'http://127.0.0.1:4444/\u0000',
  'http://127.0.0.1:4444/é',
  'http://user:word@127.0.0.1:4444/callback',
  'http://0.0.0.0:4444/callback',
  'http://169.254.169.254/callback',
  `http://127.0.0.1:4444/${'a'.repeat(3000)}`,
  '',
]

/** Invalid metadata of clients. */
const BAD_CLIENTS: Readonly<Record<string, unknown>> = {
  'no JSON': '{"redirect_uris":',
  'a list': [],
  'no URIs': {},
  'an empty list of URIs': { redirect_uris: [] },
  'a URI that is no list': { redirect_uris: CALLBACK },
  'a URI that is a number': { redirect_uris: [7] },
  'one good and one bad URI': { redirect_uris: [CALLBACK, 'https://evil.example/'] },
  'a thousand URIs': { redirect_uris: Array(1000).fill(CALLBACK) },
  'the implicit grant': { redirect_uris: [CALLBACK], response_types: ['token'] },
  'the password grant': { redirect_uris: [CALLBACK], grant_types: ['password'] },
  'a megabyte': { redirect_uris: [CALLBACK], client_name: 'x'.repeat(1_000_000) },
}

/** Metadata that is accepted, without its dangerous parts. */
const STRANGE_CLIENTS: Readonly<Record<string, Json>> = {
  'a name with a script': { client_name: '<script>alert(1)</script>' },
  'a name with a direction of writing': { client_name: 'Good\u202eli\u202c' },
  'a secret of its own': {
    client_secret: 'secret',
    token_endpoint_auth_method: 'client_secret_post',
  },
  'an id of its own': { client_id: 'admin' },
  'a logo that is a script': {
    logo_uri: 'javascript:alert(1)',
    client_uri: 'javascript:alert(1)',
    policy_uri: 'data:text/html,x',
  },
  'keys at a URL': { jwks_uri: 'http://169.254.169.254/' },
  'the member __proto__': JSON.parse('{"__proto__":{"client_secret":"x"}}') as Json,
}

function registrationProbes(world: World): readonly Probe[] {
  return [
    ...BAD_URIS.map((uri) =>
      probe(
        `registers ${JSON.stringify(uri).slice(0, 50)}`,
        () => register(world, { redirect_uris: [uri] }),
        isOAuthError,
      ),
    ),
    ...BAD_URIS.map((uri) =>
      probe(
        `asks for a code to be sent to ${JSON.stringify(uri).slice(0, 50)}`,
        async () =>
          toAnswer(
            await request(world, authorizeQuery(await clientOf(world), { redirect_uri: uri })),
          ),
        isOAuthError,
      ),
    ),
    ...Object.entries(BAD_CLIENTS).map(([name, body]) =>
      probe(`a client with ${name}`, () => register(world, body), isOAuthError),
    ),
    ...Object.entries(STRANGE_CLIENTS).map(([name, more]) =>
      probe(
        `a client with ${name}`,
        async () => {
          const { status, headers, text } = await register(world, {
            redirect_uris: [CALLBACK],
            ...more,
          })
          return {
            status,
            type: headers.get('content-type') ?? '',
            read: jsonOf(text) as Json,
            text,
          }
        },
        ({ status, type, read, text }) =>
          status === 400 ||
          (status === 201 &&
            type.startsWith('application/json') &&
            !text.includes('javascript:') &&
            !text.includes('"client_secret"') &&
            read['client_id'] !== 'admin' &&
            read['token_endpoint_auth_method'] === 'none'),
      ),
    ),
  ]
}

export const registrations: Kind = {
  name: 'registrations',
  rule: 'codes go to no address but those of this machine and of the operator',
  async prepare(stack) {
    const world = await startWorld(stack, await startIdentityService(stack))
    return {
      probes: registrationProbes(world),
      honest: [
        probe(
          'a client registers and signs in',
          async () => mayCall(world, (await signedIn(world)).access),
          (isAccepted) => isAccepted,
        ),
      ],
    }
  },
}

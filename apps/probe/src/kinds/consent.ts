// The page that asks a person whether an app may sign in, and answers to it that the person has not given.
import { toAnswer, type Answer, type Fields, type Json } from '../client.ts'
import { probe, type Kind, type Probe } from '../probe.ts'
import {
  authorizeQuery,
  browserOf,
  CALLBACK,
  clientOf,
  mayCall,
  register,
  request,
  signedIn,
  startIdentityService,
  startWorld,
  toSignIn,
  type World,
} from '../sign-in-world.ts'
import { honestClients } from '../target.ts'

/** Names of apps that would change the page, or hide something. */
const NAMES: readonly string[] = [
  '<script>alert(1)</script>',
  '"><img src=x onerror=alert(1)>',
  "' onmouseover='alert(1)",
  '</title><script>alert(1)</script>',
  '</dd></dl><form action="https://evil.example"><button>Allow</button></form>',
  '<meta http-equiv="refresh" content="0; url=https://evil.example">',
  '<style>form { display: none }</style>',
  '&lt;script&gt;',
  '${7*7} {{7*7}} <%= 7*7 %>',
  'Good\u202eelpmaxe.live\u202c',
  'Good\u2066\u2069\u200b\u{e0041}',
  'Good\u0000\u001b[31m\u0085',
  'Good\r\nSet-Cookie: a=b',
  'x'.repeat(200),
]

/** Scopes that would change the page. */
const SCOPES: readonly string[] = [
  'agent:<script>:call',
  '<img/src=x/onerror=alert(1)>',
  "'onload=alert(1)",
  'agent:echo:call '.repeat(500),
  'a\\b',
  '"',
  'é',
  '\u202e',
]

const isGuarded = ({ headers }: Answer): boolean => {
  const policy = headers.get('content-security-policy') ?? ''
  return (
    policy.includes("default-src 'none'") &&
    policy.includes("frame-ancestors 'none'") &&
    !policy.includes('unsafe') &&
    headers.get('x-frame-options') === 'DENY' &&
    headers.get('cache-control') === 'no-store' &&
    headers.get('referrer-policy') === 'no-referrer'
  )
}

/** Only the elements of the gateway, and no character that a person cannot see. */
const isClean = ({ text }: Answer): boolean =>
  !/<(?:script|img|meta http-equiv|iframe|svg|a )|onerror=alert\(1\)>|<form (?!method="post">)/i.test(
    text,
  ) &&
  text.match(/<style>/g)?.length === 1 &&
  text.match(/<form/g)?.length === 1 &&
  !/[^\P{C}\n\t]/u.test(text)

const cookieIn = ({ headers }: Answer): string => headers.get('set-cookie')?.split(';', 1)[0] ?? ''
const tokenIn = ({ text }: Answer): string => /name="token" value="([^"]*)"/.exec(text)?.[1] ?? ''

/** An answer to the page, as a browser would send it. */
interface Sent {
  readonly query: string
  readonly headers: Fields
  readonly form: Json
}

/** Changes of a good answer. `other` is a page that the same attacker opened in another browser. */
const FORGED: Readonly<Record<string, (sent: Sent, other: Sent) => Sent>> = {
  'without a cookie': (sent) => ({ ...sent, headers: { ...sent.headers, cookie: '' } }),
  'with the cookie of another browser': (sent, other) => ({ ...sent, headers: other.headers }),
  'with the token of another browser': (sent, other) => ({ ...sent, form: other.form }),
  'without a token': (sent) => ({ ...sent, form: { decision: 'allow' } }),
  'with an empty token': (sent) => ({ ...sent, form: { ...sent.form, token: '' } }),
  'with a token that was changed': (sent) => ({
    ...sent,
    form: { ...sent.form, token: `A${String(sent.form['token']).slice(1)}` },
  }),
  'for another app': (sent, other) => ({ ...sent, query: other.query }),
  'for another state': (sent) => ({
    ...sent,
    query: sent.query.replace('state-of-the-client', 'state-of-the-attacker'),
  }),
  'for another challenge': (sent) => ({
    ...sent,
    query: sent.query.replace(/code_challenge=.{43}/, `code_challenge=${'A'.repeat(43)}`),
  }),
  'for more scopes': (sent) => ({ ...sent, query: `${sent.query}&scope=agent:echo:call` }),
  'from a page of another site': (sent) => ({
    ...sent,
    headers: { ...sent.headers, 'sec-fetch-site': 'cross-site' },
  }),
  'from a page of a neighbour': (sent) => ({
    ...sent,
    headers: { ...sent.headers, 'sec-fetch-site': 'same-site' },
  }),
  'as plain text': (sent) => ({
    ...sent,
    headers: { ...sent.headers, 'content-type': 'text/plain' },
  }),
  'as JSON': (sent) => ({
    ...sent,
    headers: { ...sent.headers, 'content-type': 'application/json' },
  }),
  'of a megabyte': (sent) => ({ ...sent, form: { ...sent.form, more: 'x'.repeat(1_000_000) } }),
}

async function open(world: World, query: string): Promise<Answer> {
  return toAnswer(await request(world, query))
}

/** Opens the page in a new browser, and returns the answer with which a person would allow. */
async function allowing(world: World): Promise<Sent> {
  const query = authorizeQuery(await clientOf(world))
  const page = await open(world, query)
  const headers = { cookie: cookieIn(page), 'sec-fetch-site': 'same-origin' }
  return { query, headers, form: { token: tokenIn(page), decision: 'allow' } }
}

async function send(world: World, { query, headers, form }: Sent): Promise<Answer> {
  const fields = Object.entries(form).map(([name, value]): [string, string] => [
    name,
    String(value),
  ])
  const type = { 'content-type': 'application/x-www-form-urlencoded' }
  const body = String(new URLSearchParams(fields))
  return toAnswer(
    await request(world, query, { method: 'POST', headers: { ...type, ...headers }, body }),
  )
}

/** The browser stays on the page, and the sign-in does not go on. */
const isStopped = ({ status, headers, text }: Answer): boolean =>
  status >= 400 &&
  status < 500 &&
  !headers.has('location') &&
  !text.includes('http-equiv="refresh"')

function pageProbes(world: World): readonly Probe[] {
  return [
    ...NAMES.map((name) =>
      probe(
        `the name ${JSON.stringify(name).slice(0, 50)}`,
        async () => {
          const body = { redirect_uris: [CALLBACK], client_name: name }
          const { message } = await register(world, body)
          return open(world, authorizeQuery(String(message['client_id'])))
        },
        (page) => page.status === 200 && isGuarded(page) && isClean(page),
      ),
    ),
    ...SCOPES.map((scope) =>
      probe(
        `the scope ${JSON.stringify(scope).slice(0, 50)}`,
        async () => open(world, authorizeQuery(await clientOf(world), { scope })),
        (page) =>
          page.status === 302
            ? (page.headers.get('location') ?? '').startsWith(`${CALLBACK}?error=invalid_scope`)
            : page.status === 200 && isGuarded(page) && isClean(page),
      ),
    ),
    probe(
      'a state with HTML',
      async () =>
        open(world, authorizeQuery(await clientOf(world), { state: '"><script>x</script>' })),
      (page) => page.status === 200 && isGuarded(page) && isClean(page),
    ),
    probe(
      'the cookie of the page',
      async () => {
        const page = await open(world, authorizeQuery(await clientOf(world)))
        return page.headers.get('set-cookie') ?? ''
      },
      (cookie) =>
        /httponly/i.test(cookie) &&
        /samesite=(?:lax|strict)/i.test(cookie) &&
        !/domain=/i.test(cookie),
    ),
    probe(
      'an answer in the query',
      async () => open(world, `${authorizeQuery(await clientOf(world))}&decision=allow`),
      (page) => page.status === 200 && !page.text.includes('http-equiv="refresh"') && isClean(page),
    ),
  ]
}

function answerProbes(world: World): readonly Probe[] {
  return [
    ...Object.entries(FORGED).map(([name, forge]) =>
      probe(
        `an answer ${name}`,
        async () => send(world, forge(await allowing(world), await allowing(world))),
        isStopped,
      ),
    ),
    ...['deny', '', 'ALLOW', 'allow ', '__proto__'].map((decision) =>
      probe(
        `the decision "${decision}"`,
        async () => {
          const sent = await allowing(world)
          return send(world, { ...sent, form: { ...sent.form, decision } })
        },
        ({ text }) => text.includes('error=access_denied') && !/\/login|[?&]code=/.test(text),
      ),
    ),
    ...Object.entries({
      'without a cookie': (): Fields => ({}),
      'with the cookie of the page only': (sent: Sent): Fields => sent.headers,
      'with the cookie of another sign-in': (_: Sent, other: Fields): Fields => other,
    }).map(([name, headersOf]) =>
      probe(
        `a browser comes back ${name}`,
        async () => {
          const stateOf = async (): Promise<string> => {
            const page = await toSignIn(world, authorizeQuery(await clientOf(world)))
            return page.searchParams.get('state') ?? ''
          }
          const [state, other] = [await stateOf(), await stateOf()]
          const headers = headersOf(await allowing(world), browserOf(other))
          const path = `/oauth/callback?code=upstream&state=${state}`
          const stolen = await toAnswer(await request(world, path, { headers }))
          const own = await request(world, path, { headers: browserOf(state) })
          return { stolen, own: own.headers.get('location') ?? '' }
        },
        ({ stolen, own }) => isStopped(stolen) && own.includes('code='),
      ),
    ),
  ]
}

export const consent: Kind = {
  name: 'consent',
  rule: 'an app gets access only if a person agreed on the page, in one browser',
  async prepare(stack) {
    const world = await startWorld(stack, await startIdentityService(stack))
    const { access } = await signedIn(world)
    return {
      probes: [...pageProbes(world), ...answerProbes(world)],
      honest: [
        ...honestClients('a gateway with sign-in', world.target, { token: access }),
        probe(
          'a person signs in',
          async () => mayCall(world, (await signedIn(world)).access),
          (isAccepted) => isAccepted,
        ),
      ],
    }
  },
}

// URLs that others choose: files of agents, documents of clients, and cards and agents of A2A.
import { createGuardedFetch, MemoryGatewayStore, type AgentUpdate } from '@x/mcp-gateway'
import { a2aSource } from '@x/mcp-gateway-a2a'
import { oauthFacade } from '@x/mcp-gateway-oauth'
import { startTestServer, type TestServer } from '@x/mcp-testing'
import { modern, textOf, toAnswer } from '../client.ts'
import { probe, type Kind, type Probe } from '../probe.ts'
import { identityAt } from '../sign-in-world.ts'
import { honestClients, startTarget } from '../target.ts'

const SECRET = 'secret of the private network'

/** Hosts that must not be fetched, in all spellings. `[port]` stands for the port of a server that listens on loopback. */
const PRIVATE: readonly string[] = [
  'localhost',
  'LOCALHOST',
  'localhost.',
  'sub.localhost',
  '127.0.0.1',
  '127.0.0.1.',
  '127.1',
  '127.255.255.254',
  '2130706433',
  '0x7f000001',
  '0x7f.0.0.1',
  '0177.0.0.1',
  '017700000001',
  '%31%32%37.0.0.1',
  '１２７.0.0.1',
  '127。0。0。1',
  '0.0.0.0',
  '0',
  '10.0.0.1',
  '172.16.0.1',
  '172.31.255.255',
  '192.168.1.1',
  '169.254.169.254',
  '2852039166',
  '0xa9fea9fe',
  '168.63.129.16',
  '100.64.0.1',
  '100.100.100.200',
  '192.0.0.192',
  '192.0.2.1',
  '198.18.0.1',
  '198.51.100.1',
  '203.0.113.1',
  '224.0.0.1',
  '240.0.0.1',
  '255.255.255.255',
  '[::1]',
  '[::]',
  '[0:0:0:0:0:0:0:1]',
  '[::ffff:127.0.0.1]',
  '[::ffff:7f00:1]',
  '[::ffff:169.254.169.254]',
  '[::127.0.0.1]',
  '[64:ff9b::7f00:1]',
  '[64:ff9b::169.254.169.254]',
  '[64:ff9b:1::7f00:1]',
  '[2002:7f00:1::]',
  '[2001:0:7f00:1::]',
  '[fe80::1]',
  '[fec0::1]',
  '[fc00::1]',
  '[fd00:ec2::254]',
  '[ff02::1]',
  '[2001:db8::1]',
  '[100::1]',
  '[5f00::1]',
]

/** URLs that are refused for another reason than their host. */
const FORMS: readonly string[] = [
  'http://1.1.1.1/',
  'ftp://1.1.1.1/',
  'file:///etc/passwd',
  'file://localhost/etc/passwd',
  'data:text/plain,secret',
  'blob:https://1.1.1.1/x',
  'javascript:1',
  'gopher://127.0.0.1:6379/_FLUSHALL',
  'ws://1.1.1.1/',
  'https://user@127.0.0.1/',
  'https://user:word@1.1.1.1/',
  'https://1.1.1.1@127.0.0.1/',
  'https://1.1.1.1:443@localhost/',
  'https://127.0.0.1\\@1.1.1.1/',
]

/** Names and the addresses that DNS gives for them. */
const NAMES: Readonly<Record<string, readonly string[]>> = {
  'a private address': ['10.0.0.1'],
  loopback: ['127.0.0.1'],
  'loopback of IPv6': ['::1'],
  'a mapped address': ['::ffff:127.0.0.1'],
  'the metadata of a cloud': ['169.254.169.254'],
  'a public and a private address': ['1.1.1.1', '10.0.0.1'],
  'a public address, and loopback of IPv6': ['2606:4700::1111', '::1'],
  'no address': [],
  'an address with a zone': ['fe80::1%eth0'],
  'a name without a protocol': ['localhost'],
  'an IPv4 address in octal': ['0177.0.0.1'],
}

/** Redirects of a trusted server, each to a place that is not trusted. */
const REDIRECTS: readonly string[] = [
  '[other]/',
  'http://localhost:[port]/secret',
  'http://127.1:[otherPort]/',
  'https://127.0.0.1:[port]/secret',
  'http://169.254.169.254/latest/meta-data/',
  'file:///etc/passwd',
  'data:text/plain,secret',
  '//evil.example/',
  'http://user:word@127.0.0.1:[port]/secret',
  '\\\\evil.example',
  'javascript:1',
  'http://',
]

/** Outcome of a fetch: its code, or its text. */
async function outcomeOf(fetching: Promise<Response>): Promise<string> {
  try {
    return await (await fetching).text()
  } catch (error) {
    return error instanceof Error && 'code' in error ? String(error.code) : String(error)
  }
}

async function fetchProbes(
  stack: AsyncDisposableStack,
  trap: TestServer,
): Promise<readonly Probe[]> {
  const { port } = new URL(trap.url)
  const resolve = async (name: string) => {
    const addresses = name.endsWith('localhost') || name === 'localhost.' ? ['127.0.0.1'] : []
    return addresses.map((address) => ({ address, family: 4 as const }))
  }
  const guarded = createGuardedFetch({ resolve, headersTimeoutMs: 20_000 })
  let location = ''
  const redirecting = stack.use(
    await startTestServer((request, response) => {
      if (request.url !== '/start') return void response.end('secret')
      response.writeHead(302, { location }).end()
    }, ''),
  )
  const { port: own, origin } = new URL(redirecting.url)
  const trusting = createGuardedFetch({ trustedOrigins: [origin] })
  const refused = (name: string, attack: () => Promise<string>): Probe =>
    probe(
      name,
      async () => ({ outcome: await attack(), connections: trap.connections }),
      ({ outcome, connections }) =>
        (outcome === 'REFUSED' || outcome === 'UNAVAILABLE') && connections === 0,
    )
  return [
    ...PRIVATE.map((host) =>
      refused(`https://${host}`, () => outcomeOf(guarded(`https://${host}:${port}/`))),
    ),
    ...FORMS.map((url) =>
      probe(
        url,
        async () => {
          try {
            return await outcomeOf(guarded(url))
          } catch (error) {
            return String(error)
          }
        },
        (outcome) => outcome === 'REFUSED' || outcome.startsWith('TypeError'),
      ),
    ),
    ...Object.entries(NAMES).map(([name, addresses]) =>
      refused(`a name that leads to ${name}`, () => {
        const resolved = async () =>
          addresses.map((address) => ({
            address,
            family: address.includes(':') ? (6 as const) : (4 as const),
          }))
        return outcomeOf(
          createGuardedFetch({ resolve: resolved })(`https://rebound.example:${port}/`),
        )
      }),
    ),
    probe(
      'a name whose second address is private is looked up once',
      async () => {
        let count = 0
        const resolved = async () => [
          { address: count++ === 0 ? '203.0.113.9' : '127.0.0.1', family: 4 as const },
        ]
        const outcome = await outcomeOf(
          createGuardedFetch({ resolve: resolved })(`https://rebound.example:${port}/`),
        )
        return { outcome, count, connections: trap.connections }
      },
      ({ outcome, count, connections }) =>
        outcome === 'REFUSED' && count === 1 && connections === 0,
    ),
    ...REDIRECTS.map((to) =>
      refused(`a redirect to ${to}`, () => {
        location = to
          .replace('[other]', trap.url)
          .replace('[otherPort]', port)
          .replace('[port]', own)
        return outcomeOf(trusting(`${origin}/start`))
      }),
    ),
    refused('a redirect without an end', () => {
      location = '/start'
      return outcomeOf(trusting(`${origin}/start`))
    }),
  ]
}

/** Files that an agent gives by URL. The result must not hold them. */
async function fileProbes(
  stack: AsyncDisposableStack,
  trap: TestServer,
): Promise<[readonly Probe[], readonly Probe[]]> {
  const target = await startTarget(stack)
  const { port } = new URL(trap.url)
  target.agents.join('link', function* ({ input }): Iterable<AgentUpdate> {
    const url = input.kind === 'message' ? input.text : ''
    yield { type: 'file', file: { name: 'a.txt', mimeType: 'text/plain', data: { url } } }
    yield { type: 'done', text: 'linked' }
  })
  const urls = [
    trap.url,
    `https://localhost:${port}/`,
    `https://127.0.0.1:${port}/`,
    `https://[::ffff:127.0.0.1]:${port}/`,
    'http://169.254.169.254/latest/meta-data/',
    'file:///etc/passwd',
    '/etc/passwd',
    '',
    'javascript:1',
    'https://user:word@127.0.0.1/',
  ]
  const probes = urls.map((url) =>
    probe(
      `a file of an agent at "${url.replace(port, 'PORT')}"`,
      async () => {
        const { status, text } = await modern(target, 'tools/call', {
          name: 'link',
          arguments: { message: url || 'x' },
        })
        return { status, text, connections: trap.connections }
      },
      ({ status, text, connections }) =>
        status === 200 && !/secret of|root:/.test(text) && connections === 0,
    ),
  )
  return [probes, honestClients('a gateway with files by URL', target)]
}

/** Client ids that are URLs of documents. */
async function documentProbes(
  stack: AsyncDisposableStack,
  trap: TestServer,
): Promise<readonly Probe[]> {
  const store = new MemoryGatewayStore()
  const auth = oauthFacade({
    store,
    resource: 'https://gateway.example/mcp',
    identity: identityAt('http://127.0.0.1:9'),
  })
  const target = await startTarget(stack, { auth, store })
  const { port } = new URL(trap.url)
  const ids = [
    trap.url,
    `https://127.0.0.1:${port}/client.json`,
    `https://localhost:${port}/client.json`,
    `https://2130706433:${port}/client.json`,
    `https://[::1]:${port}/client.json`,
    `https://[::ffff:7f00:1]:${port}/client.json`,
    'https://169.254.169.254/latest/meta-data/',
    'https://user:word@127.0.0.1/client.json',
    'https://',
    `https://${'a'.repeat(3000)}.example/`,
    'HTTPS://127.0.0.1/client.json',
    'file:///etc/passwd',
  ]
  return ids.map((id) =>
    probe(
      `a client whose id is "${id.replace(port, 'PORT').slice(0, 60)}"`,
      async () => {
        const query = new URLSearchParams({
          response_type: 'code',
          client_id: id,
          redirect_uri: 'http://127.0.0.1:1/callback',
          code_challenge: 'A'.repeat(43),
          code_challenge_method: 'S256',
        })
        const url = new URL(`/oauth/authorize?${String(query)}`, target.url)
        const { status, text } = await toAnswer(await fetch(url, { redirect: 'manual' }))
        return { status, text, connections: trap.connections }
      },
      ({ status, text, connections }) =>
        status === 401 && !text.includes('secret') && connections === 0,
    ),
  )
}

/** Agents of A2A whose card, or whose address in it, is on a private network. */
async function cardProbes(
  stack: AsyncDisposableStack,
  trap: TestServer,
): Promise<readonly Probe[]> {
  let address = ''
  const cards = stack.use(
    await startTestServer((_request, response) => {
      const found = { url: address, protocolBinding: 'JSONRPC', protocolVersion: '1.0' }
      const skills = [{ id: 's', name: 'Spy', description: 'Spies', tags: [] }]
      response.writeHead(200, { 'content-type': 'application/json' })
      response.end(
        JSON.stringify({
          name: 'Spy',
          description: 'Spies',
          version: '1',
          supportedInterfaces: [found],
          capabilities: {},
          defaultInputModes: [],
          defaultOutputModes: [],
          skills,
        }),
      )
    }, ''),
  )
  /** @param at address that the card names */
  const attack = (
    name: string,
    { at, card, trustedOrigins = [] }: { at: string; card: string; trustedOrigins?: string[] },
  ): Probe =>
    probe(
      name,
      async () => {
        address = at
        await using own = new AsyncDisposableStack()
        const target = await startTarget(own, {
          sources: [a2aSource({ cards: [card], trustedOrigins })],
        })
        const listed = await modern(target, 'tools/list')
        const called = await modern(target, 'tools/call', {
          name: 'spy_spy',
          arguments: { message: 'x' },
        })
        return { texts: [listed.text, called.text, textOf(called)], connections: trap.connections }
      },
      ({ texts, connections }) =>
        connections === 0 &&
        texts.every((text) => !text.includes('secret') && !/127\.0\.0\.1|169\.254/.test(text)),
    )
  const own = new URL(cards.url).origin
  const port = new URL(trap.url).port
  return [
    attack('a card of an agent on a private network', { card: trap.url, at: trap.url }),
    attack('a card of an agent on a private network, by https', {
      card: `https://localhost:${port}`,
      at: trap.url,
    }),
    ...[
      trap.url,
      `https://127.0.0.1:${port}/`,
      `http://localhost:${port}/`,
      'http://169.254.169.254/',
      'file:///etc/passwd',
    ].map((at) =>
      attack(`a card that names the address ${at.replace(port, 'PORT')}`, {
        card: cards.url,
        trustedOrigins: [own],
        at,
      }),
    ),
  ]
}

export const fetches: Kind = {
  name: 'fetches',
  rule: 'a URL that others choose leads to no private network',
  async prepare(stack) {
    const trap = stack.use(
      await startTestServer((_request, response) => void response.end(SECRET), ''),
    )
    const [files, honest] = await fileProbes(stack, trap)
    return {
      probes: [
        ...(await fetchProbes(stack, trap)),
        ...files,
        ...(await documentProbes(stack, trap)),
        ...(await cardProbes(stack, trap)),
        probe(
          'the server on the private network was there',
          () => fetch(trap.url).then((answer) => answer.text()),
          (text) => text === SECRET,
        ),
      ],
      honest,
    }
  },
}

// Credentials that must not be accepted, and how the refusal tells clients what to do.
import { createHmac, generateKeyPairSync, hash, sign, type KeyObject } from 'node:crypto'
import { bearerAuth, jwtAuth, MemoryGatewayStore } from '@x/mcp-gateway'
import { oauthFacade } from '@x/mcp-gateway-oauth'
import { startTestServer } from '@x/mcp-testing'
import { modernParts } from '../../../../packages/mcp-gateway/test/rpc-requests.ts'
import { bearer, modern, post, Session, textOf, toAnswer, wire, statusIn } from '../client.ts'
import type { Answer, Fields, Json } from '../client.ts'
import { probe, type Kind, type Probe } from '../probe.ts'
import { identityAt } from '../sign-in-world.ts'
import { honestClients, startTarget, TOKENS, type Target } from '../target.ts'

const RESOURCE = 'https://gateway.example/mcp'
const METADATA = 'https://gateway.example/.well-known/oauth-protected-resource/mcp'
const rsa = generateKeyPairSync('rsa', { modulusLength: 2048 })
const foreign = generateKeyPairSync('rsa', { modulusLength: 2048 })
const ec = generateKeyPairSync('ec', { namedCurve: 'P-256' })

const encoded = (value: unknown): string =>
  Buffer.from(typeof value === 'string' ? value : JSON.stringify(value)).toString('base64url')

interface Forgery {
  /** Members of the header, besides `alg` and `kid`. */
  readonly head?: Json
  /** Changes of the claims. `undefined` removes one. */
  readonly claims?: Json
  /** @default the key of the issuer, with RS256 */
  readonly signature?: (input: string) => string
  /** Changes the whole token. */
  readonly change?: (token: string) => string
}

const rs256 = (key: KeyObject) => (input: string) =>
  sign('sha256', Buffer.from(input), key).toString('base64url')
const hs256 = (secret: string | Buffer) => (input: string) =>
  createHmac('sha256', secret).update(input).digest('base64url')

function tokenOf(issuer: string, { head, claims, signature, change }: Forgery = {}): string {
  const now = Math.floor(Date.now() / 1000)
  const all = { iss: issuer, aud: RESOURCE, sub: 'ann', exp: now + 600, scope: '*', ...claims }
  const input = `${encoded({ alg: 'RS256', kid: 'k1', ...head })}.${encoded(all)}`
  const token = `${input}.${(signature ?? rs256(rsa.privateKey))(input)}`
  return change ? change(token) : token
}

const NOW = Math.floor(Date.now() / 1000)
const publicPem = rsa.publicKey.export({ type: 'spki', format: 'pem' })
const publicDer = rsa.publicKey.export({ type: 'spki', format: 'der' })
const publicJwk = rsa.publicKey.export({ format: 'jwk' })
const foreignJwk = foreign.publicKey.export({ format: 'jwk' })
const byForeign = { signature: rs256(foreign.privateKey) }
const none = { signature: () => '' }

/** Tokens that a gateway with `jwtAuth` refuses. @param trap a server that must not be asked for keys */
const forgeriesOf = (trap: string): Readonly<Record<string, Forgery>> => ({
  'that has expired': { claims: { exp: NOW - 60 } },
  'that expired long ago': { claims: { exp: 1 } },
  'whose end is a text': { claims: { exp: `${NOW + 600}` } },
  'whose end is negative': { claims: { exp: -1 } },
  'without an end': { claims: { exp: undefined } },
  'that is not valid yet': { claims: { nbf: NOW + 600 } },
  'whose beginning is a text': { claims: { nbf: 'now' } },
  'of another issuer': { claims: { iss: 'https://evil.example' } },
  'without an issuer': { claims: { iss: undefined } },
  'of a list of issuers': { claims: { iss: ['https://evil.example'] } },
  'of __proto__ as its issuer': { claims: { iss: '__proto__' } },
  'of an issuer with a slash more': { claims: { iss: `${trap}//` } },
  'for another resource': { claims: { aud: 'https://other.example/mcp' } },
  'for a longer resource': { claims: { aud: `${RESOURCE}/admin` } },
  'for the host of the resource': { claims: { aud: 'https://gateway.example' } },
  'for nobody': { claims: { aud: undefined } },
  'for an empty list': { claims: { aud: [] } },
  'for an object': { claims: { aud: { [RESOURCE]: true } } },
  'for everyone': { claims: { aud: '*' } },
  'without a subject': { claims: { sub: undefined } },
  'with an empty subject': { claims: { sub: '' } },
  'with a subject that is a number': { claims: { sub: 7 } },
  'with a subject that is a list': { claims: { sub: ['ann'] } },
  'with a subject that is an object': { claims: { sub: { toString: 'ann' } } },
  'with alg none': { head: { alg: 'none' }, ...none },
  'with alg NONE': { head: { alg: 'NONE' }, ...none },
  'with alg none and a signature': { head: { alg: 'none' } },
  'with an empty alg': { head: { alg: '' }, ...none },
  'with alg null': { head: { alg: null }, ...none },
  'without a signature': none,
  'with HS256 and the public key as its secret (PEM)': {
    head: { alg: 'HS256' },
    signature: hs256(publicPem),
  },
  'with HS256 and the public key as its secret (DER)': {
    head: { alg: 'HS256' },
    signature: hs256(publicDer),
  },
  'with HS256 and the modulus as its secret': {
    head: { alg: 'HS256' },
    signature: hs256(String(publicJwk.n)),
  },
  'with HS256 and an empty secret': { head: { alg: 'HS256' }, signature: hs256('') },
  'with another key': byForeign,
  'with another key that it brings (jwk)': { head: { jwk: foreignJwk }, ...byForeign },
  'with another key at a URL that it names (jku)': { head: { jku: `${trap}/keys` }, ...byForeign },
  'with a certificate at a URL that it names (x5u)': {
    head: { x5u: `${trap}/cert` },
    ...byForeign,
  },
  'with a certificate that it brings (x5c)': { head: { x5c: [encoded('x')] }, ...byForeign },
  'with another key that has no kid': { head: { kid: undefined }, ...byForeign },
  'whose kid is a path': { head: { kid: '../../../../dev/null' }, signature: hs256('') },
  'whose kid is a URL': { head: { kid: `${trap}/keys` }, ...byForeign },
  'whose kid is SQL': { head: { kid: "x' UNION SELECT 'k'--" }, ...byForeign },
  'whose kid is __proto__': { head: { kid: '__proto__' }, ...byForeign },
  'whose kid is an object': { head: { kid: { a: 1 } }, ...byForeign },
  'whose kid has 10,000 characters': { head: { kid: 'k'.repeat(10_000) }, ...byForeign },
  'with an elliptic key for RS256': { signature: rs256(ec.privateKey) },
  'with a critical header that nobody knows': { head: { crit: ['exp'], exp: 1 } },
  'with a critical header that says not to encode (b64)': { head: { crit: ['b64'], b64: false } },
  'that is encrypted': { change: (token) => `${token}.x.y` },
  'whose claims were changed': {
    change: (token) =>
      token.replace(
        /\.[^.]+\./,
        `.${encoded({ iss: trap, aud: RESOURCE, sub: 'root', exp: NOW + 600 })}.`,
      ),
  },
  'whose signature was changed': { change: (token) => token.slice(0, -8) + 'AAAAAAAA' },
  'whose signature was doubled': { change: (token) => token + token.split('.')[2] },
  'whose header is no JSON': {
    change: (token) => `${encoded('{')}.${token.split('.').slice(1).join('.')}`,
  },
  'whose header is a list': {
    change: (token) => `${encoded('[]')}.${token.split('.').slice(1).join('.')}`,
  },
  'whose header is null': {
    change: (token) => `${encoded('null')}.${token.split('.').slice(1).join('.')}`,
  },
  'whose claims are a list': {
    change: (token) => token.replace(/\.[^.]+\./, `.${encoded('[]')}.`),
  },
  'with 10,000 levels in its header': {
    change: (token) => `${encoded('['.repeat(2500))}.${token.split('.').slice(1).join('.')}`,
  },
  'of two parts': { change: (token) => token.split('.').slice(0, 2).join('.') },
  'of empty parts': { change: () => '..' },
})

/** Ways to send a good token that are not the header of RFC 6750. */
const MISPLACED: Readonly<
  Record<string, (url: string, token: string) => readonly [url: string, headers: Fields]>
> = {
  'in the query': (url, token) => [`${url}?access_token=${token}`, {}],
  'in the query, with another name': (url, token) => [`${url}?token=${token}`, {}],
  'in a cookie': (url, token) => [url, { cookie: `access_token=${token}; token=${token}` }],
  'as a password': (url, token) => [url, { authorization: `Basic ${btoa(`x:${token}`)}` }],
  'with another scheme': (url, token) => [url, { authorization: `Token ${token}` }],
  'without a scheme': (url, token) => [url, { authorization: token }],
  'with DPoP': (url, token) => [url, { authorization: `DPoP ${token}` }],
  'behind another token': (url, token) => [url, { authorization: `Bearer x, Bearer ${token}` }],
  'in two parts': (url, token) => [
    url,
    { authorization: `Bearer ${token.slice(0, 9)} ${token.slice(9)}` },
  ],
  'in quotes': (url, token) => [url, { authorization: `Bearer "${token}"` }],
  'in a header of a proxy': (url, token) => [
    url,
    { 'x-forwarded-authorization': `Bearer ${token}`, 'proxy-authorization': `Bearer ${token}` },
  ],
  'as a name that a proxy has checked': (url) => [
    url,
    { 'x-forwarded-user': 'ada', 'x-remote-user': 'ada', 'x-auth-request-user': 'ada' },
  ],
  'with 17,000 characters': (url, token) => [
    url,
    { authorization: `Bearer ${token}${'='.repeat(15_000)}` },
  ],
}

/** Texts instead of a static token. `name` is that of a caller, and `sha256` the hash that the operator stores. */
const GUESSES: Readonly<Record<string, (token: string) => string>> = {
  'the name of the caller': () => 'ada',
  'the hash of the token': (token) => hash('sha256', token),
  'the hash in base64': (token) => hash('sha256', token, 'base64url'),
  'the token in capitals': (token) => token.toUpperCase(),
  'the token without its last character': (token) => token.slice(0, -1),
  'the token twice': (token) => token + token,
  'the token and a sign': (token) => `${token}=`,
  'a token that has expired': () => 'token-of-dora-has-expired',
  'the text __proto__': () => '__proto__',
  undefined: () => 'undefined',
  null: () => 'null',
  '*': () => '~',
}

/**
 * 401, or 400 for a malformed header, with the challenge of RFC 6750, and nothing about the credential.
 *
 * @param metadata URL of the document of RFC 9728, which the challenge names
 */
function isChallenge({ status, headers, text }: Answer, metadata?: string): boolean {
  const challenge = headers.get('www-authenticate') ?? ''
  const named = `resource_metadata="${metadata}"`
  const said = text + challenge.replace(named, '')
  return (
    (status === 401 || status === 400) &&
    challenge.startsWith('Bearer') &&
    (metadata === undefined || challenge.includes(named)) &&
    !/\bann\b|\bada\b|expired|signature|issuer|stack/i.test(said)
  )
}

const list = (url: string, headers: Fields): Promise<Answer> => {
  const parts = modernParts('tools/list')
  return post({ url }, parts.message, { ...parts.headers, ...headers })
}

/** Requests without a credential. Each must be refused before anything else is said. */
const UNSIGNED: readonly (readonly [method: string, path: string])[] = [
  ['GET', '/mcp'],
  ['POST', '/mcp'],
  ['DELETE', '/mcp'],
  ['OPTIONS', '/mcp'],
  ['HEAD', '/mcp'],
  ['GET', '/artifacts/abcdefghijklmnopqrstuvwxyz/a.txt'],
  ['PUT', '/artifacts/a.txt'],
  ['PUT', '/mcp/../artifacts/a.txt'],
  ['GET', '/artifacts/..%2f..%2fmcp'],
]

async function jwtProbes(stack: AsyncDisposableStack): Promise<[readonly Probe[], Target, string]> {
  const asked: string[] = []
  const trap = stack.use(
    await startTestServer(
      (request, response) => void response.end(String(asked.push(request.url ?? ''))),
      '',
    ),
  )
  const keys = { keys: [{ ...publicJwk, kid: 'k1', alg: 'RS256', use: 'sig' }] }
  const issuer = stack.use(
    await startTestServer((request, response) => {
      const isKeys = request.url === '/keys'
      response.writeHead(200, { 'content-type': 'application/json' })
      response.end(
        JSON.stringify(isKeys ? keys : { issuer: issuer.url, jwks_uri: `${issuer.url}/keys` }),
      )
    }, ''),
  )
  const auth = jwtAuth({
    issuers: [{ issuer: issuer.url, audience: RESOURCE }],
    resource: RESOURCE,
  })
  const target = await startTarget(stack, { auth })
  const probes = Object.entries(forgeriesOf(trap.url)).map(([name, forgery]) =>
    probe(
      `a JWT ${name}`,
      async () => ({ answer: await list(target.url, bearer(tokenOf(issuer.url, forgery))), asked }),
      (seen) => isChallenge(seen.answer, METADATA) && seen.asked.length === 0,
    ),
  )
  return [probes, target, tokenOf(issuer.url)]
}

export const tokens: Kind = {
  name: 'tokens',
  rule: 'a credential that is not right in every part is refused with a challenge',
  async prepare(stack) {
    const [jwts, signed, good] = await jwtProbes(stack)
    const target = await startTarget(stack, {
      auth: bearerAuth({
        ada: { token: TOKENS.ada, scopes: ['*'] },
        dora: { token: 'token-of-dora-has-expired', scopes: ['*'], expiresAt: '2020-01-01' },
      }),
    })
    const store = new MemoryGatewayStore()
    const facade = (resource: string) =>
      oauthFacade({ store, resource, identity: identityAt('http://127.0.0.1:9') })
    const facades = await startTarget(stack, { auth: facade(RESOURCE), store })
    return {
      probes: [
        ...jwts,
        ...Object.entries(MISPLACED).map(([name, place]) =>
          probe(
            `a good token ${name}`,
            () => list(...place(target.url, TOKENS.ada)),
            (answer) => isChallenge(answer) || answer.status === 431,
          ),
        ),
        ...Object.entries(GUESSES).map(([name, guess]) =>
          probe(
            `a static token: ${name}`,
            () => list(target.url, bearer(guess(TOKENS.ada))),
            (answer) => isChallenge(answer),
          ),
        ),
        ...UNSIGNED.map(([method, path]) =>
          probe(
            `no credential: ${method} ${path}`,
            () =>
              wire(target.port, {
                line: `${method} ${path} HTTP/1.1`,
                body: method === 'POST' || method === 'PUT' ? '{}' : '',
              }),
            (answer) =>
              statusIn(answer) === 401 &&
              /\r\nwww-authenticate: Bearer/i.test(answer) &&
              !answer.includes('echo'),
          ),
        ),
        ...['', 'x', good, TOKENS.ada].map((token, n) =>
          probe(
            `a foreign token at a gateway with sign-in (${n})`,
            () => list(facades.url, bearer(token)),
            (answer) => isChallenge(answer, METADATA),
          ),
        ),
        probe(
          'the documents of a gateway with JWTs',
          async () =>
            toAnswer(await fetch(new URL('/.well-known/oauth-protected-resource/mcp', signed.url))),
          ({ status, message }) => status === 200 && message['resource'] === RESOURCE,
        ),
        probe(
          'a session of a caller, with another token',
          async () => {
            const session = await Session.open(signed, { token: good })
            const { status } = await session.send({ id: 1, method: 'ping' }, bearer(`${good}x`))
            return [status, (await session.ask('ping')).status]
          },
          (statuses) => statuses.join() === '401,200',
        ),
      ],
      honest: [
        ...honestClients('a gateway with tokens', target, { token: TOKENS.ada }),
        ...honestClients('a gateway with JWTs', signed, { token: good }),
        probe(
          'a gateway with JWTs names the caller',
          async () =>
            textOf(
              await modern(signed, 'tools/call', {
                name: 'echo',
                arguments: { message: 'Hi' },
                token: good,
              }),
            ),
          (text) => text === 'Hi',
        ),
      ],
    }
  },
}

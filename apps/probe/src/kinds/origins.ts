// Web pages that make a browser send requests, and headers that claim another address.
import { bearerAuth } from '@x/mcp-gateway'
import { HANDSHAKE } from '../../../../packages/mcp-gateway/test/rpc-requests.ts'
import { statusIn, wire } from '../client.ts'
import { probe, type Kind, type Probe } from '../probe.ts'
import { honestClients, startTarget, TOKENS, type Target } from '../target.ts'

const HELLO = JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'initialize', params: HANDSHAKE })

/** Names of other hosts, some of which lead to this machine. Other spellings of 127.0.0.1 are not among them: no DNS answers them. */
const HOSTS: readonly string[] = [
  'evil.example',
  'evil.example:8000',
  'localhost.evil.example',
  'evil-localhost',
  'localhost.',
  '127.0.0.1.nip.io',
  '127.0.0.2',
  '0.0.0.0',
  '[::]',
  '[::ffff:127.0.0.1]',
  '[::ffff:7f00:1]',
  '[::1%25lo]',
  '169.254.169.254',
  '',
  ' ',
  'localhost, evil.example',
  'localhost evil.example',
  'localhost\tevil.example',
  'localhost@evil.example',
  'evil.example@localhost',
  'evil.example#localhost',
  'evil.example?localhost',
  'localhost/../evil.example',
  'evil.example\\localhost',
  'localhost:80:80',
  'localhost:99999',
  'localhost:-1',
  'xn--localhost-.example',
  'ⓛocalhost',
  'localhost%00.evil.example',
  'agents.example.evil.example',
]

/** Origins of pages that may not call. */
const ORIGINS: readonly string[] = [
  'null',
  'https://evil.example',
  'http://localhost.evil.example',
  'http://evil-localhost',
  'http://127.0.0.1.nip.io',
  'http://localhost.',
  'http://localhost@evil.example',
  'http://evil.example#http://localhost',
  'http://evil.example/localhost',
  'http://localhost, https://evil.example',
  'http://localhost https://evil.example',
  'file://',
  'data:text/html,x',
  'chrome-extension://abcdefgh',
  'javascript:alert(1)',
  '*',
  '//localhost',
  'http://[::ffff:127.0.0.1]',
  'http://0.0.0.0',
  'https://app.example.evil.example',
  'https://app.example:8443',
  'http://app.example',
  'https://APP.example',
  'https://app.example/',
]

/** Headers with which a proxy would name another host. None of them replaces the `Host`. */
const FORWARDED: readonly string[] = [
  'X-Forwarded-Host: evil.example',
  'X-Forwarded-Server: evil.example',
  'X-Forwarded-Proto: javascript',
  'X-Forwarded-Port: 1',
  'X-Forwarded-Prefix: /evil',
  'X-Original-URL: /artifacts/x',
  'X-Rewrite-URL: /healthz',
  'X-Host: evil.example',
  'Forwarded: host=evil.example;proto=http',
  'X-HTTP-Method-Override: DELETE',
]

/** Targets of the request line that name another host or path. */
const TARGETS: readonly (readonly [target: string, host: string, isServed: boolean])[] = [
  ['http://evil.example/mcp', 'localhost', false],
  ['https://evil.example/mcp', 'localhost', false],
  ['http://localhost/mcp', 'evil.example', true],
  ['http://user:word@localhost/mcp', 'localhost', false],
  ['ftp://localhost/mcp', 'localhost', false],
  ['//evil.example/mcp', 'localhost', false],
  ['/\\evil.example/mcp', 'localhost', false],
  ['/mcp/..;/admin', 'localhost', false],
  ['/mcp;a=b', 'localhost', false],
  ['/MCP', 'localhost', false],
  ['/mcp%00', 'localhost', false],
  ['*', 'localhost', false],
  ['localhost:80', 'localhost', false],
]

const hello = (target: Target, ...headers: readonly string[]): Promise<string> =>
  wire(target.port, { headers, body: HELLO })

/** Lets a page read the answer. */
const hasCors = (answer: string): boolean => /\r\naccess-control-allow-origin:/i.test(answer)

function refusalProbes(name: string, target: Target, own: string): readonly Probe[] {
  const isRefused = (answer: string): boolean =>
    [400, 403].includes(statusIn(answer)) && !hasCors(answer) && !answer.includes('mcp-session-id')
  return [
    ...HOSTS.map((host) =>
      probe(
        `${name}: Host ${JSON.stringify(host)}`,
        () => hello(target, `Host: ${Buffer.from(host).toString('latin1')}`),
        isRefused,
      ),
    ),
    ...ORIGINS.map((origin) =>
      probe(
        `${name}: Origin ${origin}`,
        () => hello(target, `Host: ${own}`, `Origin: ${origin}`),
        isRefused,
      ),
    ),
    ...ORIGINS.slice(0, 8).map((origin) =>
      probe(
        `${name}: a question of the browser for ${origin}`,
        () =>
          wire(target.port, {
            line: 'OPTIONS /mcp HTTP/1.1',
            headers: [
              `Host: ${own}`,
              `Origin: ${origin}`,
              'Access-Control-Request-Method: POST',
              'Access-Control-Request-Headers: authorization',
            ],
          }),
        isRefused,
      ),
    ),
    ...FORWARDED.map((header) =>
      probe(
        `${name}: ${header}`,
        async () => [
          await hello(target, `Host: ${own}`, header),
          await hello(target, 'Host: evil.example', header.replace('evil.example', own)),
        ],
        ([served = '', refused = '']) =>
          statusIn(served) === 200 && !/evil|javascript/.test(served) && isRefused(refused),
      ),
    ),
  ]
}

export const origins: Kind = {
  name: 'origins',
  rule: 'a page of another site reaches nothing, by whatever name',
  async prepare(stack) {
    const local = await startTarget(stack)
    const named = await startTarget(stack, {
      auth: bearerAuth({ ada: { token: TOKENS.ada, scopes: ['*'] } }),
      http: { publicUrl: 'https://agents.example', allowedOrigins: ['https://app.example'] },
    })
    return {
      probes: [
        ...refusalProbes('a local gateway', local, 'localhost'),
        ...HOSTS.map((host) =>
          probe(
            `a public gateway: Host ${JSON.stringify(host)}`,
            () =>
              wire(named.port, {
                headers: [
                  `Host: ${Buffer.from(host).toString('latin1')}`,
                  `Authorization: Bearer ${TOKENS.ada}`,
                ],
                body: HELLO,
              }),
            (answer) => [400, 403].includes(statusIn(answer)),
          ),
        ),
        ...ORIGINS.map((origin) =>
          probe(
            `a public gateway: Origin ${origin}`,
            () =>
              wire(named.port, {
                headers: [
                  'Host: agents.example',
                  `Origin: ${origin}`,
                  `Authorization: Bearer ${TOKENS.ada}`,
                ],
                body: HELLO,
              }),
            (answer) => statusIn(answer) === 403 && !hasCors(answer),
          ),
        ),
        ...TARGETS.map(([target, host, isServed]) =>
          probe(
            `the target ${target}`,
            () =>
              wire(local.port, {
                line: `POST ${target} HTTP/1.1`,
                headers: [`Host: ${host}`],
                body: HELLO,
              }),
            (answer) =>
              isServed
                ? statusIn(answer) === 200
                : statusIn(answer) >= 400 && statusIn(answer) < 500,
          ),
        ),
        probe(
          'an allowed page may read the answer, with no cookie',
          () =>
            wire(named.port, {
              headers: [
                'Host: agents.example',
                'Origin: https://app.example',
                `Authorization: Bearer ${TOKENS.ada}`,
              ],
              body: HELLO,
            }),
          (answer) =>
            statusIn(answer) === 200 &&
            answer.includes('access-control-allow-origin: https://app.example') &&
            !/allow-credentials|allow-origin: \*/i.test(answer),
        ),
        probe(
          'two Host headers',
          () => hello(local, 'Host: localhost', 'Host: evil.example'),
          (answer) => statusIn(answer) >= 400 && statusIn(answer) < 500,
        ),
        probe(
          'no Host header',
          () => hello(local),
          (answer) => statusIn(answer) === 400,
        ),
        probe(
          'the documents of a gateway name its public URL, whatever the Host says',
          async () =>
            wire(named.port, {
              line: 'GET /mcp HTTP/1.1',
              headers: ['Host: localhost', 'X-Forwarded-Host: evil.example'],
            }),
          (answer) => statusIn(answer) === 401 && !answer.includes('evil'),
        ),
      ],
      honest: [
        ...honestClients('a local gateway', local),
        ...honestClients('a public gateway', named, { token: TOKENS.ada }),
      ],
    }
  },
}

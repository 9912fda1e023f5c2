// Bodies, heads and methods that no honest client sends.
import {
  HANDSHAKE,
  MODERN_META,
  modernParts,
} from '../../../../packages/mcp-gateway/test/rpc-requests.ts'
import { bearer, modern, post, Session, statusIn, textOf, wire } from '../client.ts'
import type { Answer, Fields, Json, Raw } from '../client.ts'
import { probe, type Kind, type Probe } from '../probe.ts'
import { honestClients, knownCallers, startTarget, TOKENS, type Target } from '../target.ts'

const PING = '{"jsonrpc":"2.0","id":1,"method":"ping"}'
const rpc = (params: string): string =>
  `{"jsonrpc":"2.0","id":1,"method":"initialize","params":${params}}`
const nested = (open: string, close: string, levels: number): string =>
  `${open.repeat(levels)}1${close.repeat(levels)}`
const quoted = (text: string): string => JSON.stringify(text)
const shake = JSON.stringify(HANDSHAKE)

/** Bodies that are no request. Each gets a 4xx that says why. */
const BAD_BODIES: Readonly<Record<string, string>> = {
  'an empty body': '',
  'a body of white space': ' \n\t ',
  'plain text': 'initialize',
  'a number': '42',
  'a text': '"initialize"',
  null: 'null',
  true: 'true',
  'an empty list': '[]',
  'an empty object': '{}',
  'a batch': `[${PING},${PING}]`,
  'a batch in a batch': `[[${PING}]]`,
  'half of a message': PING.slice(0, 20),
  'a message and a comma': `${PING},`,
  'two messages': `${PING}${PING}`,
  'two lines': `${PING}\n${PING}`,
  'single quotes': PING.replaceAll('"', "'"),
  'a comment': `/* */${PING}`,
  'a byte order mark': `\uFEFF${PING}`,
  NaN: rpc('NaN'),
  Infinity: rpc('-Infinity'),
  'a hexadecimal number': rpc('0x10'),
  'a number that begins with 0': rpc('{"a":01}'),
  'a number without an end': rpc('{"a":1e}'),
  undefined: rpc('undefined'),
  'a line break in a text': rpc('{"a":"\n"}'),
  'a wrong escape': rpc('{"a":"\\x41"}'),
  'a cut escape': rpc('{"a":"\\u12"}'),
  'a NUL behind the message': `${PING}\u0000`,
  'a form': 'method=initialize&id=1',
  XML: '<?xml version="1.0"?><methodCall/>',
  'no method': '{"jsonrpc":"2.0","id":1}',
  'a method that is a number': '{"jsonrpc":"2.0","id":1,"method":7}',
  'a method that is a list': '{"jsonrpc":"2.0","id":1,"method":["initialize"]}',
  'JSON-RPC 1.0': '{"id":1,"method":"initialize","params":{}}',
  'a wrong version': rpc(shake).replace('"2.0"', '2.0'),
  'an id that is an object': rpc(shake).replace('"id":1', '"id":{}'),
  'an id that is null': rpc(shake).replace('"id":1', '"id":null'),
  'an id with a fraction': rpc(shake).replace('"id":1', '"id":1.5'),
  'a huge id': rpc(shake).replace('"id":1', '"id":1e400'),
  'an id that is a list': rpc(shake).replace('"id":1', '"id":[1]'),
  'params that are a list': rpc('[]'),
  'params that are a text': rpc('"x"'),
  'params that are null': rpc('null'),
  'no params': '{"jsonrpc":"2.0","id":1,"method":"initialize"}',
  'a key twice, the last one wrong': `{"jsonrpc":"2.0","id":1,"method":"initialize","params":${shake},"params":7}`,
  'a method twice': `{"jsonrpc":"2.0","id":1,"method":"initialize","method":"tools/call","params":${shake}}`,
  'an unknown member': `{"jsonrpc":"2.0","id":1,"method":"initialize","params":${shake},"extra":1}`,
  'both a request and a response': `{"jsonrpc":"2.0","id":1,"method":"initialize","result":{}}`,
  'a protocol version that is a number': rpc(shake.replace(quoted(HANDSHAKE.protocolVersion), '1')),
  'capabilities that are a list': rpc(shake.replace('"capabilities":{}', '"capabilities":[1]')),
  'no client info': rpc('{"protocolVersion":"2025-11-25","capabilities":{}}'),
  'a handshake of 40,000 characters': rpc(
    shake.replace(
      '"capabilities":{}',
      `"capabilities":{"experimental":{"a":{"b":${quoted('x'.repeat(40_000))}}}}`,
    ),
  ),
  '200 levels of lists': rpc(nested('[', ']', 200)),
  '200 levels of objects': rpc(nested('{"a":', '}', 200)),
  '100,000 levels of lists': rpc(nested('[', ']', 100_000)),
  '100,000 levels of both': rpc(nested('[{"a":', '}]', 50_000)),
  '100,000 open brackets': '['.repeat(100_000),
  '100,000 closed brackets': ']'.repeat(100_000),
  '300,000 values': rpc(`[${'1,'.repeat(300_000)}1]`),
  '150,000 empty objects': rpc(`[${'{},'.repeat(150_000)}{}]`),
  '120,000 members': rpc(`{${Array.from({ length: 120_000 }, (_, n) => `"${n}":0`).join(',')}}`),
  'a text without an end of 900,000 characters': rpc(`"${'x'.repeat(900_000)}`),
  '450,000 escapes': rpc(`"${'\\\\'.repeat(450_000)}`),
  'more than 1 MiB': rpc(quoted('x'.repeat(1_100_000))),
  'a number of 900,000 digits': rpc('9'.repeat(900_000)),
}

/** Params of a good request with members that reach into objects. They are served, and change nothing. */
const POLLUTING: Readonly<Record<string, string>> = {
  '__proto__ of the message': `{"jsonrpc":"2.0","id":1,"method":"initialize","params":${shake},"__proto__":{"polluted":1}}`,
  '__proto__ of the params': rpc(shake.replace('{', '{"__proto__":{"polluted":1},')),
  'constructor.prototype': rpc(shake.replace('{', '{"constructor":{"prototype":{"polluted":1}},')),
  '__proto__ of capabilities': rpc(
    shake.replace('"capabilities":{}', '"capabilities":{"__proto__":{"polluted":1}}'),
  ),
}

/** Arguments of the tool `echo`, none of which may run it or fail as an error of the gateway. */
const BAD_ARGUMENTS: Readonly<Record<string, unknown>> = {
  'no message': {},
  'a message that is an object': { message: { toString: 'x' } },
  'a message that is a list': { message: ['a'.repeat(10)] },
  'a blank message': { message: ' \t\n ' },
  'an empty message': { message: '' },
  'a list': ['x'],
  'a number': 7,
  'null for the message': { message: null },
  'own property hasOwnProperty': { hasOwnProperty: 1 },
  '300,000 characters': { message: 'x'.repeat(300_000) },
  'files that are no list': { message: 'bad files', files: 'artifact://a/b' },
  'files that are numbers': { message: 'bad files', files: [1, 2] },
  'a file of the disk': { message: 'bad files', files: ['file:///etc/passwd'] },
  'a file of the web': { message: 'bad files', files: ['http://169.254.169.254/latest'] },
  'a path instead of a file': { message: 'bad files', files: ['artifact://../../etc/passwd'] },
  'ten thousand files': { message: 'bad files', files: Array(10_000).fill('artifact://a/b') },
}

/** Names of tools that do not exist. */
const BAD_NAMES: Readonly<Record<string, unknown>> = {
  'no name': undefined,
  'a name that is a number': 7,
  'a name that is a list': ['echo'],
  'the name __proto__': '__proto__',
  constructor: 'constructor',
  toString: 'toString',
  'a name with a NUL': 'echo\u0000',
  'a name with a space': ' echo',
  'a name in capitals': 'ECHO',
  'a path': '../echo',
  '100,000 characters': 'e'.repeat(100_000),
}

/** Methods of JSON-RPC that do not exist, or cannot be called like this. */
const BAD_METHODS: readonly (readonly [method: string, params: Json])[] = [
  ['', {}],
  ['__proto__', {}],
  ['constructor', {}],
  ['tools/list/', {}],
  ['TOOLS/LIST', {}],
  ['rpc.discover', {}],
  ['tools/call\u0000', { name: 'echo' }],
  ['x'.repeat(50_000), {}],
  ['tools/list', { cursor: 7 }],
  ['tools/list', { cursor: 'not-a-cursor' }],
  ['tools/list', { cursor: 'x'.repeat(100_000) }],
  ['prompts/get', { name: '__proto__' }],
  ['prompts/get', {}],
  ['resources/read', {}],
  ['resources/read', { uri: 'file:///etc/passwd' }],
  ['resources/read', { uri: 'artifact://' }],
  ['resources/read', { uri: `artifact://${'a'.repeat(26)}/../../etc/passwd` }],
  ['resources/read', { uri: `artifact://${'a'.repeat(26)}/%2e%2e%2fetc` }],
  ['resources/read', { uri: `artifact://${'a'.repeat(26)}/${'%41'.repeat(400)}` }],
  ['resources/subscribe', { uri: {} }],
  ['completion/complete', {}],
  ['completion/complete', { ref: [], argument: 7 }],
  ['completion/complete', { ref: { type: '__proto__' }, argument: { name: 'a', value: 1 } }],
  ['logging/setLevel', { level: '__proto__' }],
  ['tasks/get', { taskId: '../../x' }],
]

/** Headers of a call of 2026-07-28 that contradict its body, or cannot be read. */
const BAD_HEADERS: Readonly<Record<string, Fields>> = {
  'a version that does not exist': { 'mcp-protocol-version': '2099-01-01' },
  'a version that is a path': { 'mcp-protocol-version': '../../etc' },
  'an older version': { 'mcp-protocol-version': '2025-06-18' },
  'a version of 8,000 characters': { 'mcp-protocol-version': '2'.repeat(8000) },
  'two versions': { 'mcp-protocol-version': '2026-07-28, 2025-11-25' },
  'another method': { 'mcp-method': 'tools/list' },
  'an empty method': { 'mcp-method': '' },
  'the method in capitals': { 'mcp-method': 'TOOLS/CALL' },
  'another tool': { 'mcp-name': 'pay' },
  'an empty name': { 'mcp-name': '' },
  'another tool in base64': { 'mcp-name': `=?base64?${btoa('pay')}?=` },
  'a name in broken base64': { 'mcp-name': '=?base64?%%%?=' },
  'a name with a NUL in base64': { 'mcp-name': `=?base64?${btoa('echo\0')}?=` },
}

/** Envelopes of a call of 2026-07-28 that are no envelope. */
const BAD_ENVELOPES: Readonly<Record<string, unknown>> = {
  'capabilities that are a list': { 'io.modelcontextprotocol/clientCapabilities': [1] },
  'capabilities that are a text': { 'io.modelcontextprotocol/clientCapabilities': 'all' },
  'client info that is a number': { 'io.modelcontextprotocol/clientInfo': 7 },
  'another version than the header': { 'io.modelcontextprotocol/protocolVersion': '2025-11-25' },
  'a version that is a list': { 'io.modelcontextprotocol/protocolVersion': ['2026-07-28'] },
  'a progress token that is an object': { progressToken: {} },
  'a log level that is an object': { 'io.modelcontextprotocol/logLevel': { a: 1 } },
}

/** Heads to the letter. */
const BAD_HEADS: Readonly<Record<string, Raw | string>> = {
  'no content type': { headers: ['Host: localhost', 'Content-Type:'], body: PING },
  'text/plain': { headers: ['Host: localhost', 'Content-Type: text/plain'], body: PING },
  'a form': {
    headers: ['Host: localhost', 'Content-Type: application/x-www-form-urlencoded'],
    body: PING,
  },
  'a multipart form': {
    headers: ['Host: localhost', 'Content-Type: multipart/form-data; boundary=x'],
    body: PING,
  },
  'a type that only contains JSON': {
    headers: ['Host: localhost', 'Content-Type: text/plain; a=application/json'],
    body: PING,
  },
  'a list of types': {
    headers: ['Host: localhost', 'Content-Type: application/json, text/plain'],
    body: PING,
  },
  'gzip that is none': {
    headers: ['Host: localhost', 'Content-Encoding: gzip'],
    body: '\u001f\u008b',
  },
  'UTF-16': {
    headers: ['Host: localhost'],
    body: PING.replaceAll(/./g, '$&\u0000'),
  },
  'a length that is too small': { body: PING, length: 'Content-Length: 10' },
  'a negative length': { body: PING, length: 'Content-Length: -1' },
  'a length with a sign': { body: PING, length: 'Content-Length: +40' },
  'a hexadecimal length': { body: PING, length: 'Content-Length: 0x28' },
  'a huge length': { body: PING, length: 'Content-Length: 99999999999999999999' },
  'a length above the limit': { body: PING, length: 'Content-Length: 104857600' },
  'two lengths': { body: PING, length: 'Content-Length: 40\r\nContent-Length: 41' },
  'a length beside chunks': {
    body: '0\r\n\r\n',
    length: 'Content-Length: 5\r\nTransfer-Encoding: chunked',
  },
  'chunks behind another encoding': {
    body: '0\r\n\r\n',
    length: 'Transfer-Encoding: gzip, chunked',
  },
  'an unknown encoding': { body: PING, length: 'Transfer-Encoding: xchunked' },
  'chunks with a wrong size': {
    body: `zz\r\n${PING}\r\n0\r\n\r\n`,
    length: 'Transfer-Encoding: chunked',
  },
  'chunks with a huge size': {
    body: 'fffffffffffffffff\r\nx',
    length: 'Transfer-Encoding: chunked',
  },
  'chunks with a negative size': {
    body: '-1\r\nx\r\n0\r\n\r\n',
    length: 'Transfer-Encoding: chunked',
  },
  'a chunk that is longer than it says': {
    body: `1\r\n${PING}\r\n0\r\n\r\n`,
    length: 'Transfer-Encoding: chunked',
  },
  'a chunk with an extension of 100,000 characters': {
    body: `1;${'a'.repeat(100_000)}\r\n{\r\n0\r\n\r\n`,
    length: 'Transfer-Encoding: chunked',
  },
  'no accepted type': { headers: ['Host: localhost', 'Accept:'], body: rpc(shake) },
  'an accepted type that is an image': {
    headers: ['Host: localhost', 'Accept: image/png'],
    body: rpc(shake),
  },
  'a header without a colon': { headers: ['Host: localhost', 'Nonsense'], body: PING },
  'a header with a space before the colon': { headers: ['Host: localhost', 'X-A : b'], body: PING },
  'a header over two lines': {
    headers: ['Host: localhost', 'X-A: b\r\n c'],
    body: PING,
    length: 'Content-Length: 1',
  },
  'a header with a bare line feed': {
    headers: ['Host: localhost', 'X-A: b\nContent-Length: 0'],
    body: PING,
  },
  'a header with a NUL': { headers: ['Host: localhost', 'X-A: b\u0000c'], body: PING },
  'a header of 100,000 characters': {
    headers: ['Host: localhost', `X-A: ${'b'.repeat(100_000)}`],
    body: PING,
  },
  '2,000 headers': {
    headers: ['Host: localhost', ...Array.from({ length: 2000 }, (_, n) => `X${n}: 1`)],
    body: PING,
  },
  'a version of HTTP that does not exist': { line: 'POST /mcp HTTP/9.9', body: PING },
  'a line without a version': 'POST /mcp\r\n\r\n',
  'a line of HTTP/2': 'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n',
  'the handshake of TLS': '\u0016\u0003\u0001\u0002\u0000\u0001\u0000',
  'binary data': '\u0000\u0001\u0002\u0003\r\n\r\n',
  'a path with a NUL': { line: 'POST /mcp\u0000 HTTP/1.1', body: PING },
  'a path of 100,000 characters': { line: `POST /mcp?${'a'.repeat(100_000)} HTTP/1.1`, body: PING },
  'another path': { line: 'POST /mcp/admin HTTP/1.1', body: PING },
  'a path above the root': { line: 'POST /../../etc/passwd HTTP/1.1', body: PING },
  'an encoded path': { line: 'POST /%6dcp/%2e%2e%2f HTTP/1.1', body: PING },
  'a broken escape in the path': { line: 'PUT /artifacts/%zz HTTP/1.1', body: 'x' },
  'an artifact without a name': { line: 'PUT /artifacts/ HTTP/1.1', body: 'x' },
  CONNECT: { line: 'CONNECT evil.example:443 HTTP/1.1' },
  TRACE: { line: 'TRACE /mcp HTTP/1.1' },
  PATCH: { line: 'PATCH /mcp HTTP/1.1', body: PING },
  'PUT to the endpoint': { line: 'PUT /mcp HTTP/1.1', body: PING },
  'DELETE without a session': { line: 'DELETE /mcp HTTP/1.1' },
  'GET without a session': { line: 'GET /mcp HTTP/1.1' },
  'a method in small letters': { line: 'post /mcp HTTP/1.1', body: PING },
  'an unknown method': { line: 'BREW /mcp HTTP/1.1', body: PING },
  'an upgrade to a web socket': {
    line: 'GET /mcp HTTP/1.1',
    headers: [
      'Host: localhost',
      'Upgrade: websocket',
      'Connection: Upgrade',
      'Sec-WebSocket-Key: eA==',
    ],
  },
  'POST to the health check': { line: 'POST /healthz HTTP/1.1', body: PING },
}

const is4xx = (status: number): boolean => status >= 400 && status < 500

/** A 4xx with a sentence. */
function isRefusal({ status, text }: Pick<Answer, 'status' | 'text'>): boolean {
  return is4xx(status) && /[a-z]{3}.* [a-z]{2}/i.test(text)
}

/** An error of the protocol, or a result with `isError`, which says why. */
function isComplaint({ status, message }: Answer): boolean {
  const { error, result } = message as { error?: Json; result?: Json }
  if (result) return status === 200 && result['isError'] === true
  return status < 500 && typeof error?.['message'] === 'string' && error['code'] !== -32_603
}

/** Sends a call whose headers or envelope are changed. */
function changed(target: Target, { headers, meta }: { headers?: Fields; meta?: unknown }) {
  const params = { name: 'echo', arguments: { message: 'changed' } }
  const parts = modernParts('tools/call', params)
  const whole = { ...MODERN_META, ...(meta as object | undefined) }
  return post(
    target,
    { ...parts.message, params: { ...params, _meta: whole } },
    { ...parts.headers, ...headers },
  )
}

const isComplaintOrRefusal = (answer: Answer): boolean => isRefusal(answer) || isComplaint(answer)

const SLOW = 100

/** Connections that never send the rest. Resolves when the gateway has ended all of them. */
function slowConnections({ port }: Target): Promise<readonly number[]> {
  const head = 'POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n'
  const beginnings = [
    'POST /mcp HT',
    head,
    `${head}Content-Length: 1000\r\n\r\n{"jsonrpc":`,
    `${head}Transfer-Encoding: chunked\r\n\r\n5\r\n{"jso`,
  ]
  const all = Array.from({ length: SLOW }, (_, n) => wire(port, beginnings[n % 4] ?? ''))
  return Promise.all(all.map(async (answer) => statusIn(await answer)))
}

function probesOf(target: Target, guarded: Target): readonly Probe[] {
  const call = (params: Json) => modern(target, 'tools/call', { name: 'echo', ...params })
  return [
    ...Object.entries(BAD_BODIES).map(([name, body]) =>
      probe(`body: ${name}`, () => post(target, body), isRefusal),
    ),
    ...Object.entries(BAD_BODIES)
      .filter((entry) => entry[1].length < 1000)
      .map(([name, body]) =>
        probe(
          `body in a session: ${name}`,
          async () => {
            const session = await Session.open(target)
            const answer = await post(target, body, session.headers)
            const ping = await session.ask('ping')
            return { answer, ping: ping.status }
          },
          ({ answer, ping }) => isComplaintOrRefusal(answer) && ping === 200,
        ),
      ),
    ...Object.entries(POLLUTING).map(([name, body]) =>
      probe(
        `prototype: ${name}`,
        async () => ({
          status: (await post(target, body)).status,
          polluted: Reflect.get({}, 'polluted') as unknown,
        }),
        ({ polluted, status }) => status < 500 && polluted === undefined,
      ),
    ),
    ...Object.entries(BAD_ARGUMENTS).map(([name, args]) =>
      probe(`arguments: ${name}`, () => call({ arguments: args }), isComplaint),
    ),
    ...Object.entries(BAD_NAMES).map(([name, tool]) =>
      probe(
        `tool: ${name}`,
        async () =>
          (await Session.open(target)).ask('tools/call', {
            name: tool,
            arguments: { message: 'x' },
          }),
        isComplaint,
      ),
    ),
    ...BAD_METHODS.map(([method, params]) =>
      probe(
        `method: ${JSON.stringify(method.slice(0, 30))} ${JSON.stringify(params).slice(0, 50)}`,
        async () => (await Session.open(target)).ask(method, params),
        isComplaint,
      ),
    ),
    ...Object.entries(BAD_HEADERS).map(([name, headers]) =>
      probe(`headers: ${name}`, () => changed(target, { headers }), isRefusal),
    ),
    ...Object.entries(BAD_ENVELOPES).map(([name, meta]) =>
      probe(`envelope: ${name}`, () => changed(target, { meta }), isComplaintOrRefusal),
    ),
    probe(
      'no tool has run',
      () => target.agents.calls.map(({ input }) => JSON.stringify(input)),
      (calls) => calls.every((input) => input.includes('honest')),
    ),
    ...['', 'a', 'Bearer', 'a b'].map((token) =>
      probe(
        `a body of 200,000 values with the credential ${JSON.stringify(token)}`,
        () => post(guarded, `[${'1,'.repeat(200_000)}1]`, token === '' ? {} : bearer(token)),
        ({ status }) => status === 401 || status === 400,
      ),
    ),
    ...Object.entries(BAD_HEADS).map(([name, raw]) =>
      probe(
        `head: ${name}`,
        () => wire(target.port, raw),
        // Node closes a connection that asks for a tunnel.
        (answer) => (name === 'CONNECT' ? answer === '' : is4xx(statusIn(answer))),
      ),
    ),
    probe(
      `${SLOW} clients that never send the rest, beside an honest one`,
      async () => {
        const slow = slowConnections(target)
        const params = { name: 'echo', arguments: { message: 'honest' } }
        const answer = textOf(await modern(target, 'tools/call', params))
        return { answer, statuses: [...new Set(await slow)] }
      },
      ({ answer, statuses }) => answer === 'honest' && statuses.join() === '408',
    ),
  ]
}

export const bodies: Kind = {
  name: 'bodies',
  rule: 'a malformed request gets a 4xx that says why',
  async prepare(stack) {
    const target = await startTarget(stack)
    const guarded = await startTarget(stack, { auth: knownCallers() })
    return {
      probes: probesOf(target, guarded),
      honest: [
        ...honestClients('a gateway', target),
        ...honestClients('a gateway with auth', guarded, { token: TOKENS.ada }),
      ],
    }
  },
}

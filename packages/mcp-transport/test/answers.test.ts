import { brotliCompressSync, deflateSync, gzipSync, zstdCompressSync } from 'node:zlib'
import { describe, expect, test } from 'vitest'
import { TransportError } from '../src/index.ts'
import type { ExchangeEvent, StreamableHttpTransportOptions } from '../src/index.ts'
import { connectRaw, failureIn, rawClient } from './raw-client.ts'
import {
  errorOf,
  initializeResult,
  json,
  openSse,
  resultOf,
  scriptedServer,
  sse,
} from './scripted-server.ts'
import type { Seen } from './scripted-server.ts'

const onCall =
  (answer: (seen: Seen) => Response) =>
  (seen: Seen): Response | undefined =>
    seen.what === 'POST tools/call' ? answer(seen) : undefined

const JSON_TYPE = 'application/json'
const SSE_TYPE = 'text/event-stream'

const jsonOf = (seen: Seen): string => JSON.stringify(resultOf(seen, { ok: true }))

function body(content: string | Buffer<ArrayBuffer>, type: string | undefined): Response {
  const response = new Response(Buffer.from(content))
  if (type !== undefined) response.headers.set('content-type', type)
  return response
}

const ENCODINGS: readonly (readonly [string, (text: string) => Buffer])[] = [
  ['gzip', (text) => gzipSync(text)],
  ['x-gzip', (text) => gzipSync(text)],
  ['deflate', (text) => deflateSync(text)],
  ['br', (text) => brotliCompressSync(text)],
  ['zstd', (text) => zstdCompressSync(text)],
]

/** Returns an encoded answer of this type. */
function encodedBody(content: Buffer, encoding: string, type: string): Response {
  const response = body(Buffer.from(content), type)
  response.headers.set('content-encoding', encoding)
  return response
}

describe('headers', () => {
  test('have no session id for initialize, and session id and version for all later requests', async () => {
    const server = scriptedServer()
    await using client = await connectRaw(server)
    await client.request('tools/list')
    await server.waitFor('GET')
    await client.transport.terminateSession()

    expect(
      server.seen.map(({ what, headers }) => [
        what,
        headers.get('mcp-session-id'),
        headers.get('mcp-protocol-version'),
        headers.get('accept'),
        headers.get('content-type'),
      ]),
    ).toEqual([
      ['POST initialize', null, null, 'application/json, text/event-stream', 'application/json'],
      ...['POST notifications/initialized', 'POST tools/list', 'GET']
        .toSorted((a, b) => server.wire.indexOf(a) - server.wire.indexOf(b))
        .map((what) =>
          what === 'GET'
            ? [what, 'session-1', '2025-11-25', 'text/event-stream', null]
            : [
                what,
                'session-1',
                '2025-11-25',
                'application/json, text/event-stream',
                'application/json',
              ],
        ),
      ['DELETE', 'session-1', '2025-11-25', null, null],
    ])
  })

  test('that an interceptor adds to one request are not in the next request', async () => {
    const server = scriptedServer()
    const dispatcher = server.dispatcher.compose((dispatch) => (options, handler) => {
      if (Array.isArray(options.headers)) options.headers.push('x-added', 'once')
      return dispatch(options, handler)
    })
    await using client = await connectRaw(server, { dispatcher, listen: false })
    await client.request('tools/list')
    await client.request('tools/list')
    expect(server.seen.map(({ headers }) => headers.get('x-added'))).toEqual(
      server.seen.map(() => 'once'),
    )
  })

  test('come from a function that is called before every request, with its method', async () => {
    const asked: unknown[] = []
    const server = scriptedServer()
    await using _ = await connectRaw(server, {
      listen: false,
      headers: async (request) => {
        asked.push(request)
        return { authorization: `Bearer ${asked.length}` }
      },
    })
    expect(asked).toEqual([
      { httpMethod: 'POST', rpcMethod: 'initialize' },
      { httpMethod: 'POST', rpcMethod: 'notifications/initialized' },
    ])
    expect(server.seen.map(({ headers }) => headers.get('authorization'))).toEqual([
      'Bearer 1',
      'Bearer 2',
    ])
  })

  test('fail the request if their function throws, with that error as the cause', async () => {
    const cause = new Error('vault is sealed')
    const server = scriptedServer()
    await using client = rawClient(server, {
      headers: () => {
        throw cause
      },
    })
    expect(failureIn(await client.handshake())).toMatchObject({ code: 'CONFIG', cause })
    expect(server.wire).toEqual([])
  })

  test.each(['SESSION_LOST', 'OUTCOME_UNKNOWN', 'UNAUTHORIZED'] as const)(
    'fail the request as not sent if their function throws %s of another connection',
    async (code) => {
      const cause = new TransportError(code, 'of another server', { certain: true })
      const server = scriptedServer()
      await using client = await connectRaw(server, {
        headers: ({ rpcMethod }) => {
          if (rpcMethod === 'tools/call') throw cause
          return {}
        },
      })
      expect(await client.failureOf('tools/call')).toMatchObject({
        code: 'CONFIG',
        outcome: 'not-executed',
        cause,
      })
      expect(server.count('POST tools/call')).toBe(0)
    },
  )

  test('are checked in the constructor if they are static', () => {
    const headers = { 'x-a': 'a\nb' }
    expect(() => rawClient(scriptedServer(), { headers })).toThrow(TypeError)
  })
})

type NamedAnswers = readonly (readonly [name: string, answer: (seen: Seen) => Response])[]

describe('delivers an answer', () => {
  const answers: NamedAnswers = [
    ['as JSON', (seen) => json(resultOf(seen, { ok: true }))],
    ['as JSON in a batch (2025-03-26)', (seen) => json([resultOf(seen, { ok: true })])],
    [
      'as JSON with a charset',
      (seen) =>
        json(resultOf(seen, { ok: true }), { 'content-type': 'Application/JSON; charset=utf-8' }),
    ],
    ['as an event', (seen) => sse(resultOf(seen, { ok: true }))],
    [
      'after comments, pings and noise',
      (seen) =>
        sse(
          ': hi\n\n',
          'event: ping\ndata: {"a":1}\n\n',
          'data: not json\n\n',
          'data: {"any":"json"}\n\n',
          resultOf(seen, { ok: true }),
        ),
    ],
    [
      'with its id as text (python-sdk PR #1720)',
      (seen) => json(resultOf({ id: String(seen.id) }, { ok: true })),
    ],
    [
      'with the encoding "identity"',
      (seen) => json(resultOf(seen, { ok: true }), { 'content-encoding': 'identity' }),
    ],
    ...ENCODINGS.map(([encoding, encode]): NamedAnswers[number] => [
      `as JSON encoded with ${encoding}`,
      (seen) => encodedBody(encode(jsonOf(seen)), encoding, JSON_TYPE),
    ]),
    [
      'as an encoded event with the type of JSON',
      (seen) => encodedBody(gzipSync(`data: ${jsonOf(seen)}\n\n`), 'gzip', JSON_TYPE),
    ],
    ['as JSON after a byte order mark', (seen) => body(`\uFEFF${jsonOf(seen)}`, JSON_TYPE)],
    // ThinkInAIXYZ/go-mcp#136, helidon-io/helidon-mcp#97, agentic-community/mcp-gateway-registry#1051
    ['as JSON with the type text/plain', (seen) => body(jsonOf(seen), 'text/plain')],
    [
      'as JSON with the type application/json-rpc',
      (seen) => body(jsonOf(seen), 'application/json-rpc'),
    ],
    ['as JSON without a type', (seen) => body(jsonOf(seen), undefined)],
    ['as JSON with the type of an event stream', (seen) => body(`\n${jsonOf(seen)}`, SSE_TYPE)],
    [
      'as an event with the type of JSON',
      (seen) => body(`event: message\ndata: ${jsonOf(seen)}\n\n`, JSON_TYPE),
    ],
    [
      'as an event with another type',
      (seen) => body(`: hi\n\ndata: ${jsonOf(seen)}\n\n`, 'application/octet-stream'),
    ],
    [
      'as an event with a batch (2025-03-26)',
      (seen) => body(`data: [{"other":"json"},${jsonOf(seen)}]\n\n`, SSE_TYPE),
    ],
  ]
  test.each(answers)('%s', async (_name, answer) => {
    const server = scriptedServer(onCall(answer))
    await using client = await connectRaw(server)
    await expect(client.request('tools/call')).resolves.toMatchObject({
      id: 1,
      result: { ok: true },
    })
  })

  test('after the notifications before it, in order', async () => {
    const note = { jsonrpc: '2.0', method: 'notifications/message', params: { data: 1 } }
    const server = scriptedServer(onCall((seen) => sse(note, note, resultOf(seen, {}))))
    await using client = await connectRaw(server)
    await client.request('tools/call')
    expect(client.messages.slice(1)).toEqual([note, note, { jsonrpc: '2.0', id: 1, result: {} }])
  })

  test('while the stream stays open, without delaying the next call', async () => {
    const stream = openSse()
    const server = scriptedServer(onCall(() => stream.response))
    await using client = await connectRaw(server)
    const answer = client.request('tools/call')
    const { id } = await server.waitFor('POST tools/call')
    stream.push(resultOf({ id }, { ok: true }))
    await expect(answer).resolves.toHaveProperty('result')
    await expect(client.request('ping')).resolves.toHaveProperty('result')
  })

  test('to initialize while the stream stays open', async () => {
    const server = scriptedServer({
      'POST initialize': (seen) => {
        const stream = openSse({ 'mcp-session-id': 'session-1' })
        stream.push(resultOf(seen, initializeResult))
        return stream.response
      },
    })
    await using client = await connectRaw(server, { listen: false })
    expect(client.transport.sessionId).toBe('session-1')
  })

  test('only once if the server sends it twice', async () => {
    const server = scriptedServer(onCall((seen) => sse(resultOf(seen, {}), resultOf(seen, {}))))
    await using client = await connectRaw(server)
    await client.request('tools/call')
    await client.request('ping')
    expect(client.messages.filter((message) => 'id' in message && message.id === 1)).toHaveLength(1)
  })
})

describe('fails a request', () => {
  const reasons: readonly (readonly [
    name: string,
    answer: (seen: Seen) => Response,
    code: string,
  ])[] = [
    ['an error status', () => new Response('no', { status: 500 }), 'REJECTED'],
    ['401', () => new Response('no', { status: 401 }), 'UNAUTHORIZED'],
    ['403', () => new Response('no', { status: 403 }), 'UNAUTHORIZED'],
    ['202 to a request', () => new Response(null, { status: 202 }), 'UNEXPECTED_RESPONSE'],
    [
      'another content type',
      () => new Response('<html>', { headers: { 'content-type': 'text/html' } }),
      'UNEXPECTED_RESPONSE',
    ],
    [
      'broken JSON',
      () => new Response('{', { headers: { 'content-type': 'application/json' } }),
      'UNEXPECTED_RESPONSE',
    ],
    ['JSON that is not a message', () => json({ ok: true }), 'UNEXPECTED_RESPONSE'],
    ['an answer to another request', () => json(resultOf({ id: 99 }, {})), 'OUTCOME_UNKNOWN'],
    [
      'an encoding that is unknown',
      () => json({}, { 'content-encoding': 'compress' }),
      'UNEXPECTED_RESPONSE',
    ],
    [
      'a body that is not in its encoding',
      () => json({}, { 'content-encoding': 'gzip' }),
      'UNEXPECTED_RESPONSE',
    ],
    [
      'an encoded event stream that stays open',
      () => openSse({ 'content-encoding': 'gzip' }).response,
      'UNEXPECTED_RESPONSE',
    ],
    [
      'a redirect to another origin',
      () => redirect('https://evil.example/mcp?token=1', 307),
      'UNEXPECTED_RESPONSE',
    ],
    [
      'a redirect that changes the method to GET',
      () => redirect('/mcp', 303),
      'UNEXPECTED_RESPONSE',
    ],
    ['a redirect without a URL', () => new Response(null, { status: 308 }), 'UNEXPECTED_RESPONSE'],
    ['a redirect in a circle', () => redirect('/mcp', 307), 'UNEXPECTED_RESPONSE'],
  ]
  test.each(reasons)('with %s', async (...[, answer, code]) => {
    const server = scriptedServer(onCall(answer))
    await using client = await connectRaw(server)
    const answered = await client.request('tools/call')
    expect(answered).toMatchObject({ id: 1, error: { code: -32000 } })
    const failure = failureIn(answered)
    expect(failure).toMatchObject({ code, url: 'http://server.test/mcp' })
    expect(failure.message).not.toContain('token=1')
    expect(client.errors).toEqual([])
    await expect(client.request('ping')).resolves.toHaveProperty('result')
  })

  test('with the code of the server for an error with a 4xx status', async () => {
    const server = scriptedServer(
      onCall((seen) => json(errorOf(seen, -32602, 'Bad cart'), {}, 400)),
    )
    await using client = await connectRaw(server)
    await expect(client.request('tools/call')).resolves.toMatchObject({
      error: { code: -32602, data: { code: 'REJECTED', serverError: { message: 'Bad cart' } } },
    })
  })

  test('with an unknown outcome, and ends the session, if the body of a refusal breaks off', async () => {
    const server = scriptedServer(
      onCall(() => {
        const stream = openSse({ 'content-type': 'text/plain' })
        stream.push('Session')
        queueMicrotask(() => stream.cut())
        return new Response(stream.response.body, { status: 404 })
      }),
    )
    await using client = await connectRaw(server)
    await expect(client.failureOf('tools/call')).resolves.toMatchObject({
      code: 'SESSION_LOST',
      certain: false,
    })
  })

  test.each(['gzip', 'compress'])(
    'by its status if the body is not in its encoding: %s',
    async (encoding) => {
      const headers = { 'content-encoding': encoding }
      const server = scriptedServer(onCall(() => new Response('x', { status: 404, headers })))
      await using client = await connectRaw(server)
      await expect(client.failureOf('tools/call')).resolves.toMatchObject({
        code: 'SESSION_LOST',
        certain: false,
      })
    },
  )

  test('with a hint at proxies if the server misses a session id that it did not assign', async () => {
    const server = scriptedServer({
      'POST initialize': (seen) => json(resultOf(seen, initializeResult)),
      'POST tools/call': (seen) => json(errorOf(seen, -32000, 'Missing session ID'), {}, 400),
    })
    await using client = await connectRaw(server)
    const { message } = await client.failureOf('tools/call')
    expect(message).toContain('does a proxy drop the header Mcp-Session-Id')
  })

  test('with the text of a refusal that is encoded', async () => {
    const headers = { 'content-encoding': 'gzip' }
    const server = scriptedServer(
      onCall(() => new Response(Buffer.from(gzipSync('out of paper')), { status: 500, headers })),
    )
    await using client = await connectRaw(server)
    const { message } = await client.failureOf('tools/call')
    expect(message).toContain('out of paper')
  })

  test('if the decoded answer exceeds the limit', async () => {
    const server = scriptedServer(
      onCall((seen) => {
        const text = JSON.stringify(resultOf(seen, { text: 'x'.repeat(100_000) }))
        return encodedBody(gzipSync(text), 'gzip', JSON_TYPE)
      }),
    )
    await using client = await connectRaw(server, { limits: { responseBytes: 10_000 } })
    await expect(client.failureOf('tools/call')).resolves.toMatchObject({ code: 'LIMIT' })
  })

  test('with an error if its parameters are not JSON, and sends nothing', async () => {
    const server = scriptedServer()
    await using client = await connectRaw(server)
    await expect(client.failureOf('tools/call', { big: 1n })).resolves.toMatchObject({
      code: 'CONFIG',
      cause: expect.any(TypeError),
    })
    expect(server.count('POST tools/call')).toBe(0)
  })

  test('with a TypeError for an array of messages', async () => {
    await using client = rawClient(scriptedServer())
    await expect(client.transport.send([])).rejects.toThrow(TypeError)
  })
})

describe('redirects', () => {
  test.each([307, 308])(
    'follows a redirect with status %d within the origin, with the body',
    async (status) => {
      const server = scriptedServer((seen) =>
        seen.what === 'POST tools/call' && server.count('POST tools/call') === 1
          ? redirect('/elsewhere?x=1', status)
          : undefined,
      )
      await using client = await connectRaw(server)
      await expect(client.request('tools/call', { name: 'echo' })).resolves.toHaveProperty('result')
      const [first, second] = server.seen.filter(({ what }) => what === 'POST tools/call')
      expect(second).toMatchObject({
        id: first?.id,
        params: { name: 'echo' },
        sessionId: 'session-1',
      })
    },
  )

  test('follows a redirect from http to https of the same host', async () => {
    const server = scriptedServer((seen) =>
      seen.what === 'POST initialize' && server.count('POST initialize') === 1
        ? redirect('https://server.test/mcp', 308)
        : undefined,
    )
    await using client = rawClient(server)
    await expect(client.handshake()).resolves.toHaveProperty('result')
  })
})

describe('a notification', () => {
  const encoded = { 'content-encoding': 'gzip' }
  const type = { 'content-type': 'application/json' }
  const streamed = { 'content-type': 'text/event-stream' }

  test('is accepted while the event stream of its response stays open', async () => {
    const stream = openSse()
    const server = scriptedServer({ 'POST notifications/progress': () => stream.response })
    await using client = await connectRaw(server)
    await expect(client.notify('notifications/progress')).resolves.toBeUndefined()
    await expect(client.request('ping')).resolves.toHaveProperty('result')
  })

  test.each([
    ['202', () => new Response(null, { status: 202 })],
    ['200 with nothing', () => new Response(null, { status: 200 })],
    ['200 with null', () => json(null)],
    ['200 with text', () => new Response('OK')],
    ['204', () => new Response(null, { status: 204 })],
    [
      '200 with an encoded stream',
      () => new Response('', { headers: { ...encoded, ...streamed } }),
    ],
    [
      '200 with what cannot be decoded',
      () => new Response('OK', { headers: { ...encoded, ...type } }),
    ],
  ])('is accepted by a response with %s', async (_name, answer) => {
    const server = scriptedServer({ 'POST notifications/progress': () => answer() })
    await using client = await connectRaw(server)
    await expect(client.notify('notifications/progress')).resolves.toBeUndefined()
  })

  test('rejects send() if it is refused, and is not reported elsewhere', async () => {
    const server = scriptedServer({
      'POST notifications/progress': () => new Response('no', { status: 500 }),
    })
    await using client = await connectRaw(server)
    await expect(client.notify('notifications/progress')).rejects.toMatchObject({
      code: 'REJECTED',
    })
    expect(client.errors).toEqual([])
  })
})

describe('exchanges', () => {
  test('are emitted as events without secrets', async () => {
    const events: ExchangeEvent[] = []
    const server = scriptedServer({
      'POST initialize': (seen) =>
        json(resultOf(seen, { protocolVersion: '2025-11-25', capabilities: {}, serverInfo: {} }), {
          'mcp-session-id': 'secret-session-id',
        }),
    })
    await using client = await connectRaw('http://server.test/mcp?token=secret-token', {
      era: 'legacy',
      dispatcher: server.dispatcher,
      listen: false,
      onExchange: (event) => events.push(event),
      headers: { authorization: 'Bearer secret-bearer' },
    })
    await client.request('tools/list')
    expect(events).toMatchObject([
      { httpMethod: 'POST', rpcMethod: 'initialize', status: 200, url: 'http://server.test/mcp' },
      { rpcMethod: 'notifications/initialized', sessionId: 'secr…(17)', status: 202 },
      { rpcMethod: 'tools/list', era: 'legacy', attempt: 0, status: 200 },
    ])
    expect(events[2]?.responseBytes).toBeGreaterThan(0)
    expect(events[2]?.requestBytes).toBeGreaterThan(0)
    expect(JSON.stringify(events)).not.toMatch(/secret-/)
  })

  test('call the listener that is set at that time', async () => {
    const events: (string | undefined)[] = []
    const listener = ({ rpcMethod }: ExchangeEvent): void => void events.push(rpcMethod)
    let isListening = false
    const options: StreamableHttpTransportOptions = {
      era: 'legacy',
      dispatcher: scriptedServer().dispatcher,
      listen: false,
      get onExchange() {
        return isListening ? listener : undefined
      },
    }
    await using client = await connectRaw('http://server.test/mcp', options)
    isListening = true
    await client.request('tools/list')
    isListening = false
    await client.request('ping')
    expect(events).toEqual(['tools/list'])
  })

  test('are not affected by a listener that throws', async () => {
    let count = 0
    await using client = rawClient(scriptedServer(), {
      onExchange: () => {
        count += 1
        throw new Error('mine')
      },
    })
    await expect(client.handshake()).resolves.toHaveProperty('result')
    await expect(client.request('ping')).resolves.toHaveProperty('result')
    expect(count).toBeGreaterThan(2)
  })
})

function redirect(location: string, status: number): Response {
  return new Response(null, { status, headers: { location } })
}

test('delivers the error of a request that fails at once after send() has returned', async () => {
  const server = scriptedServer()
  let isBroken = false
  const dispatcher = server.dispatcher.compose((dispatch) => (options, handler) => {
    if (isBroken) throw new Error('out of order')
    return dispatch(options, handler)
  })
  await using client = await connectRaw(server, { dispatcher, listen: false })
  isBroken = true
  const before = client.messages.length
  const answer = client.request('tools/list')
  expect(client.messages).toHaveLength(before)
  expect(failureIn(await answer).cause).toMatchObject({ message: 'out of order' })
})

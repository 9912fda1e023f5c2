import { connect } from 'node:net'

import { afterAll, beforeAll, describe, expect, test } from 'vitest'

import { bearerAuth } from '../src/http/auth/bearer.ts'
import { anyAuth } from '../src/http/auth/combine.ts'
import { createGateway, type Gateway } from '../src/gateway.ts'
import { AgentsAtHand, echo } from './agents-at-hand.ts'
import { modern, MODERN_META, OPENING, post } from './rpc-requests.ts'

const handshake = JSON.stringify(OPENING[0])

function gatewayOf(options: Parameters<typeof createGateway>[0] = {}): Gateway {
  return createGateway({ sources: [new AgentsAtHand({ echo })], log: false, ...options })
}

/** What is on the wire, to the letter; the server ends the connection. */
function wire(port: number, request: string): Promise<string> {
  return new Promise((resolve, reject) => {
    const socket = connect(port, '127.0.0.1')
    let answer = ''
    socket.setEncoding('utf8')
    socket.on('data', (piece: string) => (answer += piece))
    socket.on('error', reject)
    socket.on('close', () => resolve(answer))
    socket.write(request)
  })
}

interface Wire {
  readonly target?: string
  readonly method?: string
  /** Lines, without those of the body. */
  readonly headers?: readonly string[]
  readonly body?: string
}

async function statusOf(port: number, request: Wire): Promise<number> {
  return Number((await answerOf(port, request)).split(' ')[1])
}

function answerOf(port: number, request: Wire): Promise<string> {
  const {
    target = '/mcp',
    method = 'POST',
    headers = ['Host: localhost'],
    body = handshake,
  } = request
  const lines = [
    `${method} ${target} HTTP/1.1`,
    ...headers,
    'Content-Type: application/json',
    'Accept: application/json, text/event-stream',
    `Content-Length: ${Buffer.byteLength(body)}`,
    'Connection: close',
  ]
  return wire(port, `${lines.join('\r\n')}\r\n\r\n${body}`)
}

/** Of a gateway without options. */
let port: number
const shared = gatewayOf()
beforeAll(async () => {
  port = (await shared.listen({ port: 0 })).port
})
afterAll(() => shared.close())

describe('host of a request', () => {
  test.each([
    ['localhost:1', 200],
    ['LOCALHOST', 200],
    ['[::1]:8000', 200],
    ['127.0.0.1', 200],
    ['evil.example', 403],
    ['localhost.', 403],
    ['localhost.evil.example', 403],
    ['127.0.0.1.nip.io', 403],
    ['0.0.0.0', 403],
    ['[::]', 403],
    ['[::ffff:127.0.0.1]', 403],
    ['', 403],
    ['localhost, evil.example', 400],
    ['localhost@evil.example', 400],
    ['evil.example@localhost', 400],
    ['localhost/mcp?', 400],
    ['localhost#', 400],
    ['localhost\\evil.example', 400],
    ['localhost:99999', 400],
  ])('answers Host: %s with %i', async (host, status) => {
    expect(await statusOf(port, { headers: [`Host: ${host}`] })).toBe(status)
  })

  test('checks a host in the target, and not the header', async () => {
    expect(await statusOf(port, { target: 'http://evil.example/mcp' })).toBe(403)
    for (const target of ['ftp://localhost/mcp', 'http://user:word@localhost/mcp']) {
      expect(await statusOf(port, { target })).toBe(400)
    }
    const headers = ['Host: evil.example']
    expect(await statusOf(port, { target: 'http://localhost/mcp', headers })).toBe(200)
  })

  test.each([
    ['Evil.Example:8080', '"Evil.Example:8080" ', 'add "evil.example" to http.allowedHosts'],
    ['[2001:DB8::1]:8', '"[2001:DB8::1]:8" ', 'add "[2001:db8::1]" to http.allowedHosts'],
    ['localhost.', '"localhost." ', 'add the name to http.allowedHosts'],
    ['0.0.0.0', '"0.0.0.0" ', 'set http.publicUrl to the URL'],
    [`${'x'.repeat(500)}.example`, `"${'x'.repeat(199)}…" `, 'http.allowedHosts'],
    ['', 'has no Host header', ''],
  ])('names the host %s that it refuses, and the settings', async (host, shown, advice) => {
    const answer = await answerOf(port, { headers: [`Host: ${host}`] })
    expect(answer).toMatch(/^HTTP\/1\.1 403 /)
    const { error } = JSON.parse(answer.split('\r\n\r\n')[1] ?? '') as {
      error: { message: string }
    }
    expect(error.message).toContain(shown)
    expect(error.message).toContain(advice)
  })

  test('refuses two hosts, and no host', async () => {
    expect(await statusOf(port, { headers: ['Host: localhost', 'Host: evil.example'] })).not.toBe(
      200,
    )
    expect(await statusOf(port, { headers: [] })).toBe(400)
    const old = `POST /mcp HTTP/1.0\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}`
    expect(await wire(port, old)).toMatch(/^HTTP\/1\.1 403 /)
  })
})

describe('origin of a request', () => {
  test.each([
    ['null', 403],
    ['https://evil.example', 403],
    ['http://localhost.evil.example', 403],
    ['http://localhost.', 403],
    ['http://127.0.0.1.nip.io', 403],
    ['file://', 403],
    ['chrome-extension://abc', 403],
    ['http://localhost, https://evil.example', 403],
    ['http://[::1]:6274', 200],
  ])('answers Origin: %s with %i', async (origin, status) => {
    const headers = ['Host: localhost', `Origin: ${origin}`]
    expect(await statusOf(port, { headers })).toBe(status)
  })

  test.each([
    ['https://evil.example:1', 'add "https://evil.example:1" to http.allowedOrigins'],
    ['null', 'Pages without an origin'],
    ['http://a, http://b', 'add the origin of the page, such as https://app.example,'],
  ])('names the origin %s that it refuses, and the setting', async (origin, advice) => {
    const headers = ['Host: localhost', `Origin: ${origin}`]
    const { error } = JSON.parse(
      (await answerOf(port, { headers })).split('\r\n\r\n')[1] ?? '',
    ) as { error: { message: string } }
    expect(error.message).toContain(origin)
    expect(error.message).toContain(advice)
  })

  test('refuses pages of this machine if other machines may call', async () => {
    await using gateway = gatewayOf({ http: { allowedHosts: ['localhost', 'agents.example'] } })
    const own = await gateway.listen({ port: 0 })
    const headers = ['Host: localhost', 'Origin: http://localhost:6274']
    expect(await statusOf(own.port, { headers })).toBe(403)
  })
})

describe('target of a request', () => {
  test('reads a path in one way everywhere', async () => {
    const up = await answerOf(port, {
      method: 'PUT',
      target: '/mcp/../artifacts/a.txt',
      body: 'five!',
    })
    expect(up).toMatch(/^HTTP\/1\.1 201 /)
    expect(up).toContain('"size":5')
    expect(await statusOf(port, { target: '/artifacts/%2e%2e/mcp' })).toBe(200)
    expect(await statusOf(port, { target: '//evil.example/mcp' })).toBe(404)
    expect(await statusOf(port, { method: 'OPTIONS', target: '*' })).toBe(400)
    expect(await statusOf(port, { method: 'TRACE', body: '' })).toBe(400)
  })

  test('ends the connection of a client that asks for it', async () => {
    expect((await answerOf(port, {})).toLowerCase()).toContain('connection: close')
  })
})

describe('credentials', () => {
  // As plain JavaScript may answer; and a class of `Response` that is not this one's.
  test.each<[string, () => unknown]>([
    ['nothing', () => undefined],
    ['null', () => null],
    ['an empty object', () => ({})],
    ['a name', () => 'ann'],
    ['yes', () => true],
    ['an id without scopes', () => ({ id: 'ann' })],
    ['scopes as a string', () => ({ id: 'ann', scopes: '*' })],
    ['a response of its own', () => ({ status: 401, headers: new Headers(), body: null })],
    [
      'an error',
      () => {
        throw new Error('no')
      },
    ],
  ])('admits no caller if an authenticator returns %s', async (_, answer) => {
    const authenticate = async (): Promise<never> => answer() as never
    await using gateway = gatewayOf({ auth: { authenticate } })
    const own = await gateway.listen({ port: 0 })
    expect(await statusOf(own.port, {})).toBeGreaterThanOrEqual(401)
    const file = { method: 'PUT', target: '/artifacts/a.txt' }
    expect(await statusOf(own.port, file)).toBeGreaterThanOrEqual(401)
  })

  test('answers 500 if the endpoints of an authenticator return something else than a response', async () => {
    const warnings: string[] = []
    const auth = {
      ...bearerAuth('t0ken-0123456789'),
      paths: ['/own'],
      handle: async (): Promise<never> => ({}) as never,
    }
    await using gateway = gatewayOf({
      auth,
      observer: { warned: (message) => void warnings.push(message) },
    })
    const own = await gateway.listen({ port: 0 })
    expect(await statusOf(own.port, { method: 'GET', target: '/own' })).toBe(500)
    expect(warnings).toContain('A GET request could not be served')
    expect(await statusOf(own.port, {})).toBe(401)
  })

  test('lets the pages of an authenticator check the origin, and nothing else', async () => {
    const signIn = {
      ...bearerAuth('t0ken-0123456789'),
      paths: ['/own', '/own/page'],
      pages: ['/own/page'],
      handle: async (): Promise<Response> => new Response('own'),
    }
    const http = { publicUrl: 'https://gateway.example' }
    for (const auth of [signIn, anyAuth(bearerAuth('0ther-0123456789'), signIn)]) {
      await using gateway = gatewayOf({ auth, http })
      const statusAt = async (path: string, headers: Record<string, string>): Promise<number> => {
        const init = { method: 'POST', headers: { host: 'gateway.example', ...headers } }
        return (await gateway.fetch(new Request(`https://gateway.example${path}`, init))).status
      }
      for (const origin of ['null', 'https://gateway.example', 'https://evil.example']) {
        expect(await statusAt('/own/page', { origin })).toBe(200)
        for (const path of ['/own', '/own/page/below', '/mcp']) {
          expect(await statusAt(path, { origin })).toBe(403)
        }
      }
      expect(await statusAt('/own/page', { host: 'evil.example', origin: 'null' })).toBe(403)
    }
  })

  let guarded: number
  const gateway = gatewayOf({ auth: bearerAuth('t0ken-0123456789') })
  beforeAll(async () => {
    guarded = (await gateway.listen({ port: 0 })).port
  })
  afterAll(() => gateway.close())

  test.each([
    ['Authorization: Bearer t0ken-0123456789', 200],
    ['authorization: bearer   t0ken-0123456789  ', 200],
    ['Authorization: Bearer\tt0ken-0123456789', 401],
    ['Authorization: Basic t0ken-0123456789', 401],
    ['Authorization: t0ken-0123456789', 401],
    ['Authorization: Bearer T0KEN-0123456789', 401],
    ['Authorization: Bearer t0ken-012345678', 401],
    ['Authorization: Bearer t0ken-0123456789=', 401],
    ['Authorization: Bearer', 400],
    ['Authorization: Bearer no, Bearer t0ken-0123456789', 400],
    ['Authorization: Bearer no\r\nAuthorization: Bearer t0ken-0123456789', 400],
    ['Cookie: access_token=t0ken-0123456789', 401],
    ['X-Forwarded-User: root', 401],
  ])('answers %j with %i', async (line, status) => {
    const headers = ['Host: localhost', line]
    expect(await statusOf(guarded, { headers })).toBe(status)
    const target = '/mcp?access_token=t0ken-0123456789'
    expect(await statusOf(guarded, { target, headers: ['Host: localhost'] })).toBe(401)
  })
})

test('takes the address from the connection, not from headers', async () => {
  await using gateway = gatewayOf({ requestsPerMinute: 1 })
  const own = await gateway.listen({ port: 0 })
  const from = (address: string): readonly string[] => [
    'Host: localhost',
    `X-Forwarded-For: ${address}`,
    `X-Real-IP: ${address}`,
    `Forwarded: for=${address}`,
  ]
  expect(await statusOf(own.port, { headers: from('192.0.2.1') })).toBe(200)
  expect(await statusOf(own.port, { headers: from('192.0.2.2') })).toBe(429)
})

describe('bodies', () => {
  test('refuses a body without a length as soon as it is too large', async () => {
    await using gateway = gatewayOf({ http: { maxBodyBytes: 1000 } })
    const own = await gateway.listen({ port: 0 })
    const head = [
      'POST /mcp HTTP/1.1',
      'Host: localhost',
      'Content-Type: application/json',
      'Transfer-Encoding: chunked',
    ]
    const chunk = `1f4\r\n${'x'.repeat(500)}\r\n`
    const answer = await wire(own.port, `${head.join('\r\n')}\r\n\r\n${chunk.repeat(3)}`)
    expect(answer).toMatch(/^HTTP\/1\.1 413 /)
  })

  test('refuses a length beside chunks, and two lengths', async () => {
    const both =
      'POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n'
    expect(await wire(port, both)).toMatch(/^HTTP\/1\.1 400 /)
    const two =
      'POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nhello!'
    expect(await wire(port, two)).toMatch(/^HTTP\/1\.1 400 /)
  })

  test('does not decompress bodies', async () => {
    const headers = ['Host: localhost', 'Content-Encoding: gzip']
    expect(await statusOf(port, { headers, body: '\u001f\u008bno JSON' })).toBe(400)
  })

  const nested = (open: string, close: string, times: number): string =>
    open.repeat(times) + close.repeat(times)
  const request = (method: string, params: string): string =>
    `{"jsonrpc":"2.0","id":1,"method":"${method}","params":${params}}`
  const meta = JSON.stringify(MODERN_META).slice(0, -1)
  const keys = Array.from({ length: 100_000 }, (_, at) => `"${at}":1`).join()

  let open: number
  const roomy = gatewayOf({ http: { maxBodyBytes: 4_000_000 } })
  beforeAll(async () => {
    open = (await roomy.listen({ port: 0 })).port
  })
  afterAll(() => roomy.close())

  test.each([
    ['2 MB of nested lists', request('initialize', nested('[', ']', 1_000_000)), 'levels'],
    [
      '2 MB of lists beside each other',
      request('initialize', `[${'[],'.repeat(700_000)}1]`),
      'values',
    ],
    [
      '2,000 objects in each other',
      request('initialize', nested('{"a":', '}', 2000).replace(':}', ':1}')),
      'levels',
    ],
    ['100,000 keys', request('initialize', `{${keys}}`), 'values'],
    [
      '100,000 keys in the arguments',
      request('tools/call', `{"name":"echo","arguments":{${keys}}}`),
      'values',
    ],
    ['a deep _meta', request('tools/list', `{"_meta":{"a":${nested('[', ']', 1000)}}}`), 'levels'],
    [
      'a deep _meta of 2026-07-28',
      request('tools/list', `{"_meta":${meta},"a":${nested('[', ']', 1000)}}}`),
      'levels',
    ],
    [
      'deep arguments',
      request('tools/call', `{"name":"echo","arguments":${nested('{"a":[', ']}', 500)}}`),
      'levels',
    ],
    [
      'a deep response',
      `{"jsonrpc":"2.0","id":1,"result":{"a":${nested('[', ']', 1000)}}}`,
      'levels',
    ],
    ['a deep batch', nested('[', ']', 100_000), 'levels'],
    ['brackets without an end', '['.repeat(1_000_000), 'levels'],
    ['2 MB of nested brackets in text without an end', `["${'\\"['.repeat(600_000)}`, 'JSON'],
  ])('refuses %s with a sentence, and serves the next request', async (_, body, why) => {
    const answer = await answerOf(open, { body })
    expect(answer).toMatch(/^HTTP\/1\.1 400 /)
    const [, json = ''] = answer.split('\r\n\r\n')
    expect(json.length).toBeLessThan(500)
    expect(json).toMatch(new RegExp(`"message":"[A-Z][^"]* [^"]*${why}`))
    expect(json).not.toContain('    at ')
    expect(await statusOf(open, {})).toBe(200)
  })

  test.each([
    ['near the limit of levels', `{"a":${nested('[', ']', 120)}}`],
    ['near the limit of values', `{${keys.slice(0, keys.lastIndexOf(',', 200_000))}}`],
  ])('says which argument is wrong in arguments %s', async (_, args) => {
    const sources = [new AgentsAtHand({ echo })]
    await using gateway = gatewayOf({ sources })
    const params = `{"name":"echo","arguments":${args},"_meta":${JSON.stringify(MODERN_META)}}`
    const { headers } = modern('tools/call', { name: 'echo' })
    const response = await gateway.fetch(
      post(request('tools/call', params), Object.fromEntries(headers)),
    )
    expect(response.status).toBe(200)
    expect(JSON.stringify(await response.json())).toContain('/message must be a text')
  })
})

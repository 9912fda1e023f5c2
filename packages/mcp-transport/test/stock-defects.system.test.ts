// Defects of the transport of SDK v1, which this transport must not have.
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'
import { deferred, startLegacyServer, startTestServer } from '@x/mcp-testing'
import { describe, expect, test, vi } from 'vitest'
import { connectRaw, rawClient } from './raw-client.ts'
import { errorOf, json, openSse, resultOf, scriptedServer, sse } from './scripted-server.ts'

const quick = { firstMs: 1 }

function cutStream(): Response {
  const stream = openSse()
  stream.push({ jsonrpc: '2.0', method: 'notifications/message', params: {} })
  queueMicrotask(() => stream.cut())
  return stream.response
}

describe('D1: fails the call if its stream ends without an answer and without an event id', () => {
  test.each([
    ['a regular end', () => sse({ jsonrpc: '2.0', method: 'notifications/message', params: {} })],
    ['an end without a byte', () => sse()],
    ['a broken connection', cutStream],
  ])('with %s', async (_name, answer) => {
    const server = scriptedServer({ 'POST tools/call': () => answer() })
    await using client = await connectRaw(server, { listen: false })
    await expect(client.failureOf('tools/call')).resolves.toMatchObject({ code: 'OUTCOME_UNKNOWN' })
    expect(server.count('GET')).toBe(0)
  })
})

test('D2: reports a server that closes every GET once, after maxAttempts, and continues with growing delays', async () => {
  const at: number[] = []
  const server = scriptedServer((seen) => {
    if (seen.what !== 'GET') return undefined
    at.push(performance.now())
    return sse('retry: 0\n\n')
  })
  const reconnect = { firstMs: 100, maxMs: 400, maxAttempts: 2 }
  await using client = await connectRaw(server, { reconnect })
  await client.until(() => client.errors.length > 0)
  expect(at).toHaveLength(3)
  await server.waitFor('GET', 5)
  expect((at[3] ?? 0) - (at[2] ?? 0)).toBeGreaterThan(166) // timers round
  expect((at[4] ?? 0) - (at[3] ?? 0)).toBeGreaterThan(251)
  const pauses = at.slice(1).map((time, index) => time - (at[index] ?? 0))
  expect(Math.min(...pauses)).toBeGreaterThan(98)
  expect(client.errors).toMatchObject([{ code: 'UNREACHABLE' }])
})

describe('D5: never repeats or replaces a header of the transport by a user header in any case', () => {
  test.each([
    ['an object', { 'Mcp-Session-Id': 'mine', ACCEPT: 'text/html', 'Content-Type': 'a/b' }],
    ['a function', () => ({ 'mcp-protocol-VERSION': '1', accept: '*/*', 'CONTENT-TYPE': 'a/b' })],
  ])('with %s', async (_name, headers) => {
    const server = scriptedServer()
    await using _ = await connectRaw(server, { headers, listen: false })
    expect(server.seen[1]?.headers.get('mcp-session-id')).toBe('session-1')
    expect(server.seen[1]?.headers.get('mcp-protocol-version')).toBe('2025-11-25')
    expect(server.seen[1]?.headers.get('accept')).toBe('application/json, text/event-stream')
    expect(server.seen[1]?.headers.get('content-type')).toBe('application/json')
    expect(server.seen[0]?.headers.has('mcp-session-id')).toBe(false)
  })

  test('with one header that the transport does not set', async () => {
    const server = scriptedServer()
    await using _ = await connectRaw(server, { headers: { Authorization: 'Bearer static' } })
    expect(server.seen[0]?.headers.get('authorization')).toBe('Bearer static')
  })
})

describe('D6: takes the session id only from a successful initialize', () => {
  const intruder = { 'mcp-session-id': 'intruder' }

  test('not from another answer or from an error', async () => {
    const server = scriptedServer({
      'POST tools/call': (seen) => json(resultOf(seen, {}), intruder),
      'POST tools/list': (seen) => json(errorOf(seen, -32603, 'x'), intruder, 500),
    })
    await using client = await connectRaw(server, { listen: false })
    await client.request('tools/call')
    await client.request('tools/list')
    await client.request('ping')
    expect(server.seen.map(({ sessionId }) => sessionId)).toEqual([
      undefined,
      ...Array.from({ length: 4 }, () => 'session-1'),
    ])
  })

  test.each([
    ['an error answer', 200],
    ['an error status', 400],
  ])('not from a refused initialize: %s', async (_name, status) => {
    const server = scriptedServer({
      'POST initialize': (seen) => json(errorOf(seen, -32602, 'no'), intruder, status),
    })
    await using client = await connectRaw(server, { listen: false })
    expect(client.transport.sessionId).toBeUndefined()
    await client.request('ping')
    expect(server.seen.at(-1)?.sessionId).toBeUndefined()
  })

  test('not if it is not a valid header value', async () => {
    const server = scriptedServer({
      'POST initialize': (seen) =>
        json(resultOf(seen, { protocolVersion: '2025-11-25', capabilities: {}, serverInfo: {} }), {
          'mcp-session-id': 'a b',
        }),
    })
    await using client = rawClient(server)
    await expect(client.handshake()).resolves.toMatchObject({
      error: { data: { code: 'UNEXPECTED_RESPONSE' } },
    })
  })
})

test('D7: leaves no abort listener and no warning after 600 requests', async () => {
  const added = vi.spyOn(AbortSignal.prototype, 'addEventListener')
  const removed = vi.spyOn(AbortSignal.prototype, 'removeEventListener')
  const warnings: Error[] = []
  const onWarning = (warning: Error): void => void warnings.push(warning)
  process.on('warning', onWarning)
  try {
    await using server = await startLegacyServer({ listenStream: 'refuse-405' })
    await using client = await connectRaw(server.url, { era: 'legacy', listen: false })
    for (let round = 0; round < 20; round++) {
      await Promise.all(Array.from({ length: 30 }, () => client.request('ping')))
    }
    expect(server.count('ping')).toBe(600)
    // Listeners that were added before may be removed meanwhile: only those of these requests count.
    const left = new Map(
      added.mock.calls.map(([, listener], n) => [listener, added.mock.instances[n]]),
    )
    removed.mock.calls.forEach(([, listener], n) => {
      if (left.get(listener) === removed.mock.instances[n]) left.delete(listener)
    })
    expect([...left]).toEqual([])
    expect(warnings).toEqual([])
  } finally {
    process.off('warning', onWarning)
    vi.restoreAllMocks()
  }
})

test('D8: uses one connection for 60 notifications that are answered with a chunked body', async () => {
  await using server = await startTestServer((request, response) => {
    request.resume().on('end', () => {
      response.writeHead(202)
      response.write('{"accepted":')
      response.end('true}')
    })
  })
  await using client = rawClient(server.url, { era: 'legacy', listen: false })
  for (let n = 0; n < 60; n++) await client.notify('notifications/progress')
  expect(server.connections).toBeLessThanOrEqual(2)
})

test('D9: calls nothing and lets the process end after close() with three waiting streams', async () => {
  const script = fileURLToPath(new URL('./close-with-waiting-streams.ts', import.meta.url))
  const child = spawn(process.execPath, ['--conditions=mcp-source', '--no-warnings', script], {
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  const output: Buffer[] = []
  child.stdout.on('data', (chunk: Buffer) => output.push(chunk))
  const [code] = (await once(child, 'exit')) as [number | null]
  expect(Buffer.concat(output).toString()).toBe('closed\n')
  expect(code).toBe(0)
})

test('D11: cancels a request that was resumed by a token on the server', async () => {
  const stream = openSse()
  const server = scriptedServer({ GET: () => stream.response })
  await using client = await connectRaw(server, { listen: false })
  void client.request('tools/call', {}, { resumptionToken: 'e1' })
  const resumed = await server.waitFor('GET')
  await client.notify('notifications/cancelled', { requestId: 1 })
  expect(resumed.headers.get('last-event-id')).toBe('e1')
  expect(resumed.signal.aborted).toBe(true)
  expect(server.wire.slice(2)).toEqual(['GET', 'POST notifications/cancelled'])
})

describe('D14: sends one GET to a server without a stream, and reports no error', () => {
  test.each([
    ['400', () => new Response('no', { status: 400 })],
    ['404', () => new Response(null, { status: 404 })],
    ['405', () => new Response(null, { status: 405 })],
    ['406', () => new Response(null, { status: 406 })],
    ['501', () => new Response(null, { status: 501 })],
    ['200 with JSON', () => json({ jsonrpc: '2.0', id: 1, result: {} })],
    ['200 with a message', () => json({ jsonrpc: '2.0', method: 'notifications/message' })],
    ['200 with text', () => new Response('hello')],
    ['202', () => new Response(null, { status: 202 })],
    ['a redirect elsewhere', () => Response.redirect('http://other.test/mcp', 307)],
  ])('with %s', async (_name, answer) => {
    const server = scriptedServer({ GET: () => answer() })
    const notified = deferred()
    await using client = rawClient(server, {
      reconnect: quick,
      onExchange: ({ httpMethod }) => httpMethod === 'GET' && notified.resolve(),
    })
    // Takes as long as a reconnection, so that a reconnection of `client` would have ended.
    await using control = rawClient(scriptedServer({ GET: () => sse() }), {
      reconnect: { firstMs: 50, maxAttempts: 1 },
    })
    await client.handshake()
    await notified.promise
    await control.handshake()
    await control.until(() => control.errors.length > 0)
    expect(server.count('GET')).toBe(1)
    expect(client.errors).toEqual([])
    expect(client.messages).toHaveLength(1)
  })
})

describe('D16: terminateSession()', () => {
  test.each([
    ['404', () => new Response(null, { status: 404 })],
    ['405', () => new Response(null, { status: 405 })],
    ['400 with session text', () => new Response('Invalid session ID', { status: 400 })],
  ])('resolves if the server answers with %s', async (_name, answer) => {
    const server = scriptedServer({ DELETE: () => answer() })
    await using client = await connectRaw(server)
    await expect(client.transport.terminateSession()).resolves.toBeUndefined()
    expect(client.transport.sessionId).toBeUndefined()
  })

  test('reaches the server if close() follows at once', async () => {
    await using server = await startLegacyServer()
    await using client = await connectRaw(server.url, { era: 'legacy' })
    const terminated = client.transport.terminateSession()
    await client.transport.close()
    await terminated
    expect(server.sessions).toEqual([])
  })

  test('works after close()', async () => {
    await using server = await startLegacyServer()
    await using client = await connectRaw(server.url, { era: 'legacy' })
    await client.transport.close()
    expect(server.sessions).toHaveLength(1)
    await client.transport.terminateSession()
    expect(server.sessions).toEqual([])
  })
})

function loud(): never {
  throw new Error('mine')
}

describe('D19: a callback that throws', () => {
  test('leaves the stream open, and its error goes to onerror', async () => {
    const stream = openSse()
    const server = scriptedServer({ 'POST tools/call': () => stream.response })
    await using client = await connectRaw(server, { listen: false })
    const { onmessage } = client.transport
    let calls = 0
    client.transport.onmessage = (message) => {
      calls += 1
      onmessage?.(message)
      loud()
    }
    const answer = client.request('tools/call', {}, { onresumptiontoken: loud })
    const { id, signal } = await server.waitFor('POST tools/call')
    stream.push('id: e1\ndata:\n\n')
    stream.push({ jsonrpc: '2.0', method: 'notifications/message', params: {} })
    stream.push(resultOf({ id }, { ok: true }))
    await expect(answer).resolves.toHaveProperty('result')
    expect(signal.aborted).toBe(false)
    expect(calls).toBe(2)
    expect(client.errors.map(({ message }) => message)).toEqual(['mine', 'mine', 'mine'])
  })

  test('has no effect as onerror', async () => {
    const server = scriptedServer({ GET: () => sse() })
    await using client = rawClient(server, { reconnect: { maxAttempts: 0 } })
    const notified = new Promise<void>((resolve) => {
      client.transport.onerror = () => {
        resolve()
        loud()
      }
    })
    await client.handshake()
    await notified
    await expect(client.request('ping')).resolves.toHaveProperty('result')
  })

  test('rejects close() as onclose, after everything is closed', async () => {
    const server = scriptedServer(() => undefined)
    const client = await connectRaw(server)
    client.transport.onclose = loud
    await expect(client.transport.close()).rejects.toThrow('mine')
    await expect(client.request('ping')).rejects.toMatchObject({ code: 'CLOSED' })
  })
})

describe('D20: limits the data of the server', () => {
  const MIB = 1024 * 1024

  /** Sends without end, and counts the bytes that were read. */
  function endless(start: string): { body: ReadableStream<Uint8Array>; taken: () => number } {
    let sent = 0
    const piece = Buffer.alloc(MIB, 'x')
    const body = new ReadableStream<Uint8Array>({
      start: (controller) => controller.enqueue(Buffer.from(start)),
      pull(controller) {
        sent += 1
        controller.enqueue(piece)
      },
    })
    return { body, taken: () => sent }
  }

  test.each([
    ['responseBytes', 'application/json', '{"jsonrpc":"2.0","id":1,"result":{"text":"'],
    ['eventBytes', 'text/event-stream', 'data: {"jsonrpc":"2.0","id":1,"result":{"text":"'],
  ])(
    'to 16 MiB in one message, with an error that names the option %s',
    async (option, type, start) => {
      const { body, taken } = endless(start)
      const server = scriptedServer({
        'POST tools/call': () => new Response(body, { headers: { 'content-type': type } }),
      })
      await using client = await connectRaw(server, { listen: false })
      await expect(client.failureOf('tools/call')).resolves.toMatchObject({
        code: 'LIMIT',
        message: expect.stringContaining(
          `more than ${16 * MIB} bytes: raise the option limits.${option} `,
        ),
      })
      expect(taken()).toBeGreaterThanOrEqual(16)
      expect(taken()).toBeLessThanOrEqual(20)
      await expect(client.request('ping')).resolves.toHaveProperty('result')
    },
  )

  test('in an error body without an end', async () => {
    const { body, taken } = endless('It broke. ')
    const server = scriptedServer({ 'POST tools/call': () => new Response(body, { status: 500 }) })
    await using client = await connectRaw(server, { listen: false })
    const failure = await client.failureOf('tools/call')
    expect(failure).toMatchObject({ code: 'REJECTED', status: 500 })
    expect(failure.bodyText).toMatch(/^It broke\. x+… \(cut\)$/)
    expect(failure.bodyText?.length).toBeLessThan(2100)
    expect(failure.message.length).toBeLessThan(400)
    expect(taken()).toBeLessThanOrEqual(3)
  })

  test('to the values of the options', async () => {
    const server = scriptedServer({
      'POST tools/call': (seen) => json(resultOf(seen, { text: 'x'.repeat(200) })),
    })
    await using client = rawClient(server, { limits: { responseBytes: 150 }, listen: false })
    await client.transport.start()
    await expect(client.failureOf('tools/call')).resolves.toMatchObject({ code: 'LIMIT' })
  })
})

// Servers and proxies that answer a request with the id of another request. Observed with servers that share
// one SDK transport between clients (GHSA-345p-7cg4-v4c7).
import { Client as ClientV2 } from '@modelcontextprotocol/client'
import { Client as ClientV1 } from '@modelcontextprotocol/sdk/client/index.js'
import { deferred, startLegacyServer, startRecordingProxy } from '@x/mcp-testing'
import type { Exchange } from '@x/mcp-testing'
import { describe, expect, test } from 'vitest'
import { SessionInfo, StreamableHttpTransport } from '../src/index.ts'
import { connectRaw, failureIn, rawClient } from './raw-client.ts'
import { errorOf, json, openSse, resultOf, scriptedServer, sse } from './scripted-server.ts'
import type { Seen } from './scripted-server.ts'
import { getText } from './stock-client.ts'

const sdkClients = { 'SDK v1': ClientV1, 'SDK v2': ClientV2 } as const

describe.each(Object.entries(sdkClients))('%s', (_name, Client) => {
  test.each(['auto', 'sse'] as const)(
    'gets no answer of another call among 10 parallel calls, as %s',
    async (answerAs) => {
      await using server = await startLegacyServer({ answerAs })
      await using proxy = await startRecordingProxy(server.url)
      const client = new Client({ name: 'app', version: '1.0.0' })
      await client.connect(new StreamableHttpTransport(proxy.url, { era: 'legacy' }))
      const release = deferred<'forward'>()
      const match = ({ toolName }: Exchange): boolean => toolName === 'echo'
      proxy.inject({
        match,
        times: 5,
        async action() {
          const held = await proxy.waitFor(() => proxy.exchanges.filter(match).length > 5)
          const { rpcId: id } = proxy.exchanges.findLast(match) ?? held
          const body = JSON.stringify({ jsonrpc: '2.0', id, result: { content: [] } })
          const stream = {
            headers: { 'content-type': 'text/event-stream' },
            body: `data: ${body}\n\n`,
          }
          const answer = { status: 200, ...(answerAs === 'sse' ? stream : { body }) }
          return { type: 'answer', answer, when: 'after-execution' }
        },
      })
      proxy.inject({ match, times: 5, action: () => release.promise })

      const answers: unknown[] = []
      const failures: unknown[] = []
      const failed = deferred()
      const calls = Array.from({ length: 10 }, async (_, n) => {
        const text = `call ${n}`
        try {
          const result = await client.callTool({ name: 'echo', arguments: { text } })
          answers.push(getText(result) === text ? 'own' : `${text} got ${String(getText(result))}`)
        } catch (error) {
          failures.push(error)
        }
        if (answers.length + failures.length === 5) failed.resolve()
      })
      await failed.promise
      release.resolve('forward')
      await Promise.all(calls)

      expect(answers).toEqual(Array.from({ length: 5 }, () => 'own'))
      const message = expect.stringMatching(/with the id of another request/)
      const failure = { data: { code: 'OUTCOME_UNKNOWN', outcome: 'unknown', message } }
      expect(failures).toMatchObject(Array.from({ length: 5 }, () => failure))
      expect(server.executions('echo')).toBe(10)
      await client.close()
    },
  )
})

/** Servers that answer `fast` on its own response with the id of `slow`, which is still open. */
const ways: readonly (readonly [
  name: string,
  answer: (theirs: object, own: object | undefined) => Response,
])[] = [
  ['JSON', (theirs, own) => json(own === undefined ? theirs : [theirs, own])],
  ['a stream', (theirs, own) => sse(theirs, own ?? '')],
  ['a stream with event ids', (theirs, own) => sse('id: e1\ndata:\n\n', theirs, own ?? '')],
]

describe.each(ways)('an answer with the id of another call, in %s', (_name, answer) => {
  test.each([
    ['a result', (id: Seen['id']) => resultOf({ id }, { of: 'fast' })],
    ['an error', (id: Seen['id']) => errorOf({ id }, -32000, 'of fast')],
  ])('with %s: fails the call, and the other call gets its own answer', async (_kind, theirs) => {
    const slow = openSse()
    const server = scriptedServer({
      'POST slow': () => slow.response,
      'POST fast': () => answer(theirs(1), undefined),
    })
    await using client = await connectRaw(server, { listen: false })
    const waiting = client.request('slow')
    const { id } = await server.waitFor('POST slow')
    await expect(client.failureOf('fast')).resolves.toMatchObject({
      code: 'OUTCOME_UNKNOWN',
      message: expect.stringContaining(
        'http://server.test/mcp answered request 2 with the id of another request (1). The answer was dropped, and request 2 may have been executed: find out before you send it again',
      ),
    })
    slow.push(resultOf({ id }, { of: 'slow' }))
    await expect(waiting).resolves.toMatchObject({ result: { of: 'slow' } })
    expect(server.count('GET')).toBe(0)
    expect(client.errors).toEqual([])
  })

  test('is dropped if the own answer follows', async () => {
    const server = scriptedServer((seen) => {
      if (seen.what === 'POST slow') return openSse().response
      const own = resultOf(seen, { of: 'fast' })
      return seen.what === 'POST fast' ? answer(resultOf({ id: 1 }, {}), own) : undefined
    })
    await using client = await connectRaw(server, { listen: false })
    void client.request('slow')
    await server.waitFor('POST slow')
    await expect(client.request('fast')).resolves.toMatchObject({ result: { of: 'fast' } })
  })
})

const quick = { firstMs: 100, maxAttempts: 2 }

describe('a resumed stream', () => {
  test('does not answer another call', async () => {
    const slow = openSse()
    const server = scriptedServer({
      'POST slow': () => slow.response,
      'POST fast': () => sse('id: e1\ndata:\n\n'),
      GET: () => sse(resultOf({ id: 1 }, { of: 'fast' })),
    })
    await using client = await connectRaw(server, { listen: false, reconnect: quick })
    const waiting = client.request('slow')
    const { id } = await server.waitFor('POST slow')
    await expect(client.failureOf('fast')).resolves.toMatchObject({
      code: 'OUTCOME_UNKNOWN',
      message: expect.stringContaining('with the id of another request (1)'),
    })
    slow.push(resultOf({ id }, { of: 'slow' }))
    await expect(waiting).resolves.toMatchObject({ result: { of: 'slow' } })
    expect(server.count('GET')).toBe(1)
  })

  test('accepts its own answer, also after an answer to another call', async () => {
    const server = scriptedServer((seen) => {
      if (seen.what === 'POST slow') return openSse().response
      if (seen.what === 'POST fast') return sse('id: e1\ndata:\n\n')
      if (seen.what !== 'GET') return undefined
      return sse(resultOf({ id: 1 }, {}), resultOf({ id: 2 }, { of: 'fast' }))
    })
    await using client = await connectRaw(server, { listen: false, reconnect: quick })
    void client.request('slow')
    await server.waitFor('POST slow')
    await expect(client.request('fast')).resolves.toMatchObject({ result: { of: 'fast' } })
  })

  test('that is resumed by a token accepts an older id of the request, but not the id of another open call', async () => {
    const server = scriptedServer({
      'POST slow': () => openSse().response,
      GET: () => sse(resultOf({ id: 1 }, { of: 'slow' }), resultOf({ id: 77 }, { of: 'before' })),
    })
    await using client = await connectRaw(server, { listen: false })
    void client.request('slow')
    await server.waitFor('POST slow')
    const resumed = client.request('tools/call', {}, { resumptionToken: 'e1' })
    await expect(resumed).resolves.toMatchObject({ id: 2, result: { of: 'before' } })
  })
})

// rmcp (Rust) sends an answer there if the stream of the request has ended.
describe('an answer on the listening stream', () => {
  test('belongs to the call with its id while the stream of that call is open', async () => {
    const listening = openSse()
    const server = scriptedServer({
      GET: () => listening.response,
      'POST slow': () => openSse().response,
    })
    await using client = await connectRaw(server)
    await server.waitFor('GET')
    const waiting = client.request('slow')
    const { id } = await server.waitFor('POST slow')
    listening.push({ jsonrpc: '2.0', id: null, error: { code: -32000, message: 'whose?' } })
    listening.push(resultOf({ id: 99 }, { of: 'nobody' }))
    listening.push(resultOf({ id: String(id) }, { of: 'slow' }))
    listening.push(resultOf({ id }, { of: 'slow, again' }))
    await expect(waiting).resolves.toMatchObject({ id, result: { of: 'slow' } })
    await client.request('ping')
    expect(client.messages.filter((message) => 'id' in message && message.id === id)).toHaveLength(
      1,
    )
    expect(client.errors).toEqual([])
  })

  test('belongs to the call with its id after the stream of that call has ended', async () => {
    const listening = openSse()
    const server = scriptedServer(({ what, headers }) => {
      if (what === 'GET' && headers.get('last-event-id') === null) return listening.response
      return what === 'POST slow' ? sse('id: e1\nretry: 60000\ndata:\n\n') : undefined
    })
    const ended = deferred()
    await using client = await connectRaw(server, {
      onExchange: ({ rpcMethod }) => rpcMethod === 'slow' && ended.resolve(),
    })
    await server.waitFor('GET')
    const waiting = client.request('slow')
    const { id } = await server.waitFor('POST slow')
    await ended.promise
    listening.push(resultOf({ id }, { of: 'slow' }))
    await expect(waiting).resolves.toMatchObject({ result: { of: 'slow' } })
  })
})

test('treats an error without an id as the answer to the request of that response', async () => {
  const error = { code: -32700, message: 'Parse error' }
  const server = scriptedServer({
    'POST slow': () => openSse().response,
    'POST fast': () => json({ jsonrpc: '2.0', id: null, error }),
  })
  await using client = await connectRaw(server, { listen: false })
  void client.request('slow')
  await server.waitFor('POST slow')
  await expect(client.request('fast')).resolves.toEqual({ jsonrpc: '2.0', id: 2, error })
})

describe('during a handshake', () => {
  test('opens and ends no session after an answer to initialize with another id', async () => {
    const result = { protocolVersion: '2025-11-25', capabilities: {}, serverInfo: {} }
    const server = scriptedServer({
      'POST initialize': () =>
        json(resultOf({ id: 99 }, result), { 'mcp-session-id': 'session-of-another' }),
    })
    await using client = rawClient(server, { listen: false })
    expect(failureIn(await client.handshake())).toMatchObject({
      code: 'OUTCOME_UNKNOWN',
      message: expect.stringContaining('with the id of another request (99)'),
    })
    expect(client.transport.sessionId).toBeUndefined()
    expect(server.count('DELETE')).toBe(0)
  })

  test('does not trust a stored session after an answer to ping with another id', async () => {
    const server = scriptedServer((seen) => {
      if (seen.sessionId !== 'a-known-session') return undefined
      if (seen.what !== 'POST initialize') return json(resultOf({ id: 99 }, {}))
      return json(errorOf(seen, -32600, 'Server already initialized'), {}, 400)
    })
    const sessionInfo = new SessionInfo('a-known-session')
    await using client = rawClient(server, { sessionInfo, listen: false })
    const answer = await client.handshake()
    expect(failureIn(answer)).toMatchObject({ code: 'OUTCOME_UNKNOWN' })
  })
})

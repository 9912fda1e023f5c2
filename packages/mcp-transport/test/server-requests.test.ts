// Requests of the server on the stream of a call, and the responses of the client to them.
import { deferred } from '@x/mcp-testing'
import { isDeepStrictEqual } from 'node:util'
import { describe, expect, test } from 'vitest'
import { isRequest } from '../src/json-rpc.ts'
import type { JsonRpcMessage, StreamableHttpTransportOptions } from '../src/index.ts'
import { connectRaw, failureIn } from './raw-client.ts'
import { errorOf, json, openSse, resultOf, scriptedServer, sse } from './scripted-server.ts'
import type { ScriptedServer, Seen } from './scripted-server.ts'

const asks = { jsonrpc: '2.0', id: 1, method: 'roots/list' } as const
const isCancellation = (message: JsonRpcMessage): boolean =>
  'method' in message && message.method === 'notifications/cancelled'

const answersOf = ({ seen }: ScriptedServer): readonly Seen[] =>
  seen.filter(({ what }) => what === 'POST reply')

// Each session counts its ids from the start.
test('two requests with one id, in two sessions, get their own answers', async () => {
  const streams = [openSse(), openSse()]
  for (const stream of streams) stream.push(asks)
  const server = scriptedServer((seen) => {
    if (seen.what === 'POST tools/call') return streams[server.count(seen.what) - 1]?.response
    if (seen.what !== 'POST tools/list') return undefined
    return seen.sessionId === 'session-1'
      ? json(errorOf(seen, -32001, 'Session not found'), {}, 404)
      : json(resultOf(seen, { tools: [] }))
  })
  await using client = await connectRaw(server, { listen: false, onSessionLost: 'reinitialize' })
  const first = client.request('tools/call')
  await client.until(() => client.messages.some(isRequest))
  await client.request('tools/list') // replaces the session
  void client.request('tools/call')
  await client.until(() => client.messages.filter(isRequest).length === 2)
  const [one, other] = client.messages.filter(isRequest)
  expect(one?.id).toBe(1)
  expect(other?.id).not.toBe(1)
  await client.transport.send({ jsonrpc: '2.0', id: other?.id ?? '', result: { roots: [] } })
  expect(answersOf(server)).toMatchObject([{ sessionId: 'session-2', id: 1 }])
  await client.transport.send({ jsonrpc: '2.0', id: 1, result: { roots: [] } })
  await expect(first).resolves.toMatchObject({ error: { data: { code: 'OUTCOME_UNKNOWN' } } })
})

test('a request that the server cancels is cancelled for the client, once', async () => {
  const stream = openSse()
  stream.push(asks)
  const server = scriptedServer((seen) =>
    seen.what === 'POST tools/call' ? stream.response : undefined,
  )
  await using client = await connectRaw(server, { listen: false })
  void client.request('tools/call')
  await client.until(() => client.messages.some(isRequest))
  const method = 'notifications/cancelled'
  const cancel = (requestId: unknown): void =>
    stream.push({ jsonrpc: '2.0', method, params: { requestId, reason: 'Not needed' } })
  cancel('unknown')
  cancel(1)
  cancel(1)
  await client.until(() => client.messages.some(isCancellation))
  expect(client.messages.filter(isCancellation)).toMatchObject([
    { params: { requestId: 1, reason: 'Not needed' } },
  ])
  await client.transport.send({ jsonrpc: '2.0', id: 1, result: { roots: [] } })
  expect(answersOf(server)).toEqual([])
})

const logged = (data: string) =>
  ({ jsonrpc: '2.0', method: 'notifications/message', params: { level: 'info', data } }) as const

test.each([
  ['request', 'POST tools/call', asks],
  ['notification', 'POST tools/call', logged('cut')],
  ['request', 'GET', asks],
  ['notification', 'GET', logged('cut')],
])('gets a %s once that %s sent without an end, and continues after it', async (_, what, sent) => {
  const resumed = openSse()
  const cut = `id: e2\ndata: ${JSON.stringify(sent)}\n`
  const server = scriptedServer((seen) => {
    const cursor = seen.headers.get('last-event-id')
    if (seen.what === what && cursor === null) return sse(`id: e1\nretry: 1\ndata:\n\n${cut}`)
    if (cursor === 'e1') resumed.push(`${cut}\n`)
    return cursor === null ? undefined : resumed.response
  })
  await using client = await connectRaw(server, { listen: what === 'GET' })
  const answer = what === 'GET' ? undefined : client.request('tools/call')
  const { headers } = await server.waitFor('GET', what === 'GET' ? 2 : 1)
  resumed.push(logged('last'))
  await client.until(() => client.messages.some((one) => isDeepStrictEqual(one, logged('last'))))
  expect(client.messages.filter((one) => isDeepStrictEqual(one, sent))).toHaveLength(1)
  expect(headers.get('last-event-id')).toBe('e2')
  if (answer === undefined) return
  const { id } = await server.waitFor('POST tools/call')
  resumed.push(resultOf({ id }, {}))
  await answer
})

test('sends a response to a request of the server with its session and id', async () => {
  const ask = { jsonrpc: '2.0', id: 'q1', method: 'roots/list' } as const
  const stream = openSse()
  const server = scriptedServer({ 'POST tools/call': () => stream.response })
  await using client = await connectRaw(server)
  const answer = client.request('tools/call')
  const { id } = await server.waitFor('POST tools/call')
  stream.push(ask)
  await client.until(() => client.messages.some((message) => 'method' in message))
  await client.transport.send({ jsonrpc: '2.0', id: 'q1', result: { roots: [] } })
  await client.transport.send({ jsonrpc: '2.0', id: 'q1', result: { roots: [] } }) // answered already
  stream.push(resultOf({ id }, {}))
  await answer
  expect(server.seen.filter(({ what }) => what === 'POST reply')).toMatchObject([
    { id: 'q1', sessionId: 'session-1' },
  ])
})

describe('if the response to a request of the server is not accepted', () => {
  const ask = { jsonrpc: '2.0', id: 'q1', method: 'roots/list' } as const
  const response = { jsonrpc: '2.0', id: 'q1', result: { roots: [] } } as const

  /** A client that waits for a call, and a server that never ends the stream of the call by itself. */
  async function startCall(
    refuse: () => Response | Promise<Response>,
    options: StreamableHttpTransportOptions = {},
  ) {
    const stream = openSse()
    const listening = openSse()
    const server = scriptedServer({
      'POST tools/call': () => stream.response,
      GET: () => listening.response,
      'POST reply': () => refuse(),
    })
    const client = await connectRaw(server, options)
    const call = client.request('tools/call')
    const { id, signal } = await server.waitFor('POST tools/call')
    const asked = client.until(() => client.messages.some((message) => 'method' in message))
    const answer = (): void => stream.push(resultOf({ id }, { paid: true }))
    return { client, server, stream, listening, call, signal, asked, answer }
  }

  const refusals: readonly (readonly [name: string, refuse: () => Response, cause: object])[] = [
    ['401', () => new Response('no', { status: 401 }), { code: 'UNAUTHORIZED', status: 401 }],
    ['400', () => new Response('no', { status: 400 }), { code: 'REJECTED', status: 400 }],
    ['503', () => new Response('no', { status: 503 }), { code: 'REJECTED', status: 503 }],
    ['404', () => new Response('no', { status: 404 }), { code: 'SESSION_LOST', status: 404 }],
    [
      'a broken connection',
      () => {
        throw new Error('reset')
      },
      { code: 'OUTCOME_UNKNOWN' },
    ],
  ]
  test.each(refusals)('but refused with %s, fails its call', async (...[, refuse, cause]) => {
    const { client, stream, call, signal, asked } = await startCall(refuse)
    await using _ = client
    stream.push(ask)
    await asked
    await expect(client.transport.send(response)).rejects.toMatchObject(cause)
    const failure = failureIn(await call)
    expect(failure).toMatchObject({ code: 'OUTCOME_UNKNOWN', outcome: 'unknown', cause })
    expect(failure.message).toContain('find out before you send it again')
    expect(signal.aborted).toBe(true)
  })

  test('but lost with its connection, is sent once more', async () => {
    let answers = 0
    const { client, server, stream, call, asked, answer } = await startCall(() => {
      if (++answers === 1) throw new Error('reset')
      return new Response(null, { status: 202 })
    })
    await using _ = client
    stream.push(ask)
    await asked
    await client.transport.send(response)
    expect(server.seen.filter(({ what }) => what === 'POST reply')).toMatchObject([
      { id: response.id },
      { id: response.id },
    ])
    answer()
    await expect(call).resolves.toMatchObject({ result: { paid: true } })
  })

  test('because it is not JSON, fails its call', async () => {
    const { client, server, stream, call, asked } = await startCall(() => json({}))
    await using _ = client
    stream.push(ask)
    await asked
    const notJson = { ...response, result: { big: 1n } }
    await expect(client.transport.send(notJson)).rejects.toMatchObject({
      code: 'CONFIG',
      cause: expect.any(TypeError),
    })
    expect(failureIn(await call)).toMatchObject({ code: 'OUTCOME_UNKNOWN' })
    expect(server.count('POST reply')).toBe(0)
  })

  test('opens another session after a 404, and does not send the call again', async () => {
    const refuse = (): Response => new Response('no', { status: 404 })
    const options = { onSessionLost: 'reinitialize' } as const
    const { client, server, stream, call, asked } = await startCall(refuse, options)
    await using _ = client
    stream.push(ask)
    await asked
    await expect(client.transport.send(response)).rejects.toMatchObject({ code: 'SESSION_LOST' })
    expect(failureIn(await call)).toMatchObject({ code: 'OUTCOME_UNKNOWN' })
    await expect(client.request('ping')).resolves.toHaveProperty('result')
    expect(client.transport.sessionId).toBe('session-2')
    expect(server.count('POST tools/call')).toBe(1)
  })

  test('fails the call also if its stream was resumed before the request', async () => {
    const { client, stream, listening, call, asked } = await startCall(
      () => new Response('no', { status: 500 }),
      { listen: false, reconnect: { firstMs: 1 } },
    )
    await using _ = client
    stream.push('id: 1\ndata: \n\n')
    stream.end()
    listening.push(ask) // the response to the GET that resumes the stream
    await asked
    await expect(client.transport.send(response)).rejects.toMatchObject({ status: 500 })
    expect(failureIn(await call)).toMatchObject({ code: 'OUTCOME_UNKNOWN' })
  })

  test('fails no call if the request came on the listening stream', async () => {
    const refuse = (): Response => new Response('no', { status: 500 })
    const { client, listening, call, asked, answer } = await startCall(refuse)
    await using _ = client
    listening.push(ask)
    await asked
    await expect(client.transport.send(response)).rejects.toMatchObject({ status: 500 })
    answer()
    await expect(call).resolves.toMatchObject({ result: { paid: true } })
  })

  test('fails only the call that the request belongs to', async () => {
    const streams = [openSse(), openSse()] as const
    const server = scriptedServer({
      'POST reply': () => new Response('no', { status: 500 }),
      'POST tools/call': (seen) => streams[seen.id === 1 ? 0 : 1].response,
    })
    await using client = await connectRaw(server, { listen: false })
    const calls = [client.request('tools/call'), client.request('tools/call')] as const
    await server.waitFor('POST tools/call', 2)
    streams[1].push(ask)
    await client.until(() => client.messages.some((message) => 'method' in message))
    await expect(client.transport.send(response)).rejects.toMatchObject({ status: 500 })
    expect(failureIn(await calls[1])).toMatchObject({ code: 'OUTCOME_UNKNOWN' })
    streams[0].push(resultOf({ id: 1 }, { paid: true }))
    await expect(calls[0]).resolves.toMatchObject({ result: { paid: true } })
  })

  test.each(['answered', 'cancelled'] as const)(
    'keeps the end of a call that was %s meanwhile',
    async (end) => {
      const received = deferred()
      const refused = deferred()
      const { client, stream, call, asked, answer } = await startCall(async () => {
        received.resolve()
        await refused.promise
        return new Response('no', { status: 500 })
      })
      await using _ = client
      stream.push(ask)
      await asked
      const sent = client.transport.send(response)
      await received.promise
      if (end === 'cancelled') await client.notify('notifications/cancelled', { requestId: 1 })
      else answer()
      refused.resolve()
      await expect(sent).rejects.toMatchObject({ status: 500 })
      if (end === 'answered') await call
      await client.request('ping')
      const answers = client.messages.filter((message) => 'id' in message && message.id === 1)
      expect(answers).toMatchObject(end === 'answered' ? [{ result: { paid: true } }] : [])
    },
  )
})

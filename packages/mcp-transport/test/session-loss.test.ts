// All observed forms of refusing a session, with HTTP exchanges.
import type { LossForm } from '@x/mcp-testing'
import { deferred, lossForms } from '@x/mcp-testing'
import { describe, expect, test } from 'vitest'
import { SessionInfo, TransportError } from '../src/index.ts'
import type { JsonRpcResponse } from '../src/index.ts'
import { connectRaw, openedBefore } from './raw-client.ts'
import { json, openSse, resultOf, scriptedServer, sse } from './scripted-server.ts'
import type { ScriptedServer, Seen } from './scripted-server.ts'

const forms = Object.entries(lossForms)

/** A server that opens sessions and loses all of them. */
function forgetfulServer(form: LossForm): ScriptedServer {
  return scriptedServer({ 'POST tools/call': (seen) => answerOf(form, seen) })
}

function answerOf({ status, headers = {}, body = '' }: LossForm, seen: Seen): Response {
  const text = typeof body === 'function' ? body(seen.id ?? null) : body
  const type = text.startsWith('{') ? { 'content-type': 'application/json' } : {}
  return new Response(text === '' ? null : text, { status, headers: { ...type, ...headers } })
}

/** Verdict about the session in the error that the client got. */
function verdictIn(answer: JsonRpcResponse): string {
  const data = 'error' in answer ? answer.error.data : undefined
  if (!TransportError.is(data) || data.code !== 'SESSION_LOST') return 'not-lost'
  return data.certain === true ? 'lost' : 'ambiguous'
}

const keptBy = (verdict: string): string | undefined =>
  verdict === 'not-lost' ? 'session-1' : undefined

describe.each(['new', 'resumed'] as const)('a loss in a %s session', (kind) => {
  test.each(forms)('is reported to the call: %s', async (_name, form) => {
    const server = forgetfulServer(form)
    const sessionInfo = kind === 'new' ? new SessionInfo() : await openedBefore(server)
    await using client = await connectRaw(server, { sessionInfo, listen: false })
    const answer = await client.request('tools/call')
    const { verdict } = form
    expect(verdictIn(answer)).toBe(verdict)
    // The store is empty before the client gets the answer.
    await expect(sessionInfo.getSessionId()).resolves.toBe(keptBy(verdict))
    expect(client.transport.sessionId).toBe(keptBy(verdict))
    expect(server.count('POST initialize')).toBe(1)
    expect(server.count('POST tools/call')).toBe(1)
    expect(client.errors).toEqual([])
  })
})

test.each(['404-32001', '200-32600', '400-32600', '429'] as const)(
  'reports the loss to ten concurrent calls: %s',
  async (name) => {
    const form = lossForms[name]
    const server = forgetfulServer(form)
    await using client = await connectRaw(server, { listen: false })
    const answers = await Promise.all(
      Array.from({ length: 10 }, () => client.request('tools/call')),
    )
    expect(answers.map(verdictIn)).toEqual(Array.from({ length: 10 }, () => form.verdict))
    expect(client.transport.sessionId).toBe(keptBy(form.verdict))
    expect(server.count('POST tools/call')).toBe(10)
    expect(server.count('POST initialize')).toBe(1)
  },
)

test.each([
  [429, {}],
  [500, { 'retry-after': '1' }],
  [403, { 'www-authenticate': 'Bearer' }],
])('keeps the session after several refusals with %i and %j', async (status, headers) => {
  await using client = await connectRaw(
    scriptedServer({ 'POST tools/call': () => new Response(null, { status, headers }) }),
    { listen: false },
  )
  for (let call = 0; call < 3; call++) await client.request('tools/call')
  expect(client.transport.sessionId).toBe('session-1')
})

test('has the generation of the session and the refusal in the error', async () => {
  await using client = await connectRaw(forgetfulServer(lossForms['404-32001']), { listen: false })
  await expect(client.failureOf('tools/call')).resolves.toMatchObject({
    code: 'SESSION_LOST',
    epoch: 1,
    status: 404,
    serverError: { code: -32001, message: 'Session not found' },
  })
})

const lost = (): Response => new Response(null, { status: 404 })

describe('after a loss', () => {
  test('the same transport may open the next session', async () => {
    const server = scriptedServer((seen) =>
      seen.sessionId === 'session-1' && seen.what === 'POST tools/call' ? lost() : undefined,
    )
    const sessionInfo = await openedBefore(server)
    await using client = await connectRaw(server, { sessionInfo, listen: false })
    expect(client.transport.isResumed).toBe(true)
    await client.request('tools/call')
    await client.request('initialize', server.seen[0]?.params)
    expect(client.transport.sessionId).toBe('session-2')
    await expect(client.request('tools/call')).resolves.toHaveProperty('result')
  })

  test('another call in flight still gets its answer', async () => {
    const stream = openSse()
    const server = scriptedServer({
      'POST slow': () => stream.response,
      'POST tools/call': () => lost(),
    })
    await using client = await connectRaw(server, { listen: false })
    const slow = client.request('slow')
    const { id } = await server.waitFor('POST slow')
    await client.request('tools/call')
    stream.push(resultOf({ id }, { ok: true }))
    await expect(slow).resolves.toMatchObject({ result: { ok: true } })
  })

  test('the outcome is not certain if a message for the call has arrived', async () => {
    const stream = openSse()
    const server = scriptedServer({ 'POST tools/call': () => stream.response })
    await using client = await connectRaw(server, { listen: false })
    const failure = client.failureOf('tools/call')
    await server.waitFor('POST tools/call')
    stream.push({ jsonrpc: '2.0', method: 'notifications/message', params: {} })
    stream.push({ error: 'Session not found' })
    await expect(failure).resolves.toMatchObject({ code: 'SESSION_LOST', certain: false })
  })

  test('an error with another id counts if no other answer arrives', async () => {
    const error = { code: -32001, message: 'Session not found' }
    const server = scriptedServer({
      'POST tools/call': () => json({ jsonrpc: '2.0', id: 'server-error', error }),
    })
    await using client = await connectRaw(server, { listen: false })
    await expect(client.failureOf('tools/call')).resolves.toMatchObject({
      code: 'SESSION_LOST',
      certain: false,
    })
  })

  test('that a notification detects, the notification rejects, and the next request is not sent', async () => {
    const server = scriptedServer({ 'POST notifications/progress': () => lost() })
    await using client = await connectRaw(server, { listen: false })
    await expect(client.notify('notifications/progress')).rejects.toMatchObject({
      code: 'SESSION_LOST',
    })
    await expect(client.failureOf('ping')).resolves.toMatchObject({ code: 'SESSION_LOST' })
    expect(server.count('POST ping')).toBe(0)
  })

  test('replies to requests of the lost session are dropped, and their calls fail', async () => {
    const stream = openSse()
    const server = scriptedServer({
      'POST slow': () => stream.response,
      'POST tools/call': () => lost(),
    })
    await using client = await connectRaw(server, { listen: false })
    const slow = client.failureOf('slow')
    await server.waitFor('POST slow')
    stream.push({ jsonrpc: '2.0', id: 'q1', method: 'roots/list' })
    await client.until(() => client.messages.some((message) => 'method' in message))
    await client.request('tools/call')
    await client.transport.send({ jsonrpc: '2.0', id: 'q1', result: {} })
    expect(server.count('POST reply')).toBe(0)
    await expect(slow).resolves.toMatchObject({
      code: 'OUTCOME_UNKNOWN',
      cause: { code: 'SESSION_LOST' },
    })
  })

  test('a server without sessions only rejects the request', async () => {
    const server = scriptedServer((seen) => {
      if (seen.what === 'POST tools/call') return lost()
      if (seen.what !== 'POST initialize') return undefined
      return json(
        resultOf(seen, { protocolVersion: '2025-06-18', capabilities: {}, serverInfo: {} }),
      )
    })
    await using client = await connectRaw(server, { listen: false })
    await expect(client.failureOf('tools/call')).resolves.toMatchObject({ code: 'REJECTED' })
    await expect(client.request('ping')).resolves.toHaveProperty('result')
    await client.transport.terminateSession()
    expect(server.count('DELETE')).toBe(0)
  })

  test('and not after a refused GET: the session is kept', async () => {
    const server = scriptedServer({ GET: () => new Response('Session not found', { status: 404 }) })
    await using client = await connectRaw(server)
    await server.waitFor('GET')
    await expect(client.request('ping')).resolves.toHaveProperty('result')
    expect(client.transport.sessionId).toBe('session-1')
  })
})

test('drops the cancellation of an unknown request, because its id may belong to another session', async () => {
  const params = { requestId: 7 }
  const server = scriptedServer({
    'POST tools/call': (seen) =>
      sse({ jsonrpc: '2.0', method: 'notifications/cancelled', params }, resultOf(seen, {})),
  })
  await using client = await connectRaw(server, { listen: false })
  await client.request('tools/call')
  expect(client.messages.filter((message) => 'method' in message)).toEqual([])
})

test('terminates a session that replaces a lost one during terminateSession()', async () => {
  let initialized = 0
  const accepted = deferred()
  const server = scriptedServer((seen) => {
    if (seen.what === 'POST tools/call') return new Response(null, { status: 404 })
    const isSecond = seen.what === 'POST notifications/initialized' && ++initialized === 2
    return isSecond ? accepted.promise.then(() => new Response(null, { status: 202 })) : undefined
  })
  await using client = await connectRaw(server, { listen: false, onSessionLost: 'reinitialize' })
  const call = client.request('tools/call')
  await server.waitFor('POST notifications/initialized', 2)
  await client.transport.terminateSession()
  accepted.resolve()
  await call
  expect((await server.waitFor('DELETE')).sessionId).toBe('session-2')
})

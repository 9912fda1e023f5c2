import { createHook } from 'node:async_hooks'
import { setImmediate as nextTurn } from 'node:timers/promises'
import { stopClock } from '@x/internal/testing/clock'
import { deferred, startLegacyServer, startModernServer } from '@x/mcp-testing'
import { describe, expect, test } from 'vitest'
import { SessionInfo } from '../src/index.ts'
import type { HeadersOption } from '../src/index.ts'
import { connectRaw, failureIn, openedBefore, rawClient } from './raw-client.ts'
import { openSse, resultOf, scriptedServer, sse } from './scripted-server.ts'

const cancelled = 'notifications/cancelled'

describe('cancelling a request', () => {
  test('posts a notification, and closes the exchange of the call', async () => {
    await using server = await startLegacyServer({ answerAs: 'sse', listenStream: 'refuse-405' })
    await using client = await connectRaw(server.url, { era: 'legacy', listen: false })
    void client.request('tools/call', { name: 'slow', arguments: {} })
    await server.waitFor(({ toolName }) => toolName === 'slow')
    stopClock() // a cancellation has a time limit
    await client.notify(cancelled, { requestId: 1, reason: 'no longer needed' })
    const { params, sessionId } = await server.waitFor(({ rpcMethod }) => rpcMethod === cancelled)
    expect(params).toEqual({ requestId: 1, reason: 'no longer needed' })
    expect(sessionId).toBe(client.transport.sessionId)
    expect(server.ledger.received({ tool: 'slow', state: 'cancelled' })).toBe(1)
    expect(client.messages).toHaveLength(1)
  })

  test('uses the converted request id in a resumed session', async () => {
    const stream = openSse()
    const server = scriptedServer({ 'POST tools/call': () => stream.response })
    const sessionInfo = await openedBefore(server)
    await using client = await connectRaw(server, { sessionInfo, listen: false })
    void client.request('tools/call')
    const { id, signal } = await server.waitFor('POST tools/call')
    await client.notify(cancelled, { requestId: 1 })
    expect(server.seen.at(-1)?.params).toEqual({ requestId: id })
    expect(signal.aborted).toBe(true)
  })

  test('does nothing for answered and unknown requests', async () => {
    const server = scriptedServer()
    await using client = await connectRaw(server, { listen: false })
    await client.request('ping')
    await client.notify(cancelled, { requestId: 1 })
    await client.notify(cancelled, { requestId: 99 })
    await client.notify(cancelled)
    expect(server.count(`POST ${cancelled}`)).toBe(0)
  })

  test('sends neither the call nor the cancellation if the call still waits for its headers', async () => {
    const gate = deferred()
    const asked = deferred()
    const server = scriptedServer()
    await using client = await connectRaw(server, {
      listen: false,
      headers: async ({ rpcMethod }) => {
        if (rpcMethod === 'tools/call') {
          asked.resolve()
          await gate.promise
        }
        return {}
      },
    })
    void client.request('tools/call')
    await asked.promise
    await client.notify(cancelled, { requestId: 1 })
    gate.resolve()
    await client.request('ping')
    expect(server.wire.slice(2)).toEqual(['POST ping'])
  })

  test.each(['legacy', 'modern'] as const)(
    'sends nothing if the header function of the call cancels it: %s',
    async (era) => {
      await using server = await (era === 'legacy' ? startLegacyServer() : startModernServer())
      let cancel = (): void => {}
      await using client = await connectRaw(server.url, {
        era,
        listen: false,
        headers: ({ rpcMethod }) => {
          if (rpcMethod === 'tools/call') cancel()
          return {}
        },
      })
      cancel = () => void client.notify(cancelled, { requestId: 1 })
      void client.request('tools/call', { name: 'echo', arguments: { text: 'x' } })
      await client.request('ping')
      await client.request('ping') // the connection of the call is free by now, if there was one
      expect(server.received.map(({ rpcMethod }) => rpcMethod)).not.toContain('tools/call')
    },
  )

  test('sends the cancellation also directly after the request', async () => {
    const stream = openSse()
    const server = scriptedServer({ 'POST tools/call': () => stream.response })
    await using client = await connectRaw(server, { listen: false })
    void client.request('tools/call')
    await client.notify(cancelled, { requestId: 1 })
    await client.request('ping')
    expect(server.count('POST tools/call')).toBe(server.count(`POST ${cancelled}`))
  })

  // A session in a late answer is terminated: see late-sessions.test.ts.
  test('sends no message for initialize', async () => {
    const late = deferred<Response>()
    const server = scriptedServer({ 'POST initialize': () => late.promise })
    await using client = rawClient(server)
    void client.handshake()
    await server.waitFor('POST initialize')
    await client.notify(cancelled, { requestId: 0 })
    late.resolve(new Response(null, { status: 503 }))
    await client.transport.close()
    expect(server.wire).toEqual(['POST initialize'])
  })

  test('does not report a lost session', async () => {
    const stream = openSse()
    const server = scriptedServer((seen) => {
      if (seen.what === 'POST tools/call') return stream.response
      return seen.what === `POST ${cancelled}` ? new Response(null, { status: 404 }) : undefined
    })
    await using client = await connectRaw(server, { listen: false })
    void client.request('tools/call')
    await server.waitFor('POST tools/call')
    await expect(client.notify(cancelled, { requestId: 1 })).rejects.toMatchObject({
      code: 'SESSION_LOST',
    })
    expect(client.messages).toHaveLength(1)
    await expect(client.failureOf('ping')).resolves.toHaveProperty('code', 'SESSION_LOST')
  })
})

test('close() in a listener to exchanges ends a refused call: no token is requested, and it is not sent again', async () => {
  let token = 'old'
  const server = scriptedServer({
    'POST tools/call': () =>
      new Response(null, { status: 401, headers: { 'www-authenticate': 'Bearer' } }),
  })
  const statuses: unknown[] = []
  const client = await connectRaw(server, {
    listen: false,
    authProvider: {
      token: async () => token,
      onUnauthorized: async () => {
        token = 'new'
      },
    },
    onExchange: ({ rpcMethod, status }) => {
      if (rpcMethod !== 'tools/call') return
      statuses.push(status)
      void client.transport.close()
    },
  })
  expect(await client.failureOf('tools/call')).toMatchObject({ code: 'CLOSED' })
  await client.transport.close()
  await nextTurn()
  await nextTurn()
  expect(server.count('POST tools/call')).toBe(1)
  expect(statuses).toEqual([401])
  expect(token).toBe('old')
})

test('keeps no timer of a cancellation or a DELETE after close()', async () => {
  const timers = new Set<number>()
  const hook = createHook({
    init(id, type) {
      if (type === 'Timeout' && new Error().stack?.includes('/mcp-transport/src/')) timers.add(id)
    },
    destroy: (id) => void timers.delete(id),
  }).enable()
  const stream = openSse()
  const server = scriptedServer({ 'POST tools/call': () => stream.response })
  const client = await connectRaw(server, { listen: false })
  void client.request('tools/call')
  await server.waitFor('POST tools/call')
  await client.notify(cancelled, { requestId: 1 })
  await client.transport.terminateSession()
  await client.transport.close()
  await nextTurn()
  await nextTurn()
  hook.disable()
  expect(timers).toEqual(new Set())
})

describe('a response stream that breaks', () => {
  test('is resumed at its last event id, and delivers the answer', async () => {
    await using server = await startLegacyServer({ answerAs: 'sse' })
    await using client = await connectRaw(server.url, {
      era: 'legacy',
      listen: false,
      reconnect: { firstMs: 1 },
    })
    const tokens: string[] = []
    const answer = client.request(
      'tools/call',
      { name: 'slow', arguments: {} },
      { onresumptiontoken: (token) => void tokens.push(token) },
    )
    await server.waitFor(({ toolName }) => toolName === 'slow')
    await client.request('ping') // the stream of the call is open now
    server.dropAnswerStreams()
    const get = await server.waitFor(({ httpMethod }) => httpMethod === 'GET')
    server.release('done')
    await expect(answer).resolves.toHaveProperty('result')
    expect(get.lastEventId).toBe(tokens[0])
    expect(server.executions('slow')).toBe(1)
  })

  test.each([
    ['with retry on the first stream only', ''],
    ['with retry on every stream', 'retry: 0\nid: e1\ndata:\n\n'],
  ])(
    'is polled until the answer arrives if the server closes it on purpose: %s',
    async (_name, poll) => {
      const at: number[] = []
      const server = scriptedServer((seen) => {
        if (seen.what === 'POST tools/call') return sse('retry: 0\nid: e1\ndata:\n\n')
        if (seen.what !== 'GET') return undefined
        at.push(performance.now())
        return at.length < 6 ? sse(poll) : sse(resultOf({ id: 1 }, { ok: true }))
      })
      await using client = await connectRaw(server, { listen: false, reconnect: { firstMs: 1 } })
      await expect(client.request('tools/call')).resolves.toMatchObject({ result: { ok: true } })
      expect(server.count('POST tools/call')).toBe(1)
      const gaps = at.slice(1).map((ms, n) => ms - (at[n] ?? 0))
      expect(Math.min(...gaps)).toBeGreaterThan(95) // retry: 0 does not cause requests without a pause
    },
  )

  test('fails the call if a polled stream breaks repeatedly', async () => {
    const server = scriptedServer((seen) => {
      if (seen.what === 'POST tools/call') return sse('retry: 0\nid: e1\ndata:\n\n')
      if (seen.what !== 'GET') return undefined
      const stream = openSse()
      setImmediate(() => stream.cut())
      return stream.response
    })
    await using client = await connectRaw(server, { listen: false, reconnect: { firstMs: 1 } })
    await expect(client.failureOf('tools/call')).resolves.toHaveProperty('code', 'OUTCOME_UNKNOWN')
    expect(server.count('GET')).toBe(2)
  })

  test('fails the call if its resumed streams stay empty after a refusal with Retry-After', async () => {
    let gets = 0
    const server = scriptedServer({
      'POST tools/call': () => sse('id: e1\ndata:\n\n'),
      GET: () => {
        gets += 1
        if (gets > 9) return sse(resultOf({ id: 1 }, { ok: true })) // ends the test if attempts have no bound
        return gets === 1
          ? new Response(null, { status: 503, headers: { 'retry-after': '0' } })
          : sse('')
      },
    })
    const reconnect = { firstMs: 1, maxAttempts: 3 }
    await using client = await connectRaw(server, { listen: false, reconnect })
    await expect(client.failureOf('tools/call')).resolves.toHaveProperty('code', 'OUTCOME_UNKNOWN')
    expect(gets).toBe(3)
  })

  test('is not resumed after a refusal', async () => {
    const server = scriptedServer({ 'POST tools/call': () => sse('id: e1\ndata:\n\n') })
    await using client = await connectRaw(server, { listen: false, reconnect: { firstMs: 1 } })
    await expect(client.failureOf('tools/call')).resolves.toMatchObject({
      code: 'OUTCOME_UNKNOWN',
      cause: { status: 405 },
    })
    expect(server.count('GET')).toBe(1)
  })

  test('fails the call at once with maxAttempts: 0', async () => {
    const server = scriptedServer({ 'POST tools/call': () => sse('id: e1\ndata:\n\n') })
    await using client = await connectRaw(server, { listen: false, reconnect: { maxAttempts: 0 } })
    await expect(client.failureOf('tools/call')).resolves.toHaveProperty('code', 'OUTCOME_UNKNOWN')
    expect(server.count('GET')).toBe(0)
  })
})

describe('close()', () => {
  test('answers calls in flight, and calls onclose once and nothing after it', async () => {
    const stream = openSse()
    const listening = openSse()
    const server = scriptedServer({
      'POST tools/call': () => stream.response,
      GET: () => listening.response,
    })
    const client = await connectRaw(server)
    const call = client.request('tools/call')
    const [post, get] = await Promise.all([
      server.waitFor('POST tools/call'),
      server.waitFor('GET'),
    ])
    await Promise.all([client.transport.close(), client.transport.close()])
    await client.transport.close()
    expect(failureIn(await call)).toHaveProperty('code', 'CLOSED')
    expect([post.signal.aborted, get.signal.aborted]).toEqual([true, true])
    const count = client.messages.length
    stream.push(resultOf({ id: 1 }, {}))
    listening.push({ jsonrpc: '2.0', method: 'notifications/message' })
    await new Promise(setImmediate)
    expect(client).toMatchObject({ closed: 1, errors: [] })
    expect(client.messages).toHaveLength(count)
    expect(client.transport.onmessage).toBeUndefined()
    expect(client.transport.sessionId).toBeUndefined()
    expect(server.count('DELETE')).toBe(0)
  })

  test('sends no request that still waits for its headers', async () => {
    const gate = deferred()
    const asked = deferred()
    const server = scriptedServer()
    const client = await connectRaw(server, {
      listen: false,
      headers: async ({ rpcMethod }) => {
        if (rpcMethod === 'tools/call') {
          asked.resolve()
          await gate.promise
        }
        return {}
      },
    })
    const call = client.request('tools/call')
    await asked.promise
    await client.transport.close()
    gate.resolve()
    expect(failureIn(await call)).toHaveProperty('code', 'CLOSED')
    expect(server.count('POST tools/call')).toBe(0)
  })

  test('aborts a notification without a response, also on a dispatcher of the user', async () => {
    const server = scriptedServer({ 'POST notifications/progress': () => new Promise(() => {}) })
    const client = await connectRaw(server, { listen: false })
    const notified = client.notify('notifications/progress')
    const { signal } = await server.waitFor('POST notifications/progress')
    await client.transport.close()
    await expect(notified).rejects.toHaveProperty('code', 'CLOSED')
    expect(signal.aborted).toBe(true)
  })

  test('keeps a dispatcher of the user open, and closes its own', async () => {
    await using server = await startLegacyServer()
    const client = await connectRaw(server.url, { era: 'legacy' })
    await server.waitFor(({ httpMethod }) => httpMethod === 'GET')
    await client.transport.close()
    await server.restart() // would wait for an open socket
    const shared = scriptedServer()
    await rawClient(shared).transport.close()
    await using next = rawClient(shared)
    await expect(next.handshake()).resolves.toHaveProperty('result')
  })

  test('works before start(), and refuses later messages', async () => {
    const client = rawClient(scriptedServer())
    await client.transport.close()
    await expect(client.request('ping')).rejects.toHaveProperty('code', 'CLOSED')
    expect(client.closed).toBe(1)
  })

  test('throws a TypeError when start() is called twice', async () => {
    await using client = rawClient(scriptedServer())
    await client.transport.start()
    await expect(client.transport.start()).rejects.toThrow(TypeError)
  })
})

describe('terminateSession()', () => {
  test('terminates the session, answers calls in flight, and sends nothing more in it', async () => {
    const stream = openSse()
    const server = scriptedServer({ 'POST tools/call': () => stream.response })
    const sessionInfo = new SessionInfo()
    await using client = await connectRaw(server, { sessionInfo, listen: false })
    const call = client.request('tools/call')
    await server.waitFor('POST tools/call')
    await Promise.all([client.transport.terminateSession(), client.transport.terminateSession()])
    expect(failureIn(await call)).toMatchObject({ code: 'CLOSED' })
    await expect(client.failureOf('ping')).resolves.toMatchObject({ code: 'CLOSED' })
    await client.transport.terminateSession()
    expect(server.wire.slice(-1)).toEqual(['DELETE'])
    expect(server.count('DELETE')).toBe(1)
    await expect(sessionInfo.getSessionId()).resolves.toBeUndefined()
  })

  test('ends within its limit while it waits for the headers of its request', async () => {
    const server = scriptedServer()
    const headers: HeadersOption = ({ httpMethod }) =>
      httpMethod === 'DELETE' ? new Promise(() => {}) : {}
    await using client = await connectRaw(server, { headers, listen: false })
    await expect(client.transport.terminateSession()).rejects.toMatchObject({ code: 'TIMEOUT' })
    expect(server.count('DELETE')).toBe(0)
  })

  test('rejects if the session may still exist, and can be called again', async () => {
    let isDown = true
    const server = scriptedServer((seen) =>
      seen.what === 'DELETE' && isDown ? new Response('later', { status: 500 }) : undefined,
    )
    const sessionInfo = new SessionInfo()
    await using client = await connectRaw(server, { sessionInfo, listen: false })
    await expect(client.transport.terminateSession()).rejects.toMatchObject({ status: 500 })
    await expect(sessionInfo.getSessionId()).resolves.toBe('session-1')
    isDown = false
    await client.transport.terminateSession()
    await expect(sessionInfo.getSessionId()).resolves.toBeUndefined()
  })

  test('ends a stored session, without a handshake', async () => {
    const server = scriptedServer()
    const sessionInfo = new SessionInfo('a-known-session')
    await using client = rawClient(server, { sessionInfo })
    await client.transport.terminateSession()
    expect(server.seen).toMatchObject([{ what: 'DELETE', sessionId: 'a-known-session' }])
    await expect(sessionInfo.getSessionId()).resolves.toBeUndefined()
  })

  test('does not terminate a resumed session that another process has replaced', async () => {
    const server = scriptedServer()
    const sessionInfo = await openedBefore(server)
    await using client = await connectRaw(server, { sessionInfo, listen: false })
    await sessionInfo.setSessionId('theirs')
    await client.transport.terminateSession()
    expect(server.count('DELETE')).toBe(0)
    await expect(sessionInfo.getSessionId()).resolves.toBe('theirs')
  })
})

test('reports a failing store, and calls work', async () => {
  class Broken extends SessionInfo {
    override async setRecord(): Promise<void> {
      throw new Error('disk full')
    }
  }
  await using client = await connectRaw(scriptedServer(), {
    sessionInfo: new Broken(),
    listen: false,
  })
  await expect(client.request('ping')).resolves.toHaveProperty('result')
  expect(client.errors).toMatchObject([
    { code: 'RECORD_UNUSABLE', cause: { message: 'disk full' } },
  ])
})

// A plain client on a transport that replaces lost sessions.
import { deferred, lossForms, startRecordingProxy, startLegacyServer } from '@x/mcp-testing'
import type {
  CannedAnswer,
  Exchange,
  LegacyServer,
  LegacyServerOptions,
  RecordingProxy,
} from '@x/mcp-testing'
import { stopClock } from '@x/internal/testing/clock'
import { describe, expect, test, vi } from 'vitest'
import { SessionInfo, StreamableHttpTransport } from '../src/index.ts'
import type { SessionReplaced, StreamableHttpTransportOptions } from '../src/index.ts'
import { connectRaw, failureIn, RawClient } from './raw-client.ts'
import { openSse, resultOf, scriptedServer, sse } from './scripted-server.ts'
import type { Seen } from './scripted-server.ts'

interface Healing extends AsyncDisposable {
  readonly server: LegacyServer
  readonly proxy: RecordingProxy
  readonly client: HealingClient
}

type HealingClient = RawClient & { readonly replaced: readonly SessionReplaced[] }

function healingClient(
  server: { readonly url: string },
  options: StreamableHttpTransportOptions = {},
): HealingClient {
  const replaced: SessionReplaced[] = []
  const transport = new StreamableHttpTransport(server.url, {
    era: 'legacy',
    onSessionLost: 'reinitialize',
    onSessionReplaced: (event) => replaced.push(event),
    ...options,
  })
  return Object.assign(new RawClient(transport), { replaced })
}

/** A client with a session on a real server. */
async function healing(
  serverOptions: LegacyServerOptions = {},
  options: StreamableHttpTransportOptions = {},
): Promise<Healing> {
  const server = await startLegacyServer(serverOptions)
  const proxy = await startRecordingProxy(server.url)
  const client = healingClient(proxy, options)
  await client.handshake()
  return {
    server,
    proxy,
    client,
    async [Symbol.asyncDispose]() {
      await client[Symbol.asyncDispose]()
      await proxy.close()
      await server[Symbol.asyncDispose]()
    },
  }
}

const add = { name: 'counter_add', arguments: {} }

const lostFirst = ({ sessionId }: Seen): Response | undefined =>
  sessionId === 'session-1' ? new Response(null, { status: 404 }) : undefined

test('sends one handshake for 100 concurrent calls on a lost session, and executes each call once', async () => {
  await using given = await healing()
  const { server, client } = given
  server.forgetSessions()
  const answers = await Promise.all(
    Array.from({ length: 100 }, () => client.request('tools/call', add)),
  )
  expect(answers.every((answer) => 'result' in answer)).toBe(true)
  expect(server.count('initialize')).toBe(2)
  expect(server.executions('counter_add')).toBe(100)
  expect(server.sessions).toHaveLength(1)
  expect(client.replaced).toHaveLength(1)
  expect(client.errors).toEqual([])
})

test('reports the replacement once with shortened ids', async () => {
  await using given = await healing()
  const { server, client } = given
  const before = client.transport.sessionId ?? ''
  server.forgetSessions()
  await client.request('tools/call', add)
  const after = client.transport.sessionId ?? ''
  expect(after).not.toBe(before)
  const [event] = client.replaced
  expect(event).toMatchObject({ oldEpoch: 1, newEpoch: 2 })
  expect(event?.oldSessionId).toContain(before.slice(0, 4))
  expect(event?.newSessionId).toContain(after.slice(0, 4))
  expect(JSON.stringify(client.replaced)).not.toContain(before)
  expect(JSON.stringify(client.replaced)).not.toContain(after)
})

test('ignores an error of the callback onSessionReplaced', async () => {
  const options: StreamableHttpTransportOptions = {
    onSessionReplaced: () => {
      throw new Error('Not interested')
    },
  }
  await using given = await healing({}, options)
  given.server.forgetSessions()
  await expect(given.client.request('tools/call', add)).resolves.toHaveProperty('result')
  expect(given.client.errors).toMatchObject([{ message: 'Not interested' }])
})

test('repeats the log level and subscriptions in the new session', async () => {
  await using given = await healing()
  const { server, client } = given
  await client.request('logging/setLevel', { level: 'warning' })
  await client.request('logging/setLevel', { level: 'error' })
  const { result } = (await client.request('resources/list')) as {
    result?: { resources: { uri: string }[] }
  }
  const uri = result?.resources[0]?.uri ?? ''
  await client.request('resources/subscribe', { uri })
  server.forgetSessions()
  const at = server.received.length
  await client.request('tools/call', add)
  const again = (method: string): Promise<unknown> =>
    server.waitFor((one) => one.rpcMethod === method && server.received.indexOf(one) >= at)
  await expect(again('logging/setLevel')).resolves.toMatchObject({ params: { level: 'error' } })
  await expect(again('resources/subscribe')).resolves.toMatchObject({ params: { uri } })
  expect(server.count('logging/setLevel')).toBe(3)
  // The answers to these requests reach no caller.
  await client.request('ping')
  expect(client.errors).toEqual([])
})

test('replaces a session that is lost while it gets the subscriptions, and reports one that the server refuses', async () => {
  await using given = await healing()
  const { server, proxy, client } = given
  await client.request('logging/setLevel', { level: 'warning' })
  await client.request('resources/subscribe', { uri: 'cart://items' })
  server.forgetSessions()
  proxy.inject({
    match: ({ rpcMethod }) => rpcMethod === 'resources/subscribe',
    times: 1,
    action: lossForms['404-empty'],
  })
  const error = { code: -32603, message: 'too busy' }
  proxy.inject({
    match: ({ rpcMethod }) => rpcMethod === 'logging/setLevel' && server.count('initialize') === 3,
    action: {
      status: 200,
      headers: { 'content-type': 'application/json' },
      body: (id) => JSON.stringify({ jsonrpc: '2.0', id, error }),
    },
  })
  await expect(client.request('tools/call', add)).resolves.toHaveProperty('result')
  expect(server.count('initialize')).toBe(3)
  const { sessionId } = client.transport
  const own = server.received.filter((one) => one.sessionId === sessionId)
  expect(own.map(({ rpcMethod }) => rpcMethod)).toContain('resources/subscribe')
  const message = expect.stringMatching(/log level.*too busy/)
  expect(client.errors).toMatchObject([{ code: 'REJECTED', message }])
  expect(client.replaced).toMatchObject([{ oldEpoch: 1, newEpoch: 3 }])
})

test('opens the listening stream of the new session', async () => {
  await using given = await healing()
  const { server, client } = given
  await server.waitFor(({ httpMethod }) => httpMethod === 'GET')
  server.forgetSessions()
  await client.request('tools/call', add)
  const id = client.transport.sessionId
  await server.waitFor(({ httpMethod, sessionId }) => httpMethod === 'GET' && sessionId === id)
  client.messages.length = 0
  server.notify('notifications/tools/list_changed')
  await client.until(() => client.messages.length > 0)
  expect(client.messages).toMatchObject([{ method: 'notifications/tools/list_changed' }])
})

test('opens a new session after an uncertain loss, and fails the request without sending it again', async () => {
  await using given = await healing({ lossForm: '200-32600' })
  const { server, client } = given
  server.forgetSessions()
  const answer = await client.request('tools/call', add)
  expect(failureIn(answer)).toMatchObject({ code: 'SESSION_LOST', certain: false, epoch: 1 })
  expect(server.count('tools/call')).toBe(1)
  expect(client.replaced).toMatchObject([{ newEpoch: 2 }])
  await expect(client.request('tools/call', add)).resolves.toHaveProperty('result')
})

test('reports the second of two losses in a row, and serves the next call', async () => {
  await using given = await healing()
  const { server, proxy, client } = given
  const asked = deferred<'forward'>()
  server.forgetSessions()
  proxy.inject({ match: isInitialize, times: 1, action: () => asked.promise })
  const call = client.request('tools/call', add)
  await proxy.waitFor(() => proxy.exchanges.filter(isInitialize).length === 2)
  const once = server.waitFor(
    ({ rpcMethod }) => rpcMethod === 'notifications/initialized' && forgetAfterSecond(server),
  )
  asked.resolve('forward')
  await once
  expect(failureIn(await call)).toMatchObject({ code: 'SESSION_LOST', certain: true, epoch: 2 })
  await expect(client.request('tools/call', add)).resolves.toHaveProperty('result')
  expect(client.transport.epoch).toBe(3)
})

function forgetAfterSecond(server: LegacyServer): boolean {
  if (server.count('notifications/initialized') < 2) return false
  server.forgetSessions()
  return true
}

const isInitialize = ({ rpcMethod }: Exchange): boolean => rpcMethod === 'initialize'

const isRefusedCall = ({ rpcMethod, end, status }: Exchange): boolean =>
  rpcMethod === 'tools/call' && status === 404 && end !== undefined

describe('a handshake that fails', () => {
  test('fails each waiting call, and the next call tries again', async () => {
    await using given = await healing()
    const { server, proxy, client } = given
    server.forgetSessions()
    const held = deferred<CannedAnswer>()
    proxy.inject({ match: isInitialize, times: 1, action: () => held.promise })
    const calls = Array.from({ length: 5 }, () => client.request('tools/call', add))
    await proxy.waitFor(() => proxy.exchanges.filter(isRefusedCall).length === 5)
    held.resolve({ status: 404, body: 'Starting' })
    const message = expect.stringContaining('HTTP 404: Starting') // the URL was right before
    for (const answer of await Promise.all(calls)) {
      expect(failureIn(answer)).toMatchObject({ code: 'REJECTED', message })
    }
    expect([proxy.exchanges.filter(isInitialize).length, client.replaced]).toEqual([2, []])
    await expect(client.request('tools/call', add)).resolves.toHaveProperty('result')
    expect(server.executions('counter_add')).toBe(1)
  })

  test.each([
    ['404-empty', 'UNREACHABLE', 'not-executed'],
    ['200-32600', 'SESSION_LOST', 'unknown'],
  ] as const)(
    'after the refusal %s fails the call with %s, outcome %s',
    async (form, code, outcome) => {
      await using given = await healing({ lossForm: form })
      const { server, proxy, client } = given
      server.forgetSessions()
      proxy.inject({ match: isInitialize, times: 1, action: 'reset-after' })
      expect(failureIn(await client.request('tools/call', add))).toMatchObject({ code, outcome })
      expect(server.executions('counter_add')).toBe(0)
    },
  )

  test('fails the call with the error of the server if the server refuses it', async () => {
    await using given = await healing()
    const { server, proxy, client } = given
    server.forgetSessions()
    const error = { code: -32099, message: 'Closed for today' }
    const body = (id: unknown): string => JSON.stringify({ jsonrpc: '2.0', id, error })
    proxy.inject({ match: isInitialize, times: 1, action: { status: 200, body } })
    const answer = await client.request('tools/call', add)
    expect(answer).toMatchObject({ error: { code: -32099 } })
    expect(failureIn(answer).message).toContain('Closed for today')
  })

  test('after the answer to initialize leaves no half-open session', async () => {
    let notified = 0
    const server = scriptedServer({
      'POST tools/call': lostFirst,
      'POST notifications/initialized': () =>
        ++notified === 2 ? new Response('Later', { status: 503 }) : undefined,
    })
    await using client = await connectRaw(server, { listen: false, onSessionLost: 'reinitialize' })
    expect(failureIn(await client.request('tools/call', add))).toMatchObject({ status: 503 })
    await expect(client.request('tools/call', add)).resolves.toHaveProperty('result')
    expect(client.transport.sessionId).toBe('session-3')
    expect(notified).toBe(3)
  })
})

describe('a server that stops answering during the handshake', () => {
  test.each([
    ['initialize', 'legacy'],
    ['notifications/initialized', 'legacy'],
    ['initialize', 'legacy-first'],
  ] as const)(
    'at %s (era %s) fails all waiting calls, and the next call works',
    async (method, era) => {
      stopClock()
      await using given = await healing({}, { timeouts: { probeMs: 200 }, era, listen: false })
      const { server, proxy, client } = given
      server.forgetSessions()
      const isStalled = ({ rpcMethod }: Exchange): boolean => rpcMethod === method
      const before = proxy.exchanges.filter(isStalled).length
      proxy.inject({ match: isStalled, times: 1, action: 'hang' })
      const first = client.request('tools/call', add)
      await proxy.waitFor(() => proxy.exchanges.filter(isStalled).length > before)
      const second = client.request('tools/call', add)
      vi.advanceTimersByTime(200)
      for (const answer of await Promise.all([first, second])) {
        expect(failureIn(answer)).toMatchObject({ code: 'TIMEOUT', outcome: 'not-executed' })
      }
      vi.advanceTimersByTime(10_000) // a late answer could still assign a session
      await proxy.waitFor(() => proxy.exchanges.every(({ end }) => end !== undefined))
      await expect(client.request('tools/call', add)).resolves.toHaveProperty('result')
      expect(server.executions('counter_add')).toBe(1)
      expect(client.replaced).toHaveLength(1)
    },
  )
})

describe('a call that waits for the new session', () => {
  test('is not sent again if it is cancelled', async () => {
    await using given = await healing()
    const { server, proxy, client } = given
    const held = deferred<'forward'>()
    server.forgetSessions()
    proxy.inject({ match: isInitialize, times: 1, action: () => held.promise })
    void client.request('tools/call', add)
    const kept = client.request('tools/call', { name: 'echo', arguments: { text: 'kept' } })
    await proxy.waitFor(() => proxy.exchanges.filter(isInitialize).length === 2)
    await client.notify('notifications/cancelled', { requestId: 1 })
    held.resolve('forward')
    await expect(kept).resolves.toHaveProperty('result')
    expect(server.executions('counter_add')).toBe(0)
    expect(server.count('notifications/cancelled')).toBe(0)
    expect(client.messages.filter((one) => !('method' in one))).toHaveLength(2)
    expect(client.errors).toEqual([])
  })

  test('is not sent again if it is cancelled, or is cancelled on the server too, at any moment', async () => {
    for (let delay = 0; delay < 30; delay++) {
      const server = scriptedServer((seen) => {
        if (seen.what !== 'POST tools/call') return undefined
        return server.count(seen.what) === 1
          ? new Response(null, { status: 404 })
          : openSse().response
      })
      const cancel = async (): Promise<void> => {
        for (let n = 0; n < delay; n++) await Promise.resolve()
        await client.notify('notifications/cancelled', { requestId: 1 })
      }
      const cancelled = deferred()
      await using client = await connectRaw(server, {
        listen: false,
        onSessionLost: 'reinitialize',
        onSessionReplaced: () => void cancel().then(cancelled.resolve),
      })
      void client.request('tools/call')
      await cancelled.promise
      await client.request('ping')
      const resent = server.seen.filter(({ what }) => what === 'POST tools/call').slice(1)
      expect(resent.map(({ signal }) => signal.aborted).filter((isOver) => !isOver)).toEqual([])
      expect(server.count('POST notifications/cancelled')).toBe(resent.length)
    }
  })

  test('is answered once by close(), without later messages', async () => {
    await using given = await healing()
    const { server, proxy, client } = given
    const held = deferred<'forward'>()
    server.forgetSessions()
    proxy.inject({ match: isInitialize, times: 1, action: () => held.promise })
    const calls = [client.request('tools/call', add), client.request('tools/call', add)]
    await proxy.waitFor(() => proxy.exchanges.filter(isInitialize).length === 2)
    await client.transport.close()
    for (const answer of await Promise.all(calls)) expect(failureIn(answer).code).toBe('CLOSED')
    const { length } = client.messages
    held.resolve('forward')
    await server.waitFor(({ rpcMethod }) => rpcMethod === 'initialize')
    expect([client.messages.length, client.closed, client.errors.length]).toEqual([length, 1, 0])
    expect(client.replaced).toEqual([])
    expect(server.executions('counter_add')).toBe(0)
  })
})

test('continues in a session that another process has opened in the meantime', async () => {
  await using server = await startLegacyServer()
  const sessionInfo = new SessionInfo()
  await using client = healingClient(server, { sessionInfo })
  await client.handshake()
  server.forgetSessions()
  await using other = healingClient(server, { sessionInfo })
  await other.handshake() // resumes the stored session, and finds that it is lost
  await other.request('tools/call', add)
  const initializes = server.count('initialize')
  await expect(client.request('tools/call', add)).resolves.toHaveProperty('result')
  expect(server.count('initialize')).toBe(initializes)
  expect(client.transport.sessionId).toBe(other.transport.sessionId)
  expect(client.transport.isResumed).toBe(true)
  expect(client.replaced).toMatchObject([{ oldEpoch: 1, newEpoch: 2 }])
})

test('opens a session if the server has also lost the session of another process', async () => {
  await using server = await startLegacyServer()
  const sessionInfo = new SessionInfo()
  await using client = healingClient(server, { sessionInfo })
  await client.handshake()
  server.forgetSessions()
  await using other = healingClient(server, { sessionInfo })
  await other.handshake()
  await other.request('tools/call', add)
  server.forgetSessions()
  const [before, pings] = [server.executions('counter_add'), server.count('ping')]
  const initializes = server.count('initialize')
  const calls = Array.from({ length: 10 }, () => client.request('tools/call', add))
  for (const answer of await Promise.all(calls)) expect(answer).toHaveProperty('result')
  expect(server.executions('counter_add') - before).toBe(10)
  expect(server.count('initialize') - initializes).toBe(1)
  expect(server.count('ping') - pings).toBe(1)
  expect(client.replaced).toHaveLength(1)
})

test('replaces a resumed session as well', async () => {
  await using server = await startLegacyServer()
  const sessionInfo = new SessionInfo()
  {
    await using first = healingClient(server, { sessionInfo })
    await first.handshake()
  }
  server.forgetSessions()
  await using client = healingClient(server, { sessionInfo })
  await client.handshake()
  await expect(client.request('tools/call', add)).resolves.toHaveProperty('result')
  expect(client.replaced).toMatchObject([{ newEpoch: 2 }])
  expect(server.count('initialize')).toBe(2)
})

test('keeps onresumptiontoken for a request that is sent again', async () => {
  const server = scriptedServer({
    'POST tools/call': (seen) =>
      lostFirst(seen) ?? sse('id: cursor-1\ndata:\n\n', resultOf(seen, {})),
  })
  await using client = await connectRaw(server, { listen: false, onSessionLost: 'reinitialize' })
  const tokens: string[] = []
  const onresumptiontoken = (token: string): void => void tokens.push(token)
  await client.request('tools/call', add, { onresumptiontoken })
  expect(tokens).toEqual(['cursor-1'])
})

test('does not replace a session that the user has terminated', async () => {
  await using given = await healing()
  const { server, client } = given
  await client.transport.terminateSession()
  expect(failureIn(await client.request('tools/call', add)).code).toBe('CLOSED')
  expect(server.count('initialize')).toBe(1)
})

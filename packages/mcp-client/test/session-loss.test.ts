import { McpConnection, TransportError } from '@x/mcp-transport'
import { deferred, lossForms, startLegacyServer } from '@x/mcp-testing'
import type { LossFormName, LossVerdict } from '@x/mcp-testing'
import { describe, expect, test, vi } from 'vitest'
import { McpClient } from '../src/index.ts'
import {
  answerWith,
  is,
  rejectionOf,
  startSetting,
  statesOf,
  stopClock,
  textOf,
} from './setting.ts'

function formsOf(verdict: LossVerdict): LossFormName[] {
  return (Object.keys(lossForms) as LossFormName[]).filter(
    (name) => lossForms[name].verdict === verdict,
  )
}

describe('a session that the server refuses', () => {
  test('finds the loss with the first calls of a burst, and sends the others only in the new session', async () => {
    await using setting = await startSetting({ client: { maxRetries: 0 } })
    const { client, server, proxy } = setting
    await client.ping()
    const dead = await client.getSessionId()
    server.forgetSessions()
    stopClock()
    const calls = Array.from({ length: 500 }, (_, n) => client.callTool('echo', { text: `${n}` }))
    const outcomes = await Promise.allSettled(calls)
    const toDead = proxy.exchanges.filter(
      ({ rpcMethod, sessionId }) => rpcMethod === 'tools/call' && sessionId === dead,
    )
    expect(toDead).toHaveLength(64)
    // Also without a retry: a call that was not sent has not failed.
    expect(outcomes.filter(({ status }) => status === 'rejected')).toHaveLength(64)
    expect(server.executions('echo')).toBe(500 - 64)
    expect(proxy.count({ rpcMethod: 'initialize' })).toBe(2)
  })

  test('runs a burst of slow calls all at once', async () => {
    await using setting = await startSetting()
    const { client, server } = setting
    await client.ping()
    const calls = Array.from({ length: 200 }, () => client.callTool('slow'))
    await server.waitFor(() => server.count('tools/call') === 200)
    server.release('done')
    expect((await Promise.all(calls)).map(textOf)).toEqual(Array(200).fill('done'))
  })

  test('never sends a call that was held back and then aborted or closed', async () => {
    await using setting = await startSetting()
    const { client, server } = setting
    await client.ping()
    const slow = Promise.allSettled(Array.from({ length: 64 }, () => client.callTool('slow')))
    const controller = new AbortController()
    const given = client.callTool('counter_add', {}, { signal: controller.signal })
    const held = rejectionOf(client.callTool('counter_add'))
    controller.abort(new Error('enough'))
    expect(await rejectionOf(given)).toBe(controller.signal.reason)
    await client.dispose()
    expect(await held).toMatchObject({ code: 'CLOSED', outcome: 'not-executed' })
    await slow
    expect(server.executions('counter_add')).toBe(0)
  })
})

describe('a server that refuses every session', () => {
  const isCall = ({ toolName }: { readonly toolName?: string | undefined }) =>
    toolName === 'counter_add'

  test.each<LossFormName>(['404-32001', '404-32600', '404-text', '400-text', '400-no-valid'])(
    'fails the call as not executed after two refusals in words: %s',
    async (form) => {
      await using setting = await startSetting()
      const { client, server, proxy } = setting
      await client.ping()
      proxy.inject({ match: isCall, times: 2, action: lossForms[form] })
      expect(await rejectionOf(client.callTool('counter_add'))).toMatchObject({
        code: 'SESSION_LOST',
        outcome: 'not-executed',
      })
      expect(proxy.count({ toolName: 'counter_add' })).toBe(2)
      expect((await client.callTool('counter_add')).structuredContent).toEqual({ count: 1 })
      expect(server.executions('counter_add')).toBe(1)
    },
  )

  test.each<LossFormName>(['404-empty', '404-html', '404-own-id', '404-own-id-only', '410'])(
    'leaves the outcome of the call unknown after two refusals that a tool may have sent: %s',
    async (form) => {
      await using setting = await startSetting()
      const { client, proxy } = setting
      await client.ping()
      proxy.inject({ match: isCall, times: 2, action: lossForms[form] })
      expect(await rejectionOf(client.callTool('counter_add'))).toMatchObject({
        code: 'OUTCOME_UNKNOWN',
        outcome: 'unknown',
      })
      expect(proxy.count({ toolName: 'counter_add' })).toBe(2)
      expect((await client.callTool('counter_add')).structuredContent).toEqual({ count: 1 })
    },
  )
})

describe('a connection that breaks', () => {
  test.each(formsOf('ambiguous'))(
    'makes the next call in a new session if its ping gets %s',
    async (lossForm) => {
      await using setting = await startSetting({ server: { lossForm } })
      const { client, server, proxy } = setting
      await client.callTool('counter_add')
      const match = is.method('tools/call')
      proxy.inject({ match, times: 1, action: 'reset-before' })
      await rejectionOf(client.callTool('counter_add'))
      server.forgetSessions()
      const result = await client.callTool('counter_add', { by: 3 })
      expect(result.structuredContent).toEqual({ count: 3 })
      expect(server.executions('counter_add')).toBe(2)
    },
  )
})

describe('a handshake that fails', () => {
  test('releases everything the first time, and the next call works', async () => {
    await using setting = await startSetting()
    const { client, proxy, observed } = setting
    proxy.inject({ match: is.initialize, times: 1, action: { status: 503, body: 'Overloaded' } })
    expect(await rejectionOf(client.callTool('echo'))).toMatchObject({
      code: 'REJECTED',
      outcome: 'not-executed',
    })
    expect(client.isClientInitialized).toBe(false)
    expect(await client.getSessionId()).toBe(undefined)
    expect(statesOf(observed).at(-1)).toBe('handshaking>created')
    const first = await proxy.waitFor(({ end }) => end !== undefined)
    expect(textOf(await client.callTool('echo', { text: 'x' }))).toBe('x')
    // The dispatcher of the failed connection is closed, with its sockets.
    const second = proxy.exchanges.find(({ n }) => n > first.n)
    expect(second?.connection).toBeGreaterThan(first.connection)
  })

  test('rejects each waiting call once, and is not kept', async () => {
    await using setting = await startSetting()
    const { client, proxy } = setting
    proxy.inject({ match: is.initialize, times: 1, action: { status: 503 } })
    const calls = Array.from({ length: 10 }, () => client.callTool('echo', { text: 'x' }))
    const outcomes = await Promise.allSettled(calls)
    expect(outcomes.map(({ status }) => status)).toEqual(Array(10).fill('rejected'))
    expect(proxy.count({ rpcMethod: 'initialize' })).toBe(1)
    expect(textOf(await client.callTool('echo', { text: 'x' }))).toBe('x')
  })

  test('rejects with the SDK error that the server answered to initialize', async () => {
    await using setting = await startSetting()
    const { client, proxy } = setting
    const error = { code: -32603, message: 'Not today' }
    proxy.inject({ match: is.initialize, times: 1, action: answerWith({ error }) })
    expect(await rejectionOf(client.ping())).toMatchObject({ name: 'McpError', code: -32603 })
    await client.ping()
  })

  test('reports the loss when it replaces a session, keeps the connections, and the next call works', async () => {
    await using setting = await startSetting()
    const { client, server, proxy, observed } = setting
    await client.callTool('counter_add')
    server.forgetSessions()
    proxy.inject({ match: is.initialize, times: 1, action: { status: 503, body: 'Overloaded' } })
    const mark = proxy.mark()
    const error = await rejectionOf(client.callTool('counter_add'))
    expect(error).toMatchObject({
      code: 'REJECTED',
      outcome: 'not-executed',
      cause: { code: 'SESSION_LOST', status: 404, cause: { code: 'REJECTED', status: 503 } },
    })
    expect(TransportError.is((error as Error).cause)).toBe(true)
    expect(client.isClientInitialized).toBe(true)
    expect(statesOf(observed).at(-1)).toBe('handshaking>idle')
    expect((await client.callTool('counter_add')).structuredContent).toEqual({ count: 1 })
    expect(mark.postConnections()).toBe(0)
  })
})

test('opens a session for the next call after a replacement whose headers never arrived', async () => {
  await using server = await startLegacyServer()
  let isStuck = false
  const asked = deferred()
  const headers = async ({ rpcMethod }: { readonly rpcMethod?: string | undefined }) => {
    if (!isStuck || rpcMethod !== 'initialize') return {}
    asked.resolve()
    return new Promise<never>(() => {})
  }
  await using client = new McpClient({ url: server.url, headers })
  await client.callTool('counter_add')
  server.forgetSessions()
  isStuck = true
  const caller = new AbortController()
  const call = rejectionOf(client.callTool('counter_add', {}, { signal: caller.signal }))
  await asked.promise
  caller.abort(new Error('enough'))
  expect(await call).toEqual(new Error('enough'))
  isStuck = false
  expect((await client.callTool('counter_add')).structuredContent).toEqual({ count: 1 })
})

test('opens another session if the first is lost before its handshake has finished', async () => {
  await using setting = await startSetting()
  const { client, server, proxy } = setting
  proxy.inject({
    match: is.method('notifications/initialized'),
    times: 1,
    action: async () => {
      server.forgetSessions()
      return 'forward'
    },
  })
  expect(textOf(await client.callTool('echo', { text: 'x' }))).toBe('x')
  expect(server.count('initialize')).toBe(2)
})

describe('late events of an old session', () => {
  test('ignores a 404 that arrives when there is a new session', async () => {
    await using setting = await startSetting()
    const { client, server, proxy } = setting
    await client.ping()
    const late = deferred()
    proxy.inject({
      match: is.tool('counter_add'),
      times: 1,
      action: async () => {
        await late.promise
        return lossForms['404-32001']
      },
    })
    const slowCall = client.callTool('counter_add')
    await proxy.waitFor(is.tool('counter_add'))
    server.forgetSessions()
    await client.ping()
    const renewed = await client.getSessionId()

    late.resolve()
    expect((await slowCall).structuredContent).toEqual({ count: 1 })
    expect(await client.getSessionId()).toBe(renewed)
    expect(server.count('initialize')).toBe(2)
  })

  test('keeps the new session when a failure names the old one', async () => {
    await using setting = await startSetting()
    const { client, server, observed } = setting
    await client.ping()
    server.forgetSessions()
    await client.ping()
    const [renewed, states] = [await client.getSessionId(), statesOf(observed)]
    const message = 'The old session was lost'
    const loss = new TransportError('SESSION_LOST', message, { certain: true, epoch: 1 })
    vi.spyOn(McpConnection.prototype, 'send').mockImplementationOnce(async ({ onSettled }) =>
      onSettled(loss),
    )
    expect((await client.callTool('counter_add')).structuredContent).toEqual({ count: 1 })
    expect(await client.getSessionId()).toBe(renewed)
    expect(server.count('initialize')).toBe(2)
    expect(statesOf(observed)).toEqual(states)
  })

  test('returns the result of a call that still runs in the old session', async () => {
    await using setting = await startSetting()
    const { client, server } = setting
    const running = client.callTool('slow')
    await server.waitFor(is.tool('slow'))
    server.forgetSessions()
    await client.ping()
    expect(server.count('initialize')).toBe(2)
    server.release('from the old session')
    expect(textOf(await running)).toBe('from the old session')
    expect(server.executions('slow')).toBe(1)
  })
})

test('sets the log level in a session that is used although its handshake has failed', async () => {
  await using setting = await startSetting({ client: { handshakeMs: 30_000 } })
  const { client, server, proxy } = setting
  const isStream = ({ httpMethod }: { readonly httpMethod: string }): boolean =>
    httpMethod === 'GET'
  await client.setLoggingLevel('warning')
  await proxy.waitFor(isStream)
  server.forgetSessions()
  stopClock()
  // The handshake waits a moment for its stream. The session is open then, and has no settings.
  const waiting = deferred()
  proxy.inject({
    match: isStream,
    times: 1,
    action: async () => {
      waiting.resolve()
      return 'hang'
    },
  })
  const error = rejectionOf(client.ping())
  await waiting.promise
  vi.advanceTimersByTime(30_000)
  expect(await error).toMatchObject({ code: 'TIMEOUT' })
  await client.callTool('counter_add')
  const { sessionId } = server.received.at(-1) ?? {}
  const own = server.received.filter(
    (one) => one.sessionId === sessionId && one.httpMethod === 'POST',
  )
  expect(own.map(({ rpcMethod }) => rpcMethod)).toEqual([
    'notifications/initialized',
    'logging/setLevel',
    'tools/call',
  ])
  expect(server.count('initialize')).toBe(2)
})

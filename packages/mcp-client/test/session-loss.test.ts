import { subscribe, unsubscribe } from 'node:diagnostics_channel'
import { McpError } from '@modelcontextprotocol/sdk/types.js'
import { TransportError } from '@x/mcp-transport'
import {
  deferred,
  freePort,
  lossForms,
  startRecordingProxy,
  startLegacyServer,
} from '@x/mcp-testing'
import type { LossFormName, LossVerdict } from '@x/mcp-testing'
import { afterEach, describe, expect, test, vi } from 'vitest'
import { McpClient } from '../src/index.ts'
import { isInitialize, rejectionOf, startSetting, statesOf, textOf } from './setting.ts'

afterEach(() => vi.useRealTimers())

function formsOf(verdict: LossVerdict): LossFormName[] {
  return (Object.keys(lossForms) as LossFormName[]).filter(
    (name) => lossForms[name].verdict === verdict,
  )
}

describe('a session that the server refuses', () => {
  test.each(formsOf('lost'))('%s: is replaced, and the call gets its result', async (lossForm) => {
    await using setting = await startSetting({ server: { lossForm } })
    const { client, server, proxy } = setting
    await client.callTool('counter_add')
    server.forgetSessions()
    const mark = proxy.mark()
    const result = await client.callTool('counter_add', { by: 3 })
    expect(result.structuredContent).toEqual({ count: 3 })
    expect(mark.count({ rpcMethod: 'initialize' })).toBe(1)
    expect(mark.count({ rpcMethod: 'notifications/initialized' })).toBe(1)
    expect(mark.postConnections()).toBe(0)
    expect(server.executions('counter_add')).toBe(2)
    expect(await client.getSessionId()).toBe(server.sessions[0])
  })

  test('never sends the lost id after the refusal', async () => {
    await using setting = await startSetting()
    const { client, server, proxy } = setting
    await client.ping()
    const dead = await client.getSessionId()
    server.forgetSessions()
    const mark = proxy.mark()
    await client.ping()
    const posts = mark.exchanges().filter(({ httpMethod }) => httpMethod === 'POST')
    expect(posts.map(({ sessionId }) => sessionId)).toEqual([
      dead,
      undefined,
      server.sessions[0],
      server.sessions[0],
    ])
  })

  test('sends one initialize for a hundred concurrent calls, returns a hundred results, and opens no new POST connection', async () => {
    await using setting = await startSetting()
    const { client, server, proxy } = setting
    const hundred = Array.from({ length: 100 }, (_, n) => String(n))
    const echo = async (text: string): Promise<string> =>
      textOf(await client.callTool('echo', { text }))
    await client.ping()
    // Each of the hundred calls has a connection before the loss, so that only the cost of the loss is counted. So has
    // the handshake: its last response may still be arriving when the calls are sent.
    const open = hundred.length + 1
    const free = deferred()
    let complete = 0
    const countComplete = (message: unknown): void => {
      const { origin } = (message as { readonly request: { readonly origin: string } }).request
      if (origin === new URL(proxy.url).origin && ++complete === open) free.resolve()
    }
    subscribe('undici:request:trailers', countComplete)
    const calls = Array.from({ length: open }, () => client.callTool('slow'))
    await server.waitFor(() => server.count('tools/call') === open)
    server.release()
    await Promise.all(calls)
    await free.promise // a result can arrive before the end of its response
    unsubscribe('undici:request:trailers', countComplete)
    await new Promise(setImmediate)

    server.forgetSessions()
    const mark = proxy.mark()
    expect(await Promise.all(hundred.map(echo))).toEqual(hundred)
    expect(mark.count({ rpcMethod: 'initialize' })).toBe(1)
    expect(mark.count({ rpcMethod: 'notifications/initialized' })).toBe(1)
    expect(mark.postConnections()).toBe(0)
    expect(server.executions('echo')).toBe(100)
  })

  test('finds the loss with the first calls of a burst, and sends the others only in the new session', async () => {
    await using setting = await startSetting({ client: { maxRetries: 0 } })
    const { client, server, proxy } = setting
    await client.ping()
    const dead = await client.getSessionId()
    server.forgetSessions()
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] }) // on a busy machine, no timer may fire
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

  test('reports an unknown outcome if the new session is refused as well, and serves the next call', async () => {
    await using setting = await startSetting()
    const { client, proxy, server } = setting
    await client.ping()
    proxy.inject({
      match: ({ toolName }) => toolName === 'echo',
      times: 2,
      action: lossForms['404-32001'],
    })
    const error = await rejectionOf(client.callTool('echo', { text: 'x' }))
    expect(error).toMatchObject({ code: 'OUTCOME_UNKNOWN', tool: 'echo', outcome: 'unknown' })
    expect(error).toHaveProperty('cause.status', 404)
    expect(textOf(await client.callTool('echo', { text: 'y' }))).toBe('y')
    expect(server.executions('echo')).toBe(1)
  })

  test('fails the call with maxRetries 0, and replaces the session for the next one', async () => {
    await using setting = await startSetting({ client: { maxRetries: 0 } })
    const { client, server } = setting
    await client.ping()
    server.forgetSessions()
    const error = await rejectionOf(client.callTool('echo', { text: 'x' }))
    expect(error).toMatchObject({ code: 'SESSION_LOST', outcome: 'not-executed' })
    expect(textOf(await client.callTool('echo', { text: 'y' }))).toBe('y')
    expect(server.executions('echo')).toBe(1)
  })

  test("replaces the session also with replay 'never'", async () => {
    await using setting = await startSetting({ client: { replay: 'never' } })
    const { client, server } = setting
    await client.ping()
    server.forgetSessions()
    expect(await rejectionOf(client.ping())).toMatchObject({ code: 'SESSION_LOST' })
    await client.ping()
    expect(server.count('initialize')).toBe(2)
  })
})

describe('an ambiguous refusal', () => {
  test.each(formsOf('ambiguous'))(
    '%s: rejects a tool call with OUTCOME_UNKNOWN, and the next one works',
    async (form) => {
      await using setting = await startSetting({ server: { lossForm: form } })
      const { client, server, proxy } = setting
      await client.ping()
      server.forgetSessions()
      const error = await rejectionOf(client.callTool('counter_add'))
      expect(error).toMatchObject({
        name: 'McpClientError',
        code: 'OUTCOME_UNKNOWN',
        tool: 'counter_add',
        outcome: 'unknown',
        cause: { code: 'SESSION_LOST', certain: false },
      })
      expect(proxy.count({ toolName: 'counter_add' })).toBe(1)
      await client.callTool('counter_add')
      expect(server.count('initialize')).toBe(2)
    },
  )

  test.each(formsOf('ambiguous'))(
    '%s: sends a request that changes nothing again',
    async (lossForm) => {
      await using setting = await startSetting({ server: { lossForm } })
      const { client, server } = setting
      await client.ping()
      server.forgetSessions()
      await client.ping()
      server.forgetSessions()
      expect(await client.listTools()).not.toEqual([])
      expect(server.count('initialize')).toBe(3)
    },
  )

  test('rejects with OUTCOME_UNKNOWN if progress arrived before the refusal, because the tool was running', async () => {
    await using setting = await startSetting()
    const { client, proxy } = setting
    await client.ping()
    const progress = { jsonrpc: '2.0', method: 'notifications/progress' }
    const message = { ...progress, params: { progressToken: 'other', progress: 1 } }
    proxy.inject({
      match: ({ toolName }) => toolName === 'slow',
      action: {
        status: 200,
        headers: { 'content-type': 'text/event-stream' },
        body: `data: ${JSON.stringify(message)}\n\ndata: {"error":"Session not found"}\n\n`,
      },
    })
    expect(await rejectionOf(client.callTool('slow'))).toMatchObject({
      code: 'OUTCOME_UNKNOWN',
      outcome: 'unknown',
    })
    expect(proxy.count({ toolName: 'slow' })).toBe(1)
  })
})

describe('an error that is not a loss', () => {
  // A 429 names a delay after which the request is sent again: see requests.test.ts.
  test.each(formsOf('not-lost').filter((form) => form !== '429'))(
    '%s: fails only that call, once',
    async (form) => {
      await using setting = await startSetting()
      const { client, server, proxy } = setting
      await client.ping()
      const sessionId = await client.getSessionId()
      proxy.inject({
        match: ({ toolName }) => toolName === 'echo',
        times: 1,
        action: lossForms[form],
      })
      const error = await rejectionOf(client.callTool('echo', { text: 'x' }))
      expect(error).toBeInstanceOf(Error)
      expect(proxy.count({ toolName: 'echo' })).toBe(1)
      expect(textOf(await client.callTool('echo', { text: 'y' }))).toBe('y')
      expect(await client.getSessionId()).toBe(sessionId)
      expect(server.count('initialize')).toBe(1)
    },
  )

  test.each([
    [-32600, 'Invalid Request'],
    [-32601, 'Method not found'],
    [-32000, 'The database is on fire'],
    [-32001, 'Request timed out'],
    [32600, 'Something else'],
  ])('rejects with the error %i "%s" of the server, without a retry', async (code, message) => {
    await using setting = await startSetting()
    const { client, proxy } = setting
    proxy.inject({
      match: ({ toolName }) => toolName === 'echo',
      action: {
        status: 200,
        body: (id) => JSON.stringify({ jsonrpc: '2.0', id, error: { code, message } }),
      },
    })
    const error = await rejectionOf(client.callTool('echo'))
    expect(error).toBeInstanceOf(McpError)
    expect(error).toMatchObject({ code, message: expect.stringContaining(message) })
    expect(proxy.count({ toolName: 'echo' })).toBe(1)
    expect(proxy.count({ rpcMethod: 'initialize' })).toBe(1)
  })
})

describe('a connection that breaks', () => {
  test.each(formsOf('ambiguous'))(
    'makes the next call in a new session if its ping gets %s',
    async (lossForm) => {
      await using setting = await startSetting({ server: { lossForm } })
      const { client, server, proxy } = setting
      await client.callTool('counter_add')
      const match = ({ rpcMethod }: { readonly rpcMethod?: string | undefined }): boolean =>
        rpcMethod === 'tools/call'
      proxy.inject({ match, times: 1, action: 'reset-before' })
      await rejectionOf(client.callTool('counter_add'))
      server.forgetSessions()
      const result = await client.callTool('counter_add', { by: 3 })
      expect(result.structuredContent).toEqual({ count: 3 })
      expect(server.executions('counter_add')).toBe(2)
    },
  )

  test('rejects with OUTCOME_UNKNOWN in the middle of a call; the tool ran once, and the session stays', async () => {
    await using setting = await startSetting()
    const { client, server, proxy } = setting
    await client.ping()
    const sessionId = await client.getSessionId()
    proxy.inject({
      match: ({ toolName }) => toolName === 'counter_add',
      times: 1,
      action: 'reset-after',
    })
    const error = await rejectionOf(client.callTool('counter_add'))
    expect(error).toMatchObject({
      code: 'OUTCOME_UNKNOWN',
      tool: 'counter_add',
      outcome: 'unknown',
    })
    expect(error).toHaveProperty('cause.code', 'OUTCOME_UNKNOWN')
    expect(server.executions('counter_add')).toBe(1)
    expect((await client.callTool('counter_add')).structuredContent).toEqual({ count: 2 })
    expect(await client.getSessionId()).toBe(sessionId)
    expect(server.count('initialize')).toBe(1)
  })

  test('sends a call again once if the caller declared it idempotent', async () => {
    await using setting = await startSetting()
    const { client, server, proxy } = setting
    await client.ping()
    const rule = { match: isCounter, action: 'reset-after' } as const
    proxy.inject({ ...rule, times: 1 })
    const result = await client.callTool('counter_add', {}, { idempotent: true })
    expect(result.structuredContent).toEqual({ count: 2 })
    expect(server.executions('counter_add')).toBe(2)

    proxy.inject(rule)
    const error = await rejectionOf(client.callTool('counter_add', {}, { idempotent: true }))
    expect(error).toMatchObject({ code: 'OUTCOME_UNKNOWN', outcome: 'unknown' })
    expect(server.executions('counter_add')).toBe(4)
  })

  test("sends safe requests and idempotent tools again with replay 'idempotent', and no others", async () => {
    await using setting = await startSetting({ client: { replay: 'idempotent' } })
    const { client, server, proxy } = setting
    await client.listTools() // the list contains the annotations
    const breakOnce = (method: string): void => {
      proxy.inject({
        match: ({ rpcMethod }) => rpcMethod === method,
        times: 1,
        action: 'reset-after',
      })
    }
    breakOnce('tools/call')
    expect(textOf(await client.callTool('echo', { text: 'x' }))).toBe('x')
    expect(server.executions('echo')).toBe(2)
    breakOnce('ping')
    await client.ping()
    breakOnce('tools/call')
    expect(await rejectionOf(client.callTool('counter_add'))).toMatchObject({
      code: 'OUTCOME_UNKNOWN',
    })
    expect(server.executions('counter_add')).toBe(1)
  })

  test('keeps the outcome unknown if the first attempt may have run and the second did not reach the server', async () => {
    await using server = await startLegacyServer()
    const proxy = await startRecordingProxy(server.url)
    await using client = new McpClient({ url: proxy.url })
    await client.ping()
    client.on('log', ({ message }) => {
      if (message.includes('is sent again')) void proxy.stop()
    })
    proxy.inject({ match: isCounter, action: 'reset-after' })
    const error = await rejectionOf(client.callTool('counter_add', {}, { idempotent: true }))
    expect(error).toMatchObject({ outcome: 'unknown' })
    expect(server.executions('counter_add')).toBe(1)
  })
})

describe('a handshake that fails', () => {
  test('releases everything the first time, and the next call works', async () => {
    await using setting = await startSetting()
    const { client, proxy, observed } = setting
    proxy.inject({ match: isInitialize, times: 1, action: { status: 503, body: 'Overloaded' } })
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
    proxy.inject({ match: isInitialize, times: 1, action: { status: 503 } })
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
    proxy.inject({
      match: isInitialize,
      times: 1,
      action: { status: 200, body: (id) => JSON.stringify({ jsonrpc: '2.0', id, error }) },
    })
    expect(await rejectionOf(client.ping())).toMatchObject({ name: 'McpError', code: -32603 })
    await client.ping()
  })

  test('reports the loss when it replaces a session, keeps the connections, and the next call works', async () => {
    await using setting = await startSetting()
    const { client, server, proxy, observed } = setting
    await client.callTool('counter_add')
    server.forgetSessions()
    proxy.inject({ match: isInitialize, times: 1, action: { status: 503, body: 'Overloaded' } })
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

  test('has the stack frame of each caller if the server cannot be reached', async () => {
    await using client = new McpClient({ url: `http://127.0.0.1:${await freePort()}/mcp` })
    async function payFirst(): Promise<void> {
      await client.callTool('pay')
    }
    async function paySecond(): Promise<void> {
      await client.callTool('pay')
    }
    const [first, second] = await Promise.all([rejectionOf(payFirst()), rejectionOf(paySecond())])
    expect(first).toMatchObject({ code: 'UNREACHABLE', stack: expect.stringContaining('payFirst') })
    expect(second).toMatchObject({ stack: expect.stringContaining('paySecond') })
  })

  test('is UNREACHABLE, without a loss, if the server does not come back', async () => {
    const port = await freePort()
    await using client = new McpClient({ url: `http://127.0.0.1:${port}/mcp` })
    const error = await rejectionOf(client.ping())
    expect(error).toMatchObject({ code: 'UNREACHABLE', cause: { code: 'UNREACHABLE' } })
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
    match: ({ rpcMethod }) => rpcMethod === 'notifications/initialized',
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
      match: ({ toolName }) => toolName === 'counter_add',
      times: 1,
      action: async () => {
        await late.promise
        return lossForms['404-32001']
      },
    })
    const slowCall = client.callTool('counter_add')
    await proxy.waitFor(({ toolName }) => toolName === 'counter_add')
    server.forgetSessions()
    await client.ping()
    const renewed = await client.getSessionId()

    late.resolve()
    expect((await slowCall).structuredContent).toEqual({ count: 1 })
    expect(await client.getSessionId()).toBe(renewed)
    expect(server.count('initialize')).toBe(2)
  })

  test('returns the result of a call that still runs in the old session', async () => {
    await using setting = await startSetting()
    const { client, server } = setting
    const running = client.callTool('slow')
    await server.waitFor(({ toolName }) => toolName === 'slow')
    server.forgetSessions()
    await client.ping()
    expect(server.count('initialize')).toBe(2)
    server.release('from the old session')
    expect(textOf(await running)).toBe('from the old session')
    expect(server.executions('slow')).toBe(1)
  })
})

function isCounter({ toolName }: { readonly toolName?: string | undefined }): boolean {
  return toolName === 'counter_add'
}

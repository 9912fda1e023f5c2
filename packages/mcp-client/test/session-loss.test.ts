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
import { rejectionOf, startSetting, statesOf, textOf } from './setting.ts'

afterEach(() => vi.useRealTimers())

function formsOf(verdict: LossVerdict): LossFormName[] {
  return (Object.keys(lossForms) as LossFormName[]).filter(
    (name) => lossForms[name].verdict === verdict,
  )
}

describe('a session that the server refuses', () => {
  test.each(formsOf('lost'))('%s: opened anew, and the call is answered', async (lossForm) => {
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

  test('the dead id is in no request after the refusal', async () => {
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

  test('a hundred concurrent calls: one initialize, a hundred answers, no new POST connection', async () => {
    await using setting = await startSetting()
    const { client, server, proxy } = setting
    const hundred = Array.from({ length: 100 }, (_, n) => String(n))
    const echo = async (text: string): Promise<string> =>
      textOf(await client.callTool('echo', { text }))
    await client.ping()
    // Each of the hundred has its connection before the loss; what the loss costs is counted.
    const calls = hundred.map(() => client.callTool('slow'))
    await server.waitFor(() => server.count('tools/call') === 100)
    server.release()
    await Promise.all(calls)
    await new Promise(setImmediate) // the last answers have left their connections

    server.forgetSessions()
    const mark = proxy.mark()
    expect(await Promise.all(hundred.map(echo))).toEqual(hundred)
    expect(mark.count({ rpcMethod: 'initialize' })).toBe(1)
    expect(mark.count({ rpcMethod: 'notifications/initialized' })).toBe(1)
    expect(mark.postConnections()).toBe(0)
    expect(server.executions('echo')).toBe(100)
  })

  test('a burst finds the loss with its first calls: the others are sent in the new session only', async () => {
    await using setting = await startSetting({ client: { maxRetries: 0 } })
    const { client, server, proxy } = setting
    await client.ping()
    const dead = await client.getSessionId()
    server.forgetSessions()
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] }) // however busy the machine is, no time is up
    const calls = Array.from({ length: 500 }, (_, n) => client.callTool('echo', { text: `${n}` }))
    const outcomes = await Promise.allSettled(calls)
    const toDead = proxy.exchanges.filter(
      ({ rpcMethod, sessionId }) => rpcMethod === 'tools/call' && sessionId === dead,
    )
    expect(toDead).toHaveLength(64)
    // Without a retry, too: what was not sent has not failed.
    expect(outcomes.filter(({ status }) => status === 'rejected')).toHaveLength(64)
    expect(server.executions('echo')).toBe(500 - 64)
    expect(proxy.count({ rpcMethod: 'initialize' })).toBe(2)
  })

  test('a burst of slow calls is no loss: all of them run at once', async () => {
    await using setting = await startSetting()
    const { client, server } = setting
    await client.ping()
    const calls = Array.from({ length: 200 }, () => client.callTool('slow'))
    await server.waitFor(() => server.count('tools/call') === 200)
    server.release('done')
    expect((await Promise.all(calls)).map(textOf)).toEqual(Array(200).fill('done'))
  })

  test('a call that is held back can be given up, or ended with the client: it is never sent', async () => {
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

  test('again in the session that was just opened: the outcome is unknown, and the next call works', async () => {
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

  test('maxRetries 0: the call fails, and the session is healed for the next one', async () => {
    await using setting = await startSetting({ client: { maxRetries: 0 } })
    const { client, server } = setting
    await client.ping()
    server.forgetSessions()
    const error = await rejectionOf(client.callTool('echo', { text: 'x' }))
    expect(error).toMatchObject({ code: 'SESSION_LOST', outcome: 'not-executed' })
    expect(textOf(await client.callTool('echo', { text: 'y' }))).toBe('y')
    expect(server.executions('echo')).toBe(1)
  })

  test("replay 'never': the session is healed all the same", async () => {
    await using setting = await startSetting({ client: { replay: 'never' } })
    const { client, server } = setting
    await client.ping()
    server.forgetSessions()
    expect(await rejectionOf(client.ping())).toMatchObject({ code: 'SESSION_LOST' })
    await client.ping()
    expect(server.count('initialize')).toBe(2)
  })
})

describe('a refusal that proves nothing', () => {
  test.each(formsOf('ambiguous'))(
    '%s: a tool call is OUTCOME_UNKNOWN, and the next one works',
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

  test.each(formsOf('ambiguous'))('%s: what changes nothing is sent again', async (lossForm) => {
    await using setting = await startSetting({ server: { lossForm } })
    const { client, server } = setting
    await client.ping()
    server.forgetSessions()
    await client.ping()
    server.forgetSessions()
    expect(await client.listTools()).not.toEqual([])
    expect(server.count('initialize')).toBe(3)
  })

  test('progress had come before the refusal: the tool was running, so OUTCOME_UNKNOWN', async () => {
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

describe('what is no loss', () => {
  // 429 says when to come again, and is asked again then: see requests.test.ts.
  test.each(formsOf('not-lost').filter((form) => form !== '429'))(
    '%s: fails that call only, once',
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
  ])('the server answers with error %i "%s": handed on, not retried', async (code, message) => {
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
    'and then %s to the check before the next call: that call is made in a new session',
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

  test('in mid-call: OUTCOME_UNKNOWN, executed exactly once, the session is kept', async () => {
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

  test('a call that the caller declared idempotent is sent again, once', async () => {
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

  test("replay 'idempotent': tools that say so and safe requests are sent again, others are not", async () => {
    await using setting = await startSetting({ client: { replay: 'idempotent' } })
    const { client, server, proxy } = setting
    await client.listTools() // annotations are known from the list
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

  test('the first attempt may have run, the second finds nobody: the outcome stays unknown', async () => {
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
  test('at first: everything is released, the client is as new, the next call works', async () => {
    await using setting = await startSetting()
    const { client, server, proxy, told } = setting
    server.inject({ method: 'initialize', instead: { status: 503, body: 'Overloaded' } })
    expect(await rejectionOf(client.callTool('echo'))).toMatchObject({
      code: 'REJECTED',
      outcome: 'not-executed',
    })
    expect(client.isClientInitialized).toBe(false)
    expect(await client.getSessionId()).toBe(undefined)
    expect(statesOf(told).at(-1)).toBe('handshaking>created')
    const first = await proxy.waitFor(({ end }) => end !== undefined)
    expect(textOf(await client.callTool('echo', { text: 'x' }))).toBe('x')
    // The dispatcher of the failed life is gone, with its connections.
    const second = proxy.exchanges.find(({ n }) => n > first.n)
    expect(second?.connection).toBeGreaterThan(first.connection)
  })

  test('its failure reaches each of those who waited, once, and is not kept', async () => {
    await using setting = await startSetting()
    const { client, server, proxy } = setting
    server.inject({ method: 'initialize', instead: { status: 503 } })
    const calls = Array.from({ length: 10 }, () => client.callTool('echo', { text: 'x' }))
    const outcomes = await Promise.allSettled(calls)
    expect(outcomes.map(({ status }) => status)).toEqual(Array(10).fill('rejected'))
    expect(proxy.count({ rpcMethod: 'initialize' })).toBe(1)
    expect(textOf(await client.callTool('echo', { text: 'x' }))).toBe('x')
  })

  test('an error that the server answers to initialize stays the error of the SDK', async () => {
    await using setting = await startSetting()
    const { client, server } = setting
    const error = { code: -32603, message: 'Not today' }
    server.inject({
      method: 'initialize',
      instead: { status: 200, body: (id) => JSON.stringify({ jsonrpc: '2.0', id, error }) },
    })
    expect(await rejectionOf(client.ping())).toMatchObject({ name: 'McpError', code: -32603 })
    await client.ping()
  })

  test('on replacing a session: tells the loss, keeps the connections, and the next call works', async () => {
    await using setting = await startSetting()
    const { client, server, proxy, told } = setting
    await client.callTool('counter_add')
    server.forgetSessions()
    server.inject({ method: 'initialize', instead: { status: 503, body: 'Overloaded' } })
    const mark = proxy.mark()
    const error = await rejectionOf(client.callTool('counter_add'))
    expect(error).toMatchObject({
      code: 'REJECTED',
      outcome: 'not-executed',
      cause: { code: 'SESSION_LOST', status: 404, cause: { code: 'REJECTED', status: 503 } },
    })
    expect(TransportError.is((error as Error).cause)).toBe(true)
    expect(client.isClientInitialized).toBe(true)
    expect(statesOf(told).at(-1)).toBe('handshaking>idle')
    expect((await client.callTool('counter_add')).structuredContent).toEqual({ count: 1 })
    expect(mark.postConnections()).toBe(0)
  })

  test('the error of a server that cannot be reached has the frame of each caller', async () => {
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

  test('a server that went away for good: UNREACHABLE, which tells of no loss', async () => {
    const port = await freePort()
    await using client = new McpClient({ url: `http://127.0.0.1:${port}/mcp` })
    const error = await rejectionOf(client.ping())
    expect(error).toMatchObject({ code: 'UNREACHABLE', cause: { code: 'UNREACHABLE' } })
  })
})

test('a session that is lost before its handshake has come to an end is opened once more', async () => {
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

describe('late news of an old session', () => {
  test('a 404 that comes when there is a new session does not touch it', async () => {
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

  test('a call that still runs in the old session gets its own answer', async () => {
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

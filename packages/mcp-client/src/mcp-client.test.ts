import { createDispatcher } from '@x/mcp-transport'
import { deferred, startRecordingProxy, startLegacyServer, startTestServer } from '@x/mcp-testing'
import { beforeEach, describe, expect, test, vi } from 'vitest'
import { RecordingFactory } from '../test/session-stores.ts'
import {
  answerWith,
  is,
  rejectionOf,
  startSetting,
  statesOf,
  stopClock,
  textOf,
} from '../test/setting.ts'
import { McpClient, StaticServerDirectory } from './index.ts'
import type { McpServer, McpServerDirectory } from './index.ts'

describe('the two phases', () => {
  test('opens the session with the first call; later calls need one request each', async () => {
    await using setting = await startSetting()
    const { client, proxy, observed } = setting
    expect(client.isClientInitialized).toBe(false)
    expect(client.serverSlug).toBe(undefined)
    expect(await client.getSessionId()).toBe(undefined)
    expect(proxy.exchanges).toEqual([])

    const result = await client.callTool('counter_add', { by: 2 })
    expect(result.structuredContent).toEqual({ count: 2 })
    expect(client.isClientInitialized).toBe(true)
    expect(await client.getSessionId()).toBe(setting.server.sessions[0])
    expect(statesOf(observed)).toEqual([
      'created>connecting',
      'connecting>handshaking',
      'handshaking>active',
    ])

    const mark = proxy.mark()
    for (let n = 0; n < 5; n++) await client.callTool('counter_add')
    expect(mark.count({ httpMethod: 'POST' })).toBe(5)
    expect(mark.postConnections()).toBe(0)
  })

  test('uses one dispatcher, one lookup and one store for two sessions when the server lost the first', async () => {
    await using server = await startLegacyServer()
    await using proxy = await startRecordingProxy(server.url)
    await using dispatcher = countingDispatcher()
    let lookups = 0
    const directory: McpServerDirectory = {
      retrieve: async () => ({ mcpUrl: proxy.url, lookups: ++lookups }),
    }
    const sessionInfoFactory = new RecordingFactory()
    await using client = new McpClient(
      { slug: 'shop' },
      { directory, sessionInfoFactory, dispatcher: dispatcher.dispatcher },
    )
    expect(client.serverSlug).toBe('shop')
    await client.callTool('counter_add', { by: 5 })
    const [lost] = server.sessions

    server.forgetSessions()
    const mark = proxy.mark()
    const healed = await client.callTool('counter_add')

    expect(healed.structuredContent).toEqual({ count: 1 }) // the server's state of the old session is gone
    expect(await client.getSessionId()).not.toBe(lost)
    expect(lookups).toBe(1)
    expect(sessionInfoFactory.servers).toHaveLength(1)
    expect(dispatcher.initializes()).toBe(2)
    expect(proxy.count({ rpcMethod: 'initialize' })).toBe(2)
    expect(mark.exchanges().flatMap(({ rpcMethod }) => rpcMethod ?? [])).toEqual([
      'tools/call',
      'initialize',
      'notifications/initialized',
      'tools/call',
    ])
    expect(mark.postConnections()).toBe(0)
    expect(server.executions('counter_add')).toBe(2)
  })

  test('emits sessionReplaced with shortened ids', async () => {
    await using setting = await startSetting()
    const { client, server, observed } = setting
    await client.ping()
    server.forgetSessions()
    await client.ping()
    const replaced = observed.filter(({ event }) => event === 'sessionReplaced')
    expect(replaced).toHaveLength(1)
    expect(replaced[0]?.payload).toMatchObject({
      oldEpoch: 1,
      newEpoch: 2,
      oldSessionId: expect.stringMatching(/^.{4}…\(\d+\)$/),
      newSessionId: expect.stringMatching(/^.{4}…\(\d+\)$/),
    })
    expect(statesOf(observed).slice(3)).toEqual([
      'active>idle',
      'idle>handshaking',
      'handshaking>active',
    ])
  })

  test('uses a server without session ids like any other', async () => {
    await using setting = await startSetting({ server: { assignSessions: false } })
    await setting.client.callTool('counter_add')
    await setting.client.callTool('counter_add')
    expect(setting.server.count('initialize')).toBe(1)
    expect(await setting.client.getSessionId()).toBe(undefined)
  })

  test('leaves a given dispatcher open', async () => {
    await using server = await startLegacyServer()
    const dispatcher = createDispatcher()
    try {
      for (let n = 0; n < 2; n++) {
        await using client = new McpClient({ url: server.url }, { dispatcher })
        await client.ping()
      }
    } finally {
      await dispatcher.destroy()
    }
    expect(server.count('ping')).toBe(2)
  })
})

describe('calling tools', () => {
  test('sends metadata and passes on progress', async () => {
    await using setting = await startSetting()
    const { client, server } = setting
    const progress = deferred<unknown>()
    const call = client.callTool(
      'slow',
      {},
      { meta: { trace: 't-1' }, onProgress: progress.resolve },
    )
    const request = await server.waitFor(is.tool('slow'))
    expect(request.params).toMatchObject({ _meta: { trace: 't-1' } })
    await server.progress(1, 2)
    expect(await progress.promise).toMatchObject({ progress: 1, total: 2 })
    server.release('done')
    expect(textOf(await call)).toBe('done')
  })

  test('sends the arguments as they were when the call was made', async () => {
    await using setting = await startSetting()
    const args = { text: 'as it was' }
    const call = setting.client.callTool('echo', args)
    args.text = 'changed'
    expect(textOf(await call)).toBe('as it was')
  })

  test('rejects arguments that are not JSON, and affects no other call', async () => {
    await using setting = await startSetting()
    const error = await rejectionOf(setting.client.callTool('echo', { text: 1n }))
    expect(error).toMatchObject({ outcome: 'not-executed', cause: expect.any(Error) })
    expect(setting.server.executions('echo')).toBe(0)
    await setting.client.ping()
  })

  test('rejects with UNEXPECTED_RESPONSE and a cause for a result that does not fit its schema', async () => {
    await using setting = await startSetting()
    setting.proxy.inject({
      match: is.tool('echo'),
      action: answerWith({ result: { content: 7 } }),
    })
    const error = await rejectionOf(setting.client.callTool('echo', { text: 'x' }))
    expect(error).toMatchObject({
      code: 'UNEXPECTED_RESPONSE',
      tool: 'echo',
      outcome: 'executed',
      result: { content: 7 },
      cause: expect.any(Error),
    })
  })

  test('rejects with UNEXPECTED_RESPONSE that mentions HTML if the server is not an MCP server', async () => {
    await using server = await startTestServer((_request, response) => {
      response.setHeader('content-type', 'text/html').end('<html><body>Welcome</body></html>')
    })
    await using client = new McpClient({ url: server.url })
    expect(await rejectionOf(client.callTool('echo'))).toMatchObject({
      code: 'UNEXPECTED_RESPONSE',
      outcome: 'not-executed',
      message: expect.stringContaining('HTML'),
    })
  })
})

describe('time limits and aborts', () => {
  beforeEach(() => stopClock())

  test('waits no longer than handshakeMs for a server that is silent in the handshake', async () => {
    await using setting = await startSetting({ client: { handshakeMs: 4000 } })
    const { client, proxy } = setting
    const undo = proxy.inject({ match: is.method('notifications/initialized'), action: 'hang' })
    const call = rejectionOf(client.callTool('echo'))
    await proxy.waitFor(is.method('notifications/initialized'))
    vi.advanceTimersByTime(4000)
    expect(await call).toMatchObject({
      code: 'TIMEOUT',
      outcome: 'not-executed',
      message: expect.stringContaining('initialize of MCP server'),
    })
    undo()
    expect(textOf(await client.callTool('echo', { text: 'again' }))).toBe('again')
  })

  test('lets the other callers wait when one aborts, and never cancels initialize', async () => {
    await using setting = await startSetting()
    const { client, server, proxy } = setting
    const open = deferred<'forward'>()
    proxy.inject({ match: is.initialize, times: 1, action: () => open.promise })
    const impatient = new AbortController()
    const leaving = client.callTool('echo', { text: 'x' }, { signal: impatient.signal })
    const staying = client.callTool('echo', { text: 'y' })
    await proxy.waitFor(is.initialize)
    const reason = new Error('changed my mind')
    impatient.abort(reason)
    expect(await rejectionOf(leaving)).toBe(reason)
    open.resolve('forward')
    expect(textOf(await staying)).toBe('y')
    expect(proxy.count({ rpcMethod: 'initialize' })).toBe(1)
    expect(proxy.count({ rpcMethod: 'notifications/cancelled' })).toBe(0)
    expect(server.executions('echo')).toBe(1)
  })

  test('aborts the handshake when all callers have aborted; a call at once after it opens a new session', async () => {
    await using setting = await startSetting()
    const { client, proxy } = setting
    proxy.inject({ match: is.initialize, times: 1, action: 'hang' })
    const caller = new AbortController()
    const calls = [1, 2].map(() => client.callTool('echo', {}, { signal: caller.signal }))
    const hanging = await proxy.waitFor(is.initialize)
    caller.abort(new Error('all of us'))
    const next = client.callTool('echo', { text: 'mine' })
    for (const call of calls) await expect(call).rejects.toThrow('all of us')
    expect(textOf(await next)).toBe('mine')
    vi.advanceTimersByTime(2000) // a late answer could still assign a session
    await proxy.waitFor((exchange) => exchange === hanging && exchange.end === 'client-gone')
  })

  test('sends nothing for a signal that has aborted before', async () => {
    await using setting = await startSetting()
    const signal = AbortSignal.abort(new Error('before'))
    await expect(setting.client.callTool('echo', {}, { signal })).rejects.toThrow('before')
    expect(setting.proxy.exchanges).toEqual([])
    await setting.client.ping()
    await expect(setting.client.callTool('echo', {}, { signal })).rejects.toThrow('before')
    expect(setting.server.executions('echo')).toBe(0)
  })

  test('rejects an invalid time limit', async () => {
    await using setting = await startSetting()
    await expect(setting.client.ping({ timeoutMs: 0 })).rejects.toThrow(TypeError)
  })
})

describe('finding the server', () => {
  test.each<[string, McpServer, string]>([
    ['no URL', { mcpUrl: null }, 'MCP server "shop" has no URL'],
    ['an empty URL', { mcpUrl: '' }, 'MCP server "shop" has no URL'],
    [
      'a malformed URL',
      { mcpUrl: 'shop/mcp?key=secret' },
      'MCP server "shop" cannot be used: mcpUrl must be an absolute URL',
    ],
    ['a URL of another kind', { mcpUrl: 'ftp://shop/mcp' }, 'http or https'],
    ['a header of two lines', { mcpUrl: 'http://h/mcp', headers: { a: 'x\r\ny' } }, '"a"'],
  ])('rejects with CONFIG for %s in the directory', async (_what, shop, message) => {
    const directory = new StaticServerDirectory({ shop })
    await using client = new McpClient({ slug: 'shop' }, { directory })
    const error = await rejectionOf(client.callTool('echo'))
    expect(error).toMatchObject({ code: 'CONFIG', server: 'shop', outcome: 'not-executed' })
    expect(String(error)).toContain(message)
    expect(String(error)).not.toContain('secret')
  })

  test('rejects with CONFIG for a name without a directory', async () => {
    await using nameless = new McpClient({ name: 'The shop' })
    expect(await rejectionOf(nameless.callTool('echo'))).toMatchObject({ code: 'CONFIG' })
  })

  test('rejects with the error of a directory, and the next call asks again', async () => {
    await using server = await startLegacyServer()
    let lookups = 0
    const down = new Error('The directory is down')
    const directory: McpServerDirectory = {
      retrieve: async () => {
        if (++lookups === 1) throw down
        return { mcpUrl: server.url }
      },
    }
    await using client = new McpClient({ slug: 'shop' }, { directory })
    expect(await rejectionOf(client.callTool('echo'))).toBe(down)
    expect(textOf(await client.callTool('echo', { text: 'x' }))).toBe('x')
  })

  test('does not wait for a directory that ignores the signal', async () => {
    const directory: McpServerDirectory = { retrieve: () => new Promise(() => {}) }
    await using client = new McpClient({ slug: 'shop' }, { directory })
    const error = await rejectionOf(client.callTool('echo', {}, { timeoutMs: 30 }))
    expect(error).toMatchObject({ code: 'TIMEOUT', outcome: 'not-executed' })
    const call = client.callTool('echo')
    await client.dispose()
    expect(await rejectionOf(call)).toMatchObject({ code: 'CLOSED' })
  })

  test('prefers the headers of the config to those of the directory, and calls a header function for each request', async () => {
    await using server = await startLegacyServer({ listenStream: 'refuse-405' })
    const directory = new StaticServerDirectory({
      shop: { mcpUrl: server.url, headers: { authorization: 'Bearer directory' } },
    })
    await using named = new McpClient({ slug: 'shop' }, { directory })
    await named.ping()
    expect(server.received.at(-1)?.headers).toMatchObject({ authorization: 'Bearer directory' })

    let token = 0
    const methods: (string | undefined)[] = []
    await using rotating = new McpClient({
      url: server.url,
      headers: async ({ rpcMethod }) => {
        methods.push(rpcMethod)
        return { authorization: `Bearer ${++token}` }
      },
    })
    await rotating.ping()
    await rotating.ping()
    expect(methods.filter((method) => method !== undefined)).toEqual([
      'server/discover',
      'initialize',
      'notifications/initialized',
      'ping',
      'ping',
    ])
    expect(server.received.at(-1)?.headers['authorization']).toBe(`Bearer ${token}`)
  })

  test('rejects with CONFIG if a header function fails, sends nothing, and the next call asks again', async () => {
    await using server = await startLegacyServer()
    let isLoggedIn = false
    await using client = new McpClient({
      url: server.url,
      headers: () => {
        if (!isLoggedIn) throw new Error('Log in first')
        return {}
      },
    })
    expect(await rejectionOf(client.callTool('echo'))).toMatchObject({
      code: 'CONFIG',
      outcome: 'not-executed',
    })
    expect(server.received).toEqual([])
    isLoggedIn = true
    expect(textOf(await client.callTool('echo', { text: 'x' }))).toBe('x')
  })

  test('rejects a call from inside its own handshake, which would wait for itself', async () => {
    await using server = await startLegacyServer()
    await using client: McpClient = new McpClient({
      url: server.url,
      headers: async ({ rpcMethod }) => {
        if (rpcMethod === 'initialize') await client.callTool('whoami')
        return {}
      },
    })
    const error = await rejectionOf(client.callTool('echo'))
    expect(error).toMatchObject({ code: 'CONFIG' })
    expect(error).toHaveProperty('cause.cause.code', 'REENTRANT')
  })
})

describe('listeners', () => {
  test('are called in spite of one that throws, which is logged', async () => {
    await using setting = await startSetting()
    const { client, observed } = setting
    const undo = client.on('state', () => {
      throw new Error('from a listener')
    })
    await client.ping()
    expect(observed).toContainEqual({
      event: 'log',
      payload: expect.objectContaining({ level: 'warning', cause: new Error('from a listener') }),
    })
    undo()
    const before = observed.filter(({ event }) => event === 'log').length
    await client.dispose()
    expect(observed.filter(({ event }) => event === 'log')).toHaveLength(before)
  })

  test('may call the client, also during a handshake: one initialization serves all', async () => {
    await using setting = await startSetting()
    const { client, server } = setting
    const calls: Promise<unknown>[] = []
    client.on('state', ({ to }) => {
      if (to !== 'disposing' && to !== 'created') calls.push(client.ping())
    })
    client.on('exchange', ({ rpcMethod }) => {
      if (rpcMethod === 'initialize') calls.push(client.ping())
    })
    await client.ping()
    expect(await Promise.allSettled(calls)).toHaveLength(4)
    await Promise.all(calls)
    expect(server.count('initialize')).toBe(1)
  })
})

/** A real dispatcher, and the number of `initialize` requests through it. */
function countingDispatcher() {
  const dispatcher = createDispatcher()
  const dispatch = dispatcher.dispatch.bind(dispatcher)
  let initializes = 0
  dispatcher.dispatch = (options, handler) => {
    if (typeof options.body === 'string' && options.body.includes('"initialize"')) initializes++
    return dispatch(options, handler)
  }
  return {
    dispatcher,
    initializes: () => initializes,
    [Symbol.asyncDispose]: () => dispatcher.destroy(),
  }
}

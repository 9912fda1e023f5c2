import { deferred, startLegacyServer } from '@x/mcp-testing'
import { beforeEach, describe, expect, test, vi } from 'vitest'
import { currentRun, McpClient, runInSessionScope } from '../src/index.ts'
import { DurableFactory, storeWith } from './session-stores.ts'
import {
  is,
  rejectionOf,
  startSetting,
  statesOf,
  stopClock,
  textOf,
  warningsOf,
} from './setting.ts'

describe('the session on the server', () => {
  beforeEach(() => stopClock()) // a loaded machine may need longer for a DELETE than dispose() waits

  test('is terminated once by dispose()', async () => {
    await using setting = await startSetting()
    const { client, server, proxy } = setting
    await client.ping()
    const [sessionId] = server.sessions
    await client.dispose()
    expect(server.sessions).toEqual([])
    const deletes = proxy.exchanges.filter(is.delete)
    expect(deletes.map((exchange) => exchange.sessionId)).toEqual([sessionId])
    expect(await client.getSessionId()).toBe(undefined)
    expect(client.isClientInitialized).toBe(false)
  })

  test('stays with terminateOnClose: false, and with a durable store', async () => {
    const durable = { sessionInfoFactory: new DurableFactory() }
    for (const options of [{ terminateOnClose: false }, durable]) {
      await using setting = await startSetting({ client: options })
      await setting.client.ping()
      await setting.client.dispose()
      expect(setting.proxy.count({ httpMethod: 'DELETE' })).toBe(0)
      expect(setting.server.sessions).toHaveLength(1)
    }
  })

  test('is terminated with terminateOnClose: true in spite of a durable store, which removes its record', async () => {
    const sessionInfoFactory = new DurableFactory()
    await using setting = await startSetting({
      client: { sessionInfoFactory, terminateOnClose: true },
    })
    await setting.client.ping()
    await setting.client.dispose()
    expect(setting.server.sessions).toEqual([])
    expect(await sessionInfoFactory.createSession().getSessionId()).toBe(undefined)
  })

  test('is terminated with terminateOnClose: true also when it was resumed', async () => {
    const sessionInfoFactory = new DurableFactory()
    await using setting = await startSetting({ client: { sessionInfoFactory } })
    await setting.client.ping()
    await setting.client.dispose()
    await using next = new McpClient(
      { url: setting.proxy.url },
      { sessionInfoFactory, terminateOnClose: true },
    )
    await next.ping()
    expect(setting.server.count('initialize')).toBe(1)
    await next.dispose()
    expect(setting.proxy.count({ httpMethod: 'DELETE' })).toBe(1)
    expect(setting.server.sessions).toEqual([])
  })

  test('is used by no call before it is terminated, also after a call that stopped waiting for that', async () => {
    const sessionInfoFactory = new DurableFactory()
    await using setting = await startSetting({
      client: { sessionInfoFactory, terminateOnClose: true, listen: false },
    })
    const { client, server, proxy } = setting
    await client.ping()
    const gate = deferred<'forward'>()
    proxy.inject({ match: is.delete, action: () => gate.promise })
    const closing = client.dispose()
    await proxy.waitFor(is.delete)
    const abort = new AbortController()
    const stopped = rejectionOf(client.callTool('counter_add', {}, { signal: abort.signal }))
    abort.abort(new Error('No longer needed'))
    expect(await stopped).toHaveProperty('message', 'No longer needed')
    const call = client.callTool('counter_add')
    await using other = new McpClient({ url: server.url }, { listen: false })
    await other.ping() // longer than the call would need to be sent
    const early = proxy.count({ toolName: 'counter_add' })
    gate.resolve('forward')
    await closing
    expect(textOf(await call)).toBe('counter is 1')
    expect(early).toBe(0)
  })

  test('is terminated for each of many scopes, a few at a time', async () => {
    let thread = 0
    await using setting = await startSetting({ client: { scope: () => ({ thread: `${thread}` }) } })
    const { client, server, proxy } = setting
    for (; thread < 100; thread++) await client.ping()
    expect(server.sessions).toHaveLength(100)
    const gate = deferred<'forward'>()
    proxy.inject({ match: is.delete, action: () => gate.promise })
    const closing = client.dispose()
    await proxy.waitFor(() => proxy.count({ httpMethod: 'DELETE' }) === 16)
    gate.resolve('forward')
    await closing
    expect(server.sessions).toEqual([])
    const deletes = proxy.exchanges.filter(is.delete)
    expect(deletes).toHaveLength(100)
  })

  test('does not make dispose() wait once for each of many scopes on a silent server', async () => {
    let thread = 0
    await using setting = await startSetting({ client: { scope: () => ({ thread: `${thread}` }) } })
    const { client, proxy, observed } = setting
    for (; thread < 80; thread++) await client.ping()
    proxy.inject({ match: is.delete, action: 'hang' })
    const closing = client.dispose()
    await proxy.waitFor(() => proxy.count({ httpMethod: 'DELETE' }) === 16)
    vi.advanceTimersByTime(900)
    await closing
    expect(proxy.count({ httpMethod: 'DELETE' })).toBe(16)
    expect(warningsOf(observed)).toHaveLength(80)
  })

  test('of a detached run is terminated by dispose(), because nobody can continue it', async () => {
    await using setting = await startSetting({ client: { scope: 'run' } })
    const { client, server } = setting
    for (let n = 0; n < 3; n++) {
      await runInSessionScope(async () => {
        await client.ping()
        currentRun()?.detach()
      })
    }
    expect(server.sessions).toHaveLength(3)
    await client.dispose({ terminate: false })
    expect(server.sessions).toHaveLength(3)
    await client.dispose()
    expect(server.sessions).toEqual([])
  })

  test('causes no error when the server has lost it or refuses DELETE', async () => {
    await using setting = await startSetting({ server: { terminate: 'refuse-405' } })
    const { client, server, observed } = setting
    await client.ping()
    await client.dispose()
    server.terminate = 'allow'
    await client.ping()
    server.forgetSessions()
    await client.dispose()
    expect(observed.filter(({ event }) => event === 'log')).toEqual([])
  })

  test('causes a warning and no error when it could not be terminated', async () => {
    await using setting = await startSetting()
    const { client, proxy, observed } = setting
    await client.ping()
    proxy.inject({ match: is.delete, action: { status: 500 } })
    await client.dispose()
    expect(warningsOf(observed).join()).toContain('could not be terminated on the server')
  })
})

describe('dispose()', () => {
  test('does nothing on an unused client, and when called twice', async () => {
    await using setting = await startSetting()
    const { client, proxy, observed } = setting
    await client.dispose()
    expect(observed).toEqual([])
    await client.ping()
    await client.dispose()
    await client.dispose()
    expect(proxy.count({ httpMethod: 'DELETE' })).toBe(1)
  })

  test('may be called concurrently, and from a listener', async () => {
    await using setting = await startSetting()
    const { client, proxy, observed } = setting
    await client.ping()
    const again: Promise<void>[] = []
    client.on('state', () => again.push(client.dispose()))
    await Promise.all([client.dispose(), client.dispose(), client[Symbol.asyncDispose]()])
    await Promise.all(again)
    expect(proxy.count({ httpMethod: 'DELETE' })).toBe(1)
    expect(statesOf(observed).slice(3)).toEqual(['active>disposing', 'disposing>created'])
  })

  test('lets a call that follows at once wait, then open a session with nothing of the old one', async () => {
    stopClock()
    await using setting = await startSetting()
    const { client, server } = setting
    await client.callTool('counter_add')
    await client.setLoggingLevel('warning')
    await client.subscribeResource('cart://items')
    await client.listTools()
    const disposing = client.dispose()
    const call = client.callTool('counter_add')
    await disposing
    expect((await call).structuredContent).toEqual({ count: 1 })
    expect(server.sessions).toHaveLength(1)
    expect(server.count('initialize')).toBe(2)
    expect(server.count('logging/setLevel')).toBe(1)
    expect(server.count('resources/subscribe')).toBe(1)
    expect(client.status().tools).toBeUndefined()
  })

  test('lets a call that waits for the disposal be aborted', async () => {
    await using setting = await startSetting()
    await setting.client.ping()
    const disposing = setting.client.dispose()
    const caller = new AbortController()
    const call = setting.client.callTool('echo', {}, { signal: caller.signal })
    caller.abort(new Error('enough'))
    await expect(call).rejects.toThrow('enough')
    await disposing
  })

  test('rejects calls in flight with CLOSED and an unknown outcome at once', async () => {
    await using setting = await startSetting()
    const { client, server, proxy } = setting
    const calls = [1, 2, 3].map(() => client.callTool('slow'))
    await server.waitFor(() => server.count('tools/call') === 3)
    // Calls reject while the server still handles DELETE.
    proxy.inject({ match: is.delete, action: 'hang' })
    const errors = Promise.all(calls.map(rejectionOf))
    const disposing = client.dispose()
    for (const error of await errors) {
      expect(error).toMatchObject({ code: 'CLOSED', tool: 'slow', outcome: 'unknown' })
    }
    await proxy.waitFor(is.delete)
    await proxy.close() // otherwise dispose() would wait for its limit
    await disposing
  })

  test('rejects calls that still run in an older session', async () => {
    await using setting = await startSetting()
    const { client, server } = setting
    const old = client.callTool('slow')
    await server.waitFor(is.tool('slow'))
    server.forgetSessions()
    await client.ping()
    const error = rejectionOf(old)
    await client.dispose()
    expect(await error).toMatchObject({ code: 'CLOSED', outcome: 'unknown' })
  })

  test('rejects a call with CLOSED and "not executed" before it is sent', async () => {
    await using setting = await startSetting()
    const { client, server } = setting
    await client.ping()
    const errors = [1, 2, 3].map(() => rejectionOf(client.callTool('counter_add')))
    await client.dispose()
    const outcomes = (await Promise.all(errors)).map(
      (error) => (error as { outcome: string }).outcome,
    )
    const certain = outcomes.filter((outcome) => outcome === 'not-executed').length
    expect(outcomes.length - certain + server.executions('counter_add')).toBeLessThanOrEqual(6)
    expect(server.executions('counter_add')).toBeLessThanOrEqual(3 - certain)
  })

  test('does not open a session afterwards for a call that was made just before', async () => {
    await using setting = await startSetting()
    const { client, server } = setting
    for (const open of [() => client.callTool('counter_add'), () => client.listTools()]) {
      const error = rejectionOf(open())
      await client.dispose()
      expect(await error).toMatchObject({ code: 'CLOSED', outcome: 'not-executed' })
      expect(client.isClientInitialized).toBe(false)
    }
    expect(server.received).toEqual([])
  })

  test('aborts a handshake that replaces a session', async () => {
    await using setting = await startSetting()
    const { client, server, proxy } = setting
    await client.ping()
    server.forgetSessions()
    proxy.inject({ match: is.initialize, times: 1, action: 'hang' })
    const error = rejectionOf(client.callTool('echo'))
    await proxy.waitFor(() => proxy.count({ rpcMethod: 'initialize' }) === 2)
    await client.dispose()
    expect(await error).toMatchObject({ code: 'CLOSED', outcome: 'not-executed' })
    expect(textOf(await client.callTool('echo', { text: 'x' }))).toBe('x')
  })

  test.each([
    ['nobody aborts', undefined, { code: 'CLOSED', outcome: 'not-executed' }],
    ['the only caller aborts', new Error('changed my mind'), { message: 'changed my mind' }],
  ])(
    'terminates a session whose handshake has not finished, if %s',
    async (_what, reason, error) => {
      stopClock()
      await using setting = await startSetting()
      const { client, server, proxy } = setting
      proxy.inject({ match: is.method('notifications/initialized'), times: 1, action: 'hang' })
      const caller = new AbortController()
      const call = rejectionOf(client.callTool('echo', {}, { signal: caller.signal }))
      await proxy.waitFor(is.method('notifications/initialized'))
      expect(server.sessions).toHaveLength(1)
      if (reason !== undefined) {
        caller.abort(reason)
        await call
      }
      await client.dispose() // at once, because a process may exit after it
      expect(await call).toMatchObject(error)
      expect(server.sessions).toEqual([])
      expect(proxy.count({ httpMethod: 'DELETE' })).toBe(1)
    },
  )

  test('leaves no session and no call in a closed one, whenever the handshake finishes', async () => {
    stopClock()
    await using server = await startLegacyServer()
    for (let delay = 0; delay < 60; delay++) {
      const client = new McpClient({ url: server.url })
      let disposing: Promise<void> | undefined
      client.on('exchange', async ({ rpcMethod }) => {
        if (rpcMethod !== 'notifications/initialized') return
        for (let turn = 0; turn < delay; turn++) await Promise.resolve()
        disposing ??= client.dispose()
      })
      const [call] = await Promise.allSettled([client.callTool('echo', { text: 'x' })])
      await disposing
      expect([call.status, call.status === 'rejected' && call.reason]).toEqual([
        'rejected',
        expect.objectContaining({ code: 'CLOSED' }),
      ])
      expect(server.sessions).toEqual([])
    }
  })

  test('does not wait for itself when a header function calls it during the handshake', async () => {
    stopClock()
    await using server = await startLegacyServer()
    let disposals = 0
    const client: McpClient = new McpClient({
      url: server.url,
      headers: async ({ rpcMethod }) => {
        if (rpcMethod === 'initialize' && ++disposals === 1) await client.dispose()
        return {}
      },
    })
    expect(await rejectionOf(client.ping())).toMatchObject({ code: 'CLOSED' })
    await client.ping()
    await client.dispose()
    expect(server.sessions).toEqual([])
  })

  test('needs less than 1 s for a server that no longer answers, and the next session works', async () => {
    stopClock()
    await using setting = await startSetting()
    const { client, proxy } = setting
    await client.ping()
    const goOn = proxy.inject({ match: () => true, action: 'hang' })
    const calls = [rejectionOf(client.callTool('echo')), rejectionOf(client.ping())]
    await proxy.waitFor(is.tool('echo'))
    const disposed = client.dispose()
    await proxy.waitFor(is.delete)
    vi.advanceTimersByTime(999)
    await disposed
    expect(await Promise.all(calls)).toMatchObject([{ code: 'CLOSED' }, { code: 'CLOSED' }])
    goOn()
    const hanging = await proxy.waitFor(
      ({ httpMethod, end }) => httpMethod === 'DELETE' && end !== undefined,
    )
    expect(hanging.end).toBe('client-gone')
    expect(textOf(await client.callTool('echo', { text: 'x' }))).toBe('x')
  })

  test('needs less than 5 s for a store whose writes never finish', async () => {
    stopClock()
    const flushing = deferred()
    const flush = (): Promise<void> => {
      flushing.resolve()
      return new Promise(() => {})
    }
    const sessionInfoFactory = { createSession: () => storeWith({ flush }) }
    await using setting = await startSetting({ client: { sessionInfoFactory } })
    await setting.client.ping()
    const disposed = setting.client.dispose()
    await flushing.promise
    vi.advanceTimersByTime(4999)
    await disposed
    expect(setting.proxy.exchanges.every(({ end }) => end !== undefined)).toBe(true)
    expect(statesOf(setting.observed).at(-1)).toBe('disposing>created')
  })
})

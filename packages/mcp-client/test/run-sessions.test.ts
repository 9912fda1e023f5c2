import { AsyncLocalStorage } from 'node:async_hooks'
import { setImmediate } from 'node:timers/promises'
import { handlerDispatcher } from '@x/internal/testing/undici'
import { deferred, freePort, startRecordingProxy, startLegacyServer } from '@x/mcp-testing'
import type { LegacyServer } from '@x/mcp-testing'
import { describe, expect, test, vi } from 'vitest'
import { currentRun, runIdOf, runInSessionScope, McpClient } from '../src/index.ts'
import type { McpClientOptions, McpServerDirectory, SessionScope } from '../src/index.ts'
import { ScopedFactory, storeWith } from './session-stores.ts'
import { is, rejectionOf, textOf } from './setting.ts'

/** A client whose sessions belong to runs. */
const inRuns = (url: string, options: McpClientOptions = {}): McpClient =>
  new McpClient({ url }, { scope: 'run', ...options })

const add = async (client: McpClient): Promise<unknown> =>
  (await client.callTool('counter_add')).structuredContent

describe('one session for each server, scope and run', () => {
  test('is replaced when the server has lost it, which emits sessionReplaced', async () => {
    await using server = await startLegacyServer()
    await using client = inRuns(server.url)
    const observed: unknown[] = []
    client.on('sessionReplaced', (_payload, scope) => observed.push(scope?.run))
    await runInSessionScope(async () => {
      await add(client)
      server.forgetSessions()
      expect(await add(client)).toEqual({ count: 1 })
      expect(observed).toEqual([currentRun()?.id])
    })
  })

  test('gets its scope at every call, with the run added', async () => {
    const principal = new AsyncLocalStorage<string>()
    const sessionInfoFactory = new ScopedFactory()
    await using server = await startLegacyServer()
    await using client = inRuns(server.url, {
      sessionInfoFactory,
      scope: () => ({ principal: principal.getStore(), thread: 't1', run: 'current' }),
    })
    await runInSessionScope(
      async () => {
        await principal.run('anna', () => add(client))
        await principal.run('bert', () => add(client))
        expect(await principal.run('anna', () => add(client))).toEqual({ count: 2 })
      },
      { id: 'run_0123456789abcdef' },
    )
    expect([...sessionInfoFactory.kept.keys()]).toEqual([
      `["${server.url}","anna","t1","run_0123456789abcdef"]`,
      `["${server.url}","bert","t1","run_0123456789abcdef"]`,
    ])
    expect(server.sessions).toEqual([])
  })
})

describe('outside a run', () => {
  test('refuses a call, and sends nothing', async () => {
    await using server = await startLegacyServer()
    await using client = inRuns(server.url)
    const error = await rejectionOf(client.callTool('echo', { text: 'x' }))
    expect(error).toMatchObject({ code: 'NO_RUN', outcome: 'not-executed' })
    expect(String(error)).toContain('runInSessionScope')
    expect(await rejectionOf(client.getSessionId())).toMatchObject({ code: 'NO_RUN' })
    expect(client.isClientInitialized).toBe(false)
    expect(server.received).toEqual([])
  })

  test('opens a session for a list, and closes it afterwards', async () => {
    await using server = await startLegacyServer()
    await using client = inRuns(server.url)
    expect(await client.listTools()).not.toEqual([])
    expect(server.sessions).toEqual([])
    await runInSessionScope(async () => {
      await client.listTools()
      await add(client)
      expect(server.sessions).toHaveLength(1)
    })
    expect(server.count('initialize')).toBe(2)
  })

  test('refuses a call of code that continues after its run', async () => {
    await using server = await startLegacyServer()
    await using client = inRuns(server.url)
    const late = await runInSessionScope(async () => {
      await add(client)
      return { call: AsyncLocalStorage.bind(() => add(client)) }
    })
    const received = server.received.length
    const error = await rejectionOf(late.call())
    expect(error).toMatchObject({ code: 'NO_RUN' })
    expect(String(error)).toContain('has ended')
    expect(server.received).toHaveLength(received)
  })
})

describe('the end of a run', () => {
  test('opens and closes nothing if nothing was used', async () => {
    await using server = await startLegacyServer()
    await using client = inRuns(server.url)
    await runInSessionScope(() => client.isClientInitialized)
    expect([server.connections, server.received]).toEqual([0, []])
  })

  test('closes the other servers if one is gone or refuses to terminate its session', async () => {
    await using good = await startLegacyServer()
    await using refusing = await startLegacyServer({ terminate: 'refuse-405' })
    const gone = await startLegacyServer()
    const run = runInSessionScope(async () => {
      for (const { url } of [good, refusing, gone]) await add(inRuns(url))
      await gone[Symbol.asyncDispose]()
      throw new Error('the agent failed')
    })
    await expect(run).rejects.toThrow('the agent failed')
    expect(good.sessions).toEqual([])
    expect(currentRun()).toBeUndefined()
  })

  test('rejects calls in flight with the reason of an abort, cancels them, and closes', async () => {
    await using first = await startLegacyServer()
    await using second = await startLegacyServer()
    const controller = new AbortController()
    const reason = new Error('the user has left')
    const calls: Promise<unknown>[] = []
    let late: () => Promise<unknown> = async () => {}
    const run = runInSessionScope(
      async () => {
        for (const { url } of [first, second]) {
          calls.push(rejectionOf(inRuns(url).callTool('slow')))
        }
        late = AsyncLocalStorage.bind(() => add(inRuns(first.url)))
        expect(currentRun()?.signal.aborted).toBe(false)
        await Promise.all(calls)
        throw reason
      },
      { signal: controller.signal },
    )
    const servers = [first, second]
    for (const server of servers) await server.waitFor(is.tool('slow'))
    controller.abort(reason)
    expect(await Promise.all(calls)).toEqual([reason, reason])
    expect(await rejectionOf(run)).toBe(reason)
    for (const server of servers) {
      const methods = server.received.map(({ rpcMethod, httpMethod }) => rpcMethod ?? httpMethod)
      expect(methods.slice(-2).toSorted()).toEqual(['DELETE', 'notifications/cancelled'])
      expect(server.ledger.received({ tool: 'slow', state: 'cancelled' })).toBe(1)
      expect(server.sessions).toEqual([])
    }
    expect(await rejectionOf(late())).toMatchObject({ code: 'NO_RUN', cause: reason })
  })

  test('rejects callers that wait for a session or for a list of tools on an abort', async () => {
    const { promise, resolve } = deferred<'forward'>()
    await using server = await startLegacyServer()
    await using proxy = await startRecordingProxy(server.url)
    proxy.inject({ match: is.initialize, action: () => promise })
    await using client = inRuns(proxy.url)
    const controller = new AbortController()
    const reason = new Error('the user has left')
    const own = new AbortController()
    const run = runInSessionScope(
      () =>
        Promise.all([
          rejectionOf(client.callTool('echo', { text: 'x' })),
          rejectionOf(client.listTools({ signal: own.signal })),
          rejectionOf(client.ping({ signal: controller.signal })),
        ]),
      { signal: controller.signal },
    )
    await proxy.waitFor(is.initialize)
    controller.abort(reason)
    resolve('forward')
    expect(await run).toEqual([reason, reason, reason])
    expect(server.executions('echo')).toBe(0)
  })

  test('sends nothing in a run that was aborted before it began', async () => {
    await using server = await startLegacyServer()
    await using client = inRuns(server.url)
    const signal = AbortSignal.abort(new Error('too late'))
    const run = runInSessionScope(() => add(client), { signal })
    expect(await rejectionOf(run)).toMatchObject({
      code: 'NO_RUN',
      outcome: 'not-executed',
      cause: signal.reason,
    })
    expect(server.received).toEqual([])
  })

  test('closes a call that is still connecting', async () => {
    const { promise, resolve } = deferred<'forward'>()
    await using server = await startLegacyServer()
    await using proxy = await startRecordingProxy(server.url)
    proxy.inject({ match: is.initialize, action: () => promise })
    await using client = inRuns(proxy.url)
    let call: Promise<unknown> | undefined
    await runInSessionScope(async () => {
      call = rejectionOf(client.callTool('echo', { text: 'x' }))
      await proxy.waitFor(is.initialize)
    })
    resolve('forward')
    expect(await call).toMatchObject({ code: 'CLOSED', outcome: 'not-executed' })
    expect(server.executions('echo')).toBe(0)
  })

  test('closes everything after a failed connect, and the next call tries again', async () => {
    const port = await freePort()
    await using server = await startLegacyServer()
    await using proxy = await startRecordingProxy(server.url)
    proxy.inject({ match: is.initialize, times: 1, action: { status: 500, body: 'no' } })
    await runInSessionScope(async () => {
      const nowhere = inRuns(`http://127.0.0.1:${port}/mcp`)
      expect(await rejectionOf(add(nowhere))).toMatchObject({ code: 'UNREACHABLE' })
      const client = inRuns(proxy.url)
      expect(await rejectionOf(add(client))).toMatchObject({ code: 'REJECTED' })
      expect(await add(client)).toEqual({ count: 1 })
    })
    expect(server.sessions).toEqual([])
  })
})

describe('an interrupt, where sessions are kept in memory', () => {
  const stop = { __interrupt__: [{ value: 'Really?' }] }

  test('leaves the session, and the same client continues with it', async () => {
    await using server = await startLegacyServer()
    await using client = inRuns(server.url)
    const id = runIdOf('thread-1')
    const turn = (result: unknown): Promise<unknown> =>
      runInSessionScope(async () => [await add(client), result], { id })
    const stopping = runInSessionScope(async () => ({ ...stop, count: await add(client) }), { id })
    expect(await stopping).toMatchObject({ count: { count: 1 } })
    while (server.openStreams > 0) await setImmediate() // nothing on this side waits
    expect(await turn('done')).toEqual([{ count: 2 }, 'done'])
    expect(server.sessions).toEqual([])
    expect(await turn('again')).toEqual([{ count: 1 }, 'again']) // the run before had ended
    expect(server.count('initialize')).toBe(2)
  })

  test('keeps principals and servers apart', async () => {
    const principal = new AsyncLocalStorage<string>()
    await using shop = await startLegacyServer()
    await using bank = await startLegacyServer()
    const scope = (): SessionScope => ({ principal: principal.getStore(), run: 'current' })
    await using shopping = inRuns(shop.url, { scope })
    await using banking = inRuns(bank.url, { scope })
    const turn = (who: string, result: unknown): Promise<unknown> =>
      principal.run(who, () =>
        runInSessionScope(
          async () => {
            await add(shopping)
            if (who === 'anna') await add(banking)
            return result
          },
          { id: runIdOf('thread-1') },
        ),
      )
    await turn('anna', stop)
    await turn('bert', stop)
    expect([shop.sessions.length, bank.sessions.length]).toEqual([2, 1])
    await turn('anna', undefined)
    expect([shop.sessions.length, bank.sessions.length]).toEqual([1, 0])
    expect([shop.count('initialize'), bank.count('initialize')]).toEqual([2, 1])
  })
})

describe('detached sessions', () => {
  const stop = { __interrupt__: [] }
  const idOf = (n: number): string => `run_${String(n).padStart(16, '0')}`
  const answers: Readonly<Record<string, object>> = {
    initialize: {
      protocolVersion: '2025-11-25',
      capabilities: {},
      serverInfo: { name: 'shop', version: '1' },
    },
    ping: {},
  }
  const dispatcher = handlerDispatcher(async (request) => {
    if (request.method !== 'POST') return new Response(null, { status: 405 })
    const { id, method } = JSON.parse(await request.text()) as {
      readonly id?: number
      readonly method?: string
    }
    const result = answers[method ?? '']
    if (result === undefined) return new Response(null, { status: 202 })
    const headers = { 'content-type': 'application/json', 'mcp-session-id': 'one' }
    return new Response(JSON.stringify({ jsonrpc: '2.0', id, result }), { headers })
  })

  /** A client, and the runs for which it created a session store. */
  function client(durable: boolean) {
    const created: unknown[] = []
    const sessionInfoFactory = {
      createSession(_server: unknown, scope: SessionScope = {}) {
        created.push(scope.run)
        return storeWith({ durable })
      },
    }
    const shop = inRuns('http://shop.test/mcp', { sessionInfoFactory, dispatcher, era: 'legacy' })
    const ping = async (n: number): Promise<void> => {
      const run = async (): Promise<object> => {
        await shop.ping()
        return stop
      }
      await runInSessionScope(run, { id: idOf(n) })
    }
    return { ping, created }
  }

  test('are used in the run with their id only, and again after each interrupt', async () => {
    const { ping, created } = client(false)
    for (const n of [1, 2, 1, 1]) await ping(n)
    expect(created).toEqual([idOf(1), idOf(2)])
  })

  test.each([stop, 'done'])(
    'stay for the next call if a run cannot open them first, which returns %o',
    async (end) => {
      await using server = await startLegacyServer()
      const retrieve = vi.fn<McpServerDirectory['retrieve']>(async () => ({ mcpUrl: server.url }))
      const options = { directory: { retrieve }, scope: 'run', listen: false } as const
      await using shop = new McpClient({ slug: 'shop' }, options)
      const runs = { id: idOf(1) }
      await runInSessionScope(async () => (await add(shop), stop), runs)
      retrieve.mockRejectedValueOnce(new Error('The directory is away'))
      await runInSessionScope(async () => {
        await expect(add(shop)).rejects.toThrow('away')
        expect(await add(shop)).toEqual({ count: 2 })
        return stop
      }, runs)
      retrieve.mockRejectedValueOnce(new Error('The directory is away'))
      await runInSessionScope(async () => (await add(shop).catch(() => {}), end), runs)
      expect(server.sessions).toHaveLength(end === stop ? 1 : 0)
    },
  )

  test('are not kept in memory if the store outlives the process', async () => {
    const { ping, created } = client(true)
    for (const n of [1, 1]) await ping(n)
    expect(created).toEqual([idOf(1), idOf(1)])
  })

  test('are at most a thousand: the oldest is forgotten', async () => {
    const { ping, created } = client(false)
    await ping(0)
    await Promise.all(Array.from({ length: 1000 }, (_, n) => ping(n + 1)))
    created.length = 0
    await ping(1)
    expect(created).toEqual([])
    await ping(0)
    expect(created).toEqual([idOf(0)])
  })
})

describe('two runs with one id', () => {
  test('share the session, which the last one closes', async () => {
    await using server = await startLegacyServer()
    await using client = inRuns(server.url)
    const id = runIdOf('thread-1')
    expect(id).toMatch(/^run_[0-9a-f]{16}$/)
    expect(runIdOf('thread-2')).not.toBe(id)
    await runInSessionScope(
      async () => {
        await add(client)
        expect(await outside(() => runInSessionScope(() => add(client), { id }))).toEqual({
          count: 2,
        })
        expect(await add(client)).toEqual({ count: 3 })
      },
      { id },
    )
    expect(server.count('initialize')).toBe(1)
    expect(server.sessions).toEqual([])
  })
})

test('dispose() closes the sessions of all runs', async () => {
  await using server = await startLegacyServer()
  await using client = inRuns(server.url)
  await runInSessionScope(async () => {
    await add(client)
    await outside(() =>
      runInSessionScope(async () => {
        await add(client)
        await client.dispose()
        expect(server.sessions).toEqual([])
      }),
    )
    expect(await add(client)).toEqual({ count: 1 })
  })
  expect(server.sessions).toEqual([])
})

describe('the context of a run', () => {
  test('is not kept by a shared client or a shared dispatcher that the run opened', async () => {
    await using server = await startLegacyServer()
    await using client = inRuns(server.url)
    const seen: unknown[] = []
    await using shared = new McpClient({ url: server.url })
    shared.on('promptsChanged', () => seen.push(currentRun()))
    await runInSessionScope(async () => {
      await shared.callTool('echo', { text: 'x' })
      await add(client)
      await listening(server)
      server.notify('notifications/prompts/list_changed')
      while (seen.length === 0) await setImmediate()
    })
    expect(seen).toEqual([undefined])
  })

  test('contains the header function of a client', async () => {
    await using server = await startLegacyServer()
    const headers = (): Record<string, string> => ({ 'x-run': currentRun()?.id ?? 'none' })
    await using client = new McpClient({ url: server.url, headers }, { scope: 'run' })
    const id = await runInSessionScope(async () => {
      expect(textOf(await client.callTool('echo', { text: 'x' }))).toBe('x')
      return currentRun()?.id
    })
    const posts = server.received.filter(({ rpcMethod }) => rpcMethod !== undefined)
    expect(new Set(posts.map((post) => post.headers['x-run']))).toEqual(new Set([id]))
  })
})

/** Calls as code outside of any run. */
const outside = AsyncLocalStorage.snapshot()

async function listening(server: LegacyServer): Promise<void> {
  while (server.openStreams < 2) await setImmediate()
}

import { AsyncLocalStorage } from 'node:async_hooks'
import { setImmediate } from 'node:timers/promises'
import { createDispatcher } from '@x/mcp-transport'
import { seededRandom, startLegacyServer, startRecordingProxy } from '@x/mcp-testing'
import type { LegacyServer } from '@x/mcp-testing'
import { describe, expect, test } from 'vitest'
import { McpClient } from '../src/index.ts'
import type { McpClientOptions, SessionScope } from '../src/index.ts'
import { jitter } from './jitter.ts'
import { RecordingFactory } from './session-stores.ts'
import { is, rejectionOf, stopClock, textOf } from './setting.ts'

const current = new AsyncLocalStorage<string>()
const scope = (): SessionScope => ({ principal: current.getStore() })
/** Returns the token of the principal of the current request, as a service would. */
const headers = (): Record<string, string> => ({
  authorization: `Bearer ${current.getStore() ?? 'nobody'}`,
})

function clientOf(server: LegacyServer, options: McpClientOptions = {}): McpClient {
  return new McpClient({ url: server.url, headers }, { scope, ...options })
}

/** Tokens with which each session id was sent. */
function tokensBySession(server: LegacyServer): Map<string, Set<unknown>> {
  const tokens = new Map<string, Set<unknown>>()
  for (const { sessionId, headers: sent } of server.received) {
    if (sessionId === undefined) continue
    tokens.set(sessionId, (tokens.get(sessionId) ?? new Set()).add(sent['authorization']))
  }
  return tokens
}

const principals = Array.from({ length: 50 }, (_, n) => `p${n}`)

describe('fifty principals on one client', () => {
  test('never share a session, a list or a header, in any order of calls', async () => {
    await using server = await startLegacyServer()
    await using dispatcher = disposable(createDispatcher())
    const sessionInfoFactory = new RecordingFactory()
    // All principals share one connection pool, so the socket does not separate them.
    const options = { dispatcher: dispatcher.value, sessionInfoFactory, maxRetries: 5 }
    {
      await using client = clientOf(server, options)
      const random = seededRandom(1)
      const use = async (principal: string): Promise<void> => {
        for (let n = 0; n < 4; n++) {
          await jitter(random)
          const cart = textOf(await client.callTool('cart_add', { item: `${principal}.${n}` }))
          const others = principals.filter((other) => other !== principal)
          for (const other of others) expect(cart).not.toContain(`${other}.`)
          await jitter(random)
          await client.listTools()
        }
      }
      await Promise.all(principals.map((principal) => current.run(principal, () => use(principal))))

      const tokens = tokensBySession(server)
      expect(tokens.size).toBe(50)
      for (const used of tokens.values()) expect(used.size).toBe(1)
      expect(new Set([...tokens.values()].flatMap((used) => [...used])).size).toBe(50)
      expect(server.count('initialize')).toBe(50)
      expect(server.count('tools/list')).toBe(50) // each has requested it once
      const stored = sessionInfoFactory.scopes.map((one) => one?.principal)
      expect(stored).toHaveLength(50)
      expect(new Set(stored)).toEqual(new Set(principals))
      stopClock() // a loaded machine may need longer for 50 DELETEs than dispose() waits
    }
    // No session is terminated with the token of another principal.
    for (const used of tokensBySession(server).values()) expect(used.size).toBe(1)
    expect(server.count('DELETE')).toBe(50)
    expect(server.sessions).toEqual([])
  })

  test('stay apart when all sessions are lost', async () => {
    await using server = await startLegacyServer()
    await using client = clientOf(server, { maxRetries: 5 })
    const observed: unknown[] = []
    client.on('sessionReplaced', (_payload, of) => observed.push(of?.principal))
    for (const seed of [1, 2, 3]) {
      const random = seededRandom(seed)
      const use = async (): Promise<void> => {
        await jitter(random)
        await client.callTool('echo', { text: 'x' })
        await jitter(random)
        await client.callTool('echo', { text: 'y' })
      }
      const forget = async (): Promise<void> => {
        await jitter(random)
        server.forgetSessions()
      }
      await Promise.all([
        forget(),
        ...principals.map((principal) => current.run(principal, () => use())),
      ])
    }
    for (const used of tokensBySession(server).values()) expect(used.size).toBe(1)
    expect(new Set(observed).size).toBeGreaterThan(1)
    expect(principals).toEqual(expect.arrayContaining([...new Set(observed)]))
  })
})

describe('two principals on one client', () => {
  test.each([2, 3, 4])(
    'send each request of a session with the token of its owner, whichever call causes it (seed %i)',
    async (seed) => {
      const random = seededRandom(seed)
      await using server = await startLegacyServer()
      await using proxy = await startRecordingProxy(server.url)
      const client = new McpClient(
        { url: proxy.url, headers },
        { scope, idleScopes: { max: 1 }, reconnect: { firstMs: 1 } },
      )
      const names = ['ada', 'bob']
      for (let round = 0; round < 25; round++) {
        const aborts = new AbortController()
        const call = async (text: string): Promise<void> => {
          await jitter(random)
          await client.callTool('echo', { text }, { signal: aborts.signal })
          await client.listTools({ forceRefresh: true })
        }
        const calls = Promise.allSettled(names.map((name) => current.run(name, call, name)))
        // One principal, or none, causes what happens to the sessions of both.
        const cause = [...names, undefined][Math.floor(random() * 3)]
        const disturbances: readonly (() => unknown)[] = [
          () => server.forgetSessions(),
          () => aborts.abort(),
          () => client.dispose(),
          () => server.restart(),
          () => server.dropListenStreams(),
        ]
        const disturbance = async (): Promise<void> => {
          await jitter(random, 12)
          await disturbances[Math.floor(random() * disturbances.length)]?.()
        }
        await (cause === undefined ? disturbance() : current.run(cause, disturbance))
        await calls
      }
      await current.run('ada', () => client.dispose())
      const users = new Map<string, Set<string | undefined>>()
      for (const { sessionId, assignedSessionId, principal } of proxy.exchanges) {
        const id = sessionId ?? assignedSessionId
        if (id !== undefined) users.set(id, (users.get(id) ?? new Set()).add(principal))
      }
      expect(users.size).toBeGreaterThan(10)
      expect(proxy.count({ httpMethod: 'DELETE' })).toBeGreaterThan(5)
      for (const used of users.values()) expect([['ada'], ['bob']]).toContainEqual([...used])
    },
  )
})

describe('a client with a scope function', () => {
  test('calls the function at every call, and rejects with its error', async () => {
    await using server = await startLegacyServer()
    await using client = new McpClient(
      { url: server.url },
      {
        scope: () => {
          throw new Error('Who are you?')
        },
      },
    )
    expect(await rejectionOf(client.callTool('echo', { text: 'x' }))).toMatchObject({
      message: 'Who are you?',
    })
    expect(client.isClientInitialized).toBe(false)
    expect(server.received).toEqual([])
  })

  test('reports to each scope only its own session', async () => {
    await using server = await startLegacyServer()
    await using client = clientOf(server)
    await current.run('anna', () => client.ping())
    expect(current.run('anna', () => client.isClientInitialized)).toBe(true)
    expect(current.run('bert', () => client.isClientInitialized)).toBe(false)
    expect(await current.run('bert', () => client.getSessionId())).toBeUndefined()
    expect(await current.run('anna', () => client.getSessionId())).toBe(server.sessions[0])
  })

  test('keeps no more idle sessions than the limit, and terminates the oldest with its own token', async () => {
    await using server = await startLegacyServer()
    await using client = clientOf(server, { idleScopes: { max: 2 } })
    const call = (principal: string): Promise<unknown> =>
      current.run(principal, () => client.callTool('echo', { text: 'x' }))
    await call('anna')
    await call('bert')
    await call('anna')
    await call('carl') // exceeds the limit: bert is the least recently used
    const { headers: sent } = await server.waitFor(is.delete)
    expect(sent['authorization']).toBe('Bearer bert')
    await call('bert')
    expect(server.count('initialize')).toBe(4)
  })

  test('keeps all sessions in use, regardless of the limit', async () => {
    await using server = await startLegacyServer()
    await using client = clientOf(server, { idleScopes: { max: 0 } })
    const calls = ['anna', 'bert'].map((principal) =>
      current.run(principal, () => client.callTool('slow')),
    )
    while (server.held < 2) await setImmediate()
    expect(server.sessions).toHaveLength(2)
    server.release('done')
    expect((await Promise.all(calls)).map((result) => textOf(result))).toEqual(['done', 'done'])
    await client.dispose()
    expect(server.sessions).toEqual([])
  })

  test('disposes of one scope only, if asked', async () => {
    await using server = await startLegacyServer()
    await using client = clientOf(server)
    await current.run('anna', () => client.ping())
    await current.run('bert', () => client.ping())
    await client.dispose({ scope: { principal: 'anna' } })
    expect(server.sessions).toEqual([await current.run('bert', () => client.getSessionId())])
    await client.dispose({ terminate: false })
    expect(server.sessions).toHaveLength(1)
  })
})

function disposable<T extends { destroy(): Promise<void> }>(
  value: T,
): AsyncDisposable & { readonly value: T } {
  return { value, [Symbol.asyncDispose]: () => value.destroy() }
}

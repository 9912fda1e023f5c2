import { AsyncLocalStorage } from 'node:async_hooks'
import { getEventListeners } from 'node:events'
import {
  seededRandom,
  startLegacyServer,
  startModernServer,
  startRecordingProxy,
} from '@x/mcp-testing'
import { describe, expect, test } from 'vitest'
import { McpClient, McpClientError } from '../src/index.ts'
import { jitter } from './jitter.ts'
import { is, startSetting, textOf } from './setting.ts'

const seeds = Array.from({ length: 100 }, (_, n) => n + 1)

/** Counts outcomes, because a race that always ends in the same way proves nothing. */
class Tally {
  readonly #counts = new Map<unknown, number>()

  add(what: unknown): void {
    this.#counts.set(what, (this.#counts.get(what) ?? 0) + 1)
  }

  /** Outcomes that occurred. */
  get kinds(): unknown[] {
    return [...this.#counts.keys()]
  }
}

const eras = {
  'with sessions': { start: startLegacyServer, opening: 'initialize' },
  'without sessions': { start: startModernServer, opening: 'server/discover' },
} as const

test('leaves no listener on a signal that a hundred calls used', async () => {
  await using setting = await startSetting()
  const { client, server } = setting
  const { signal } = new AbortController()
  const call = (): Promise<unknown> => client.callTool('echo', { text: 'x' }, { signal })
  await Promise.all(Array.from({ length: 50 }, call))
  server.forgetSessions()
  for (let n = 0; n < 50; n++) await call()
  await client.listTools({ signal })
  await client.callTool('no_such_tool', {}, { signal }).catch(() => {})
  expect(getEventListeners(signal, 'abort')).toEqual([])
})

describe('callers who share a request, with headers of a function', () => {
  const user = new AsyncLocalStorage<string>()
  const shared = {
    initialize: (client: McpClient) => client.ping(),
    'tools/list': (client: McpClient) => client.listTools(),
  } as const
  const methods = Object.keys(shared) as (keyof typeof shared)[]
  const rejected = (code: string) => ({ status: 'rejected', reason: { code } })
  const fulfilled = { status: 'fulfilled' }

  /** Sends a request for each of the users at the same time. Those whose name starts with "no-" have no headers. */
  async function send(method: keyof typeof shared, users: readonly string[]) {
    await using server = await startLegacyServer()
    await using proxy = await startRecordingProxy(server.url)
    proxy.inject({ match: is.method(method), times: 2, action: { status: 401 } })
    const headers = () => {
      const name = user.getStore() ?? ''
      if (name.startsWith('no-')) throw new Error('Not signed in')
      return { 'x-user': name }
    }
    await using client = new McpClient({ url: proxy.url, headers }, { era: 'legacy' })
    if (method !== 'initialize') await client.ping()
    const calls = users.map((name) => user.run(name, () => shared[method](client)))
    const settled = await Promise.allSettled(calls)
    return { settled, requests: proxy.count({ rpcMethod: method }) }
  }

  test.each(methods)('send their own after those of others were refused: %s', async (method) => {
    const { settled, requests } = await send(method, ['ada', 'bob', 'cy'])
    const refused = rejected('UNAUTHORIZED')
    expect(settled).toMatchObject([refused, refused, fulfilled])
    expect(requests).toBe(3)
  })

  test.each(methods)('send no more if theirs are the same: %s', async (method) => {
    const { settled, requests } = await send(method, ['ada', 'ada', 'ada', 'bob', 'bob'])
    expect(settled).toMatchObject(Array.from({ length: 5 }, () => rejected('UNAUTHORIZED')))
    expect(requests).toBe(2)
  })

  test.each(methods)('send their own if another has none: %s', async (method) => {
    const { settled, requests } = await send(method, [
      'no-ada',
      'no-bob',
      'cy',
      'no-di',
      'ed',
      'flo',
    ])
    const [none, refused] = [rejected('CONFIG'), rejected('UNAUTHORIZED')]
    expect(settled).toMatchObject([none, none, refused, none, refused, fulfilled])
    expect(requests).toBe(3)
  })
})

test('a call opens no session after that of another was refused, and the client was closed', async () => {
  await using server = await startLegacyServer()
  await using proxy = await startRecordingProxy(server.url)
  let requests = 0
  const headers = (): Record<string, string> => ({ 'x-user': String(++requests) })
  for (let steps = 0; steps < 40; steps++) {
    const mark = proxy.mark()
    proxy.inject({ match: is.initialize, times: 1, action: { status: 401 } })
    await using client = new McpClient({ url: proxy.url, headers }, { era: 'legacy' })
    let closed: Promise<void> | undefined
    client.on('state', async ({ from }) => {
      if (from !== 'handshaking') return
      for (let step = 0; step < steps; step++) await Promise.resolve()
      closed = client.dispose()
    })
    const calls = await Promise.allSettled([client.ping(), client.ping()])
    await closed
    expect(calls.map(({ status }) => status)).toEqual(['rejected', 'rejected'])
    expect(mark.count({ rpcMethod: 'initialize' })).toBe(1)
  }
  expect(server.sessions).toEqual([])
})

describe('races, a hundred times each', () => {
  test.each(Object.entries(eras))(
    'first calls, %s: share one initialization whenever they arrive',
    async (_era, { start, opening }) => {
      await using server = await start()
      const moments = new Tally()
      for (const seed of seeds) {
        const random = seededRandom(seed)
        await using client = new McpClient({ url: server.url })
        const before = server.count(opening)
        const caller = async (n: number): Promise<void> => {
          await jitter(random, 16)
          moments.add(client.status().state)
          expect(textOf(await client.callTool('echo', { text: `${n}` }))).toBe(`${n}`)
        }
        await Promise.all(Array.from({ length: 6 }, (_, n) => caller(n)))
        expect(server.count(opening) - before).toBe(1)
      }
      expect(moments.kinds).toEqual(expect.arrayContaining(['created', 'handshaking', 'active']))
      expect(server.executions('echo')).toBe(6 * seeds.length)
    },
  )

  test('ignores refusals that arrive after the session was replaced', async () => {
    await using server = await startLegacyServer()
    await using proxy = await startRecordingProxy(server.url)
    let random = seededRandom(0)
    // Each call reaches the server some turns later, some of them in a session that is lost by then.
    proxy.inject({
      match: is.method('tools/call'),
      action: async () => {
        await jitter(random, 30)
        return 'forward'
      },
    })
    const refusals = new Tally()
    for (const seed of seeds) {
      random = seededRandom(seed)
      await using client = new McpClient({ url: proxy.url }, { maxRetries: 5, era: 'legacy' })
      client.on('exchange', ({ status, sessionId }) => {
        const current = client.status().sessionId
        if (status === 404) refusals.add(current === undefined || current === sessionId)
      })
      await client.ping()
      const [ran, opened] = [server.executions('echo'), server.count('initialize')]
      const calls = Array.from({ length: 8 }, async (_, n) => {
        await jitter(random, 10)
        expect(textOf(await client.callTool('echo', { text: `${n}` }))).toBe(`${n}`)
      })
      await jitter(random, 20)
      server.forgetSessions()
      await Promise.all(calls)
      await client.ping()
      expect(server.executions('echo') - ran).toBe(8)
      expect(server.count('initialize') - opened).toBe(1)
    }
    expect(refusals.kinds).toContain(false) // some refusals came late
  })

  test('runs no call twice and loses none without an error while sessions are lost under ten callers', async () => {
    await using server = await startLegacyServer()
    const handshakes = new Tally()
    for (const seed of seeds) {
      const random = seededRandom(seed)
      await using client = new McpClient({ url: server.url }, { maxRetries: 5 })
      const [before, opened] = [server.executions('echo'), server.count('initialize')]
      const answers: string[] = []
      const failures: unknown[] = []
      const caller = async (n: number): Promise<void> => {
        await jitter(random, 24)
        const text = `${seed}.${n}`
        const [call] = await Promise.allSettled([client.callTool('echo', { text })])
        if (call.status === 'rejected') failures.push(call.reason)
        else answers.push(textOf(call.value) === text ? text : 'the answer to another call')
      }
      const forgetful = async (): Promise<void> => {
        for (let n = 0; n < 2; n++) {
          await jitter(random, 16)
          server.forgetSessions()
        }
      }
      await Promise.all([...Array.from({ length: 10 }, (_, n) => caller(n)), forgetful()])
      expect(server.executions('echo') - before).toBe(answers.length)
      expect(answers).not.toContain('the answer to another call')
      // The session was lost again before it had answered anything.
      const unknown = { code: 'OUTCOME_UNKNOWN', outcome: 'unknown' }
      expect(failures).toMatchObject(failures.map(() => unknown))
      handshakes.add(server.count('initialize') - opened)
    }
    expect(handshakes.kinds.length).toBeGreaterThan(1)
    expect(handshakes.kinds.every((count) => Number(count) <= 3)).toBe(true)
  })

  test('settles every call and leaves no session, whenever dispose() is called', async () => {
    await using server = await startLegacyServer()
    const moments = new Tally()
    let answered = 0
    let doubtful = 0
    for (const seed of seeds) {
      const random = seededRandom(seed)
      await using client = new McpClient({ url: server.url })
      const failures: unknown[] = []
      const caller = async (): Promise<void> => {
        await jitter(random)
        const [call] = await Promise.allSettled([client.callTool('counter_add')])
        if (call.status === 'fulfilled') answered++
        else failures.push(call.reason)
      }
      const disposer = async (): Promise<void> => {
        await jitter(random, 16)
        moments.add(client.status().state)
        await client.dispose()
      }
      await Promise.all([...Array.from({ length: 5 }, caller), disposer(), disposer()])
      await client.dispose()
      const known = failures.filter((error) => McpClientError.is(error) && error.code === 'CLOSED')
      expect(known).toEqual(failures)
      doubtful += known.filter((error) => isDoubtful(error)).length
      // Of all seeds, because the server may execute a doubtful call after the client has left.
      const executions = server.executions('counter_add')
      expect(executions).toBeGreaterThanOrEqual(answered)
      expect(executions).toBeLessThanOrEqual(answered + doubtful)
      expect(client.isClientInitialized).toBe(false)
    }
    const states = ['created', 'handshaking', 'active', 'disposing']
    expect(moments.kinds).toEqual(expect.arrayContaining(states))
  })

  test('does not affect other callers when a caller aborts, at any moment', async () => {
    await using server = await startLegacyServer()
    const moments = new Tally()
    for (const seed of seeds) {
      const random = seededRandom(seed)
      await using client = new McpClient({ url: server.url })
      const caller = async (n: number): Promise<void> => {
        await jitter(random)
        const isImpatient = n % 2 === 0
        const controller = new AbortController()
        const call = client.callTool('echo', { text: String(n) }, { signal: controller.signal })
        const leave = async (): Promise<void> => {
          await jitter(random, 12)
          if (!isImpatient) return
          moments.add(client.status().state)
          controller.abort(new Error('enough'))
        }
        const [outcome] = await Promise.allSettled([call, leave()])
        const text = outcome.status === 'fulfilled' ? textOf(outcome.value) : String(outcome.reason)
        expect(isImpatient ? [String(n), 'Error: enough'] : [String(n)]).toContain(text)
      }
      await Promise.all(Array.from({ length: 8 }, (_, n) => caller(n)))
      await client.ping()
    }
    expect(moments.kinds).toEqual(expect.arrayContaining(['handshaking', 'active']))
  })

  test('returns one correct list while lists, refreshes and losses happen at once', async () => {
    await using server = await startLegacyServer({ pageSize: 3 })
    const pages = new Tally()
    for (const seed of seeds) {
      const random = seededRandom(seed)
      await using client = new McpClient({ url: server.url }, { maxRetries: 5 })
      const before = server.count('tools/list')
      const lister = async (n: number): Promise<number> => {
        await jitter(random, 16)
        return (await client.listTools({ forceRefresh: n % 3 === 0 })).length
      }
      const disturber = async (): Promise<void> => {
        await jitter(random, 12)
        server.notify('notifications/tools/list_changed')
        await jitter(random, 8)
        server.forgetSessions()
      }
      const [, ...lists] = await Promise.all([
        disturber(),
        ...Array.from({ length: 9 }, (_, n) => lister(n)),
      ])
      expect(lists).toEqual(Array(9).fill(6))
      pages.add(server.count('tools/list') - before)
    }
    expect(pages.kinds.length).toBeGreaterThan(2)
  })
})

function isDoubtful(error: unknown): boolean {
  return McpClientError.is(error) && error.outcome === 'unknown'
}

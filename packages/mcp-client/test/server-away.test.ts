// A server that is away for longer than a restart takes, while a call with an idempotency key is made.
import { deferred, startRecordingProxy, startTaskServer } from '@x/mcp-testing'
import type { Exchange, InjectedAction } from '@x/mcp-testing'
import { afterEach, describe, expect, test, vi } from 'vitest'
import { McpClient, McpClientError } from '../src/index.ts'
import type { McpClientOptions, RetryTiming } from '../src/index.ts'
import { startGate } from './gate.ts'
import { startSessionServer } from './session-server.ts'
import { is, rejectionOf, stopClock, textOf } from './setting.ts'

afterEach(() => vi.useRealTimers())

const call = { idempotencyKey: 'thread-1:call-7' }
/** More attempts than fit into 11 s. */
const LONG = 30

/** Ends at once the waits of a client, and calls `onBack` after so many of them. */
function instantWaits(count: number, onBack: () => unknown) {
  const waits: number[] = []
  const retryTiming: RetryTiming = {
    random: () => 1,
    wait: async (ms) => {
      if (waits.push(ms) === count) await onBack()
    },
  }
  return { retryTiming, waits }
}

/** Makes a server at a proxy fail until the client has waited so often. */
async function startOutage(options: McpClientOptions = {}, count = LONG) {
  const server = await startTaskServer({ honoursKeys: true })
  const proxy = await startRecordingProxy(server.url)
  let isAway = false
  const { retryTiming, waits } = instantWaits(count, () => {
    isAway = false
  })
  const client = new McpClient({ url: proxy.url }, { retryTiming, ...options })
  await client.ping()
  return {
    server,
    client,
    waits,
    proxy,
    begin(action: InjectedAction, match: Match) {
      isAway = true
      proxy.inject({ match: (one) => isAway && match(one), action })
    },
    async [Symbol.asyncDispose]() {
      await client.dispose()
      await proxy.close()
      await server[Symbol.asyncDispose]()
    },
  }
}

type Match = (exchange: Exchange) => boolean

const all: Match = () => true
const isCall = is.method('tools/call')
const notNow = { jsonrpc: '2.0', id: null, error: { code: -32000, message: 'Not now' } }

describe('a call with a key is repeated until a server is back that', () => {
  test.each<[string, InjectedAction, Match]>([
    ['resets connections', 'reset-before', all],
    ['closes connections', { type: 'break-request', how: 'close', after: 'half' }, all],
    ['loses the answers of calls', 'reset-after', isCall],
    ['cuts the answers of calls', { type: 'break-answer', how: 'close', after: 20 }, isCall],
    ['answers with status 502', { status: 502, body: 'Bad Gateway' }, isCall],
    ['answers with status 503', { status: 503, body: '<html>' }, isCall],
    ['answers with status 504', { status: 504 }, isCall],
    ['answers with status 521 of a proxy', { status: 521, body: '<html>' }, isCall],
    ['says why with status 503', { status: 503, body: JSON.stringify(notNow) }, isCall],
    ['asks for no delay', { status: 503, headers: { 'retry-after': '0' } }, isCall],
  ])('%s', async (_what, action, match) => {
    await using outage = await startOutage()
    outage.begin(action, match)
    const result = await outage.client.callTool('greet', { name: 'Ada' }, call)
    expect(textOf(result)).toBe('Hello, Ada!')
    expect(outage.server.runs).toEqual(['greet'])
    // The delays grow, and not beyond a few seconds.
    expect(outage.waits.slice(0, 3)).toEqual([100, 200, 400])
    expect(new Set(outage.waits.slice(8))).toEqual(new Set([5000]))
  })

  test('refuses connections', async () => {
    await using server = await startTaskServer({ honoursKeys: true })
    await using gate = await startGate(server.url)
    const { retryTiming, waits } = instantWaits(LONG, () => gate.open())
    await using client = new McpClient({ url: gate.url }, { retryTiming })
    await client.ping()
    await gate.close()
    const { task } = await client.startTool('slow_compute', {}, call)
    expect(task?.reference).toMatchObject({ taskId: server.lastTask.taskId })
    expect(server.runs).toEqual(['slow_compute'])
    expect(Math.max(...waits)).toBe(5000)
  })

  test('has lost the session, and lets nobody open another one', async () => {
    await using server = await startSessionServer(true)
    await using proxy = await startRecordingProxy(server.url)
    const { retryTiming } = instantWaits(LONG, () => end())
    await using client = new McpClient({ url: proxy.url }, { retryTiming })
    await client.ping()
    proxy.inject({ match: isCall, times: 1, action: { status: 404, body: 'Session not found' } })
    const end = proxy.inject({ match: is.initialize, action: { status: 503, body: 'starting' } })
    expect(textOf(await client.callTool('pay', {}, call))).toBe('paid')
    expect(server.calls()).toBe(1)
  })

  test('has lost only the session: at once', async () => {
    await using server = await startSessionServer(true)
    await using proxy = await startRecordingProxy(server.url)
    const { retryTiming, waits } = instantWaits(LONG, () => {})
    await using client = new McpClient({ url: proxy.url }, { retryTiming })
    await client.ping()
    proxy.inject({ match: isCall, times: 1, action: { status: 404, body: 'Session not found' } })
    expect(textOf(await client.callTool('pay', {}, call))).toBe('paid')
    expect([server.calls(), waits]).toEqual([1, []])
  })

  test('answers the question about keys with status 500 before it is back', async () => {
    await using outage = await startOutage({}, 4)
    outage.begin('reset-after', (one) => isCall(one) && outage.waits.length === 0)
    outage.begin({ status: 500, body: 'starting' }, (one) => !isCall(one))
    expect(textOf(await outage.client.callTool('greet', { name: 'Ada' }, call))).toBe('Hello, Ada!')
    expect(outage.waits).toHaveLength(4)
  })

  test('was away before the call, and keeps no session', async () => {
    await using outage = await startOutage()
    outage.begin('reset-before', all)
    // After some failures, the client opens a new session for the next request.
    for (let failed = 0; failed < 3; failed++) await rejectionOf(outage.client.ping())
    const result = await outage.client.callTool('greet', { name: 'Ada' }, call)
    expect(textOf(result)).toBe('Hello, Ada!')
  })

  test('another scope of the client knows', async () => {
    let thread = 'one'
    await using outage = await startOutage({ scope: () => ({ thread }) })
    outage.begin('reset-before', all)
    thread = 'two'
    const result = await outage.client.callTool('greet', { name: 'Ada' }, call)
    expect(textOf(result)).toBe('Hello, Ada!')
  })
})

describe('a call is not repeated for long', () => {
  test.each<[string, number, McpClientOptions, typeof call | object, InjectedAction]>([
    ['without a key', 1, {}, {}, 'reset-after'],
    ['without a key, if it may run twice', 2, {}, { idempotent: true }, 'reset-after'],
    ['with maxRetries', 4, { maxRetries: 3 }, call, 'reset-after'],
    ['if the server answers with status 500', 8, {}, call, { status: 500, body: 'on fire' }],
    ['if the server answers with a page', 8, {}, call, { status: 200, body: '<html>' }],
    ['if the server refuses the credentials', 1, {}, call, { status: 401 }],
  ])('%s', async (...row) => {
    const [, sent, options, how, action] = row
    await using outage = await startOutage(options, Infinity)
    outage.begin(action, isCall)
    const error = await rejectionOf(outage.client.callTool('greet', {}, how))
    expect(error).toMatchObject({ name: 'McpClientError' })
    expect(outage.proxy.count({ rpcMethod: 'tools/call' })).toBe(sent)
    // Only a call with a key leaves the server time.
    expect(outage.waits).toHaveLength(how === call ? sent - 1 : 0)
  })

  test('if a server that is back refuses the credentials before the call', async () => {
    await using outage = await startOutage({}, 5)
    outage.begin('reset-after', isCall)
    outage.proxy.inject({
      match: (one) => !isCall(one) && outage.waits.length === 5,
      action: { status: 401 },
    })
    const error = await rejectionOf(outage.client.callTool('greet', {}, call))
    expect(error).toMatchObject({ code: 'UNAUTHORIZED', outcome: 'unknown' })
    expect(outage.waits).toHaveLength(5)
  })

  test('if the client has never reached the server: it may not honour keys', async () => {
    const { retryTiming, waits } = instantWaits(Infinity, () => {})
    await using client = new McpClient({ url: 'http://127.0.0.1:1/mcp' }, { retryTiming })
    const error = await rejectionOf(client.callTool('greet', {}, call))
    expect(error).toMatchObject({ code: 'UNREACHABLE', outcome: 'not-executed' })
    expect(waits).toEqual([])
  })
})

describe('while a call with a key waits for its server', () => {
  /** A call that waits until its signal aborts. */
  async function startWaiting(options: { readonly signal?: AbortSignal } = {}) {
    const waiting = deferred()
    const retryTiming: RetryTiming = {
      random: () => 1,
      wait: (_ms, signal) => {
        waiting.resolve()
        return new Promise((_resolve, reject) => {
          signal.addEventListener('abort', () => reject(new Error('The wait was aborted')))
        })
      },
    }
    const outage = await startOutage({ retryTiming })
    outage.begin('reset-after', isCall)
    const error = rejectionOf(outage.client.callTool('greet', {}, { ...call, ...options }))
    await waiting.promise
    return { outage, error }
  }

  test('an abort ends it at once', async () => {
    const caller = new AbortController()
    const { outage, error } = await startWaiting({ signal: caller.signal })
    await using _ = outage
    const reason = new Error('enough')
    caller.abort(reason)
    expect(await error).toBe(reason)
    expect(outage.server.count('tools/call')).toBe(1)
  })

  test('a limit of the caller ends it at once, and the error has the outcome', async () => {
    const caller = new AbortController()
    const { outage, error } = await startWaiting({ signal: caller.signal })
    await using _ = outage
    const about = { server: 'shop', outcome: 'unknown' } as const
    caller.abort(new McpClientError('TIMEOUT', 'No answer within 5 s', about))
    expect(await error).toMatchObject({ code: 'TIMEOUT', outcome: 'unknown', tool: 'greet' })
    expect(String(await error)).toMatch(/No answer within 5 s, in 1 attempt with .* The last one: /)
  })

  test('dispose() ends it at once', async () => {
    const { outage, error } = await startWaiting()
    await using _ = outage
    await outage.client.dispose()
    expect(await error).toMatchObject({ code: 'CLOSED', outcome: 'unknown', tool: 'greet' })
    expect(outage.server.count('tools/call')).toBe(1)
  })

  test.each<[string, string, InjectedAction, Match]>([
    ['it may have run', 'unknown', 'reset-after', isCall],
    ['nothing was sent', 'not-executed', 'reset-before', all],
  ])('its time limit ends it, and the error says that %s', async (...row) => {
    const [, outcome, action, match] = row
    stopClock('performance')
    const retryTiming: RetryTiming = {
      random: () => 1,
      wait: async (ms, signal) => {
        vi.advanceTimersByTime(ms)
        signal.throwIfAborted()
      },
    }
    await using outage = await startOutage({ retryTiming, timeoutMs: 60_000 })
    outage.begin(action, match)
    if (outcome === 'not-executed') await rejectionOf(outage.client.ping())
    const error = await rejectionOf(outage.client.callTool('greet', { name: 'Ada' }, call))
    expect(error).toMatchObject({
      code: 'TIMEOUT',
      outcome,
      cause: { code: expect.stringMatching(/UNREACHABLE|OUTCOME_UNKNOWN/) },
    })
    expect(String(error)).toMatch(
      /No answer within 60000 ms, in \d\d attempts with .* The last one: /,
    )
    expect(outage.server.runs).toHaveLength(outcome === 'unknown' ? 1 : 0)
  })
})

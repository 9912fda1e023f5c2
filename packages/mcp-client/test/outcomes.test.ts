// The outcome of calls that were sent more than once, or refused.
import { McpError } from '@modelcontextprotocol/sdk/types.js'
import { deferred, freePort, lossForms, startLegacyServer } from '@x/mcp-testing'
import type { CannedAnswer, Exchange, InjectedAction } from '@x/mcp-testing'
import { createDispatcher } from '@x/mcp-transport'
import type { CreateDispatcherOptions, Dispatcher } from '@x/mcp-transport'
import { bearer } from '@x/mcp-transport/auth'
import { afterEach, describe, expect, test, vi } from 'vitest'
import { McpClient, McpClientError } from '../src/index.ts'
import { is, misled, rejectionOf, startSetting, stopClock } from './setting.ts'

afterEach(() => vi.useRealTimers())

const overloaded: CannedAnswer = { status: 503, headers: { 'retry-after': '1' } }
const idempotent = { idempotent: true }
const isCall = is.method('tools/call')
const afterExecution = (answer: CannedAnswer): InjectedAction => ({
  type: 'answer',
  answer,
  when: 'after-execution',
})

describe('a call with several attempts', () => {
  test('is unknown if it ran, was answered with 503, and did not reach the server at the second attempt', async () => {
    let onWait = (): Promise<void> => Promise.resolve()
    const retryTiming = { wait: () => onWait(), random: () => 0 }
    const wrongPort = await freePort()
    let isGone = false
    await using dispatcher = misled(() => (isGone ? `http://127.0.0.1:${wrongPort}` : undefined))
    await using setting = await startSetting({
      client: { retryTiming, dispatcher: dispatcher.value },
    })
    const { client, server, proxy } = setting
    onWait = async () => {
      isGone = true
    }
    await client.ping()
    proxy.inject({ match: isCall, action: afterExecution(overloaded) })
    const error = await rejectionOf(client.callTool('counter_add', {}, idempotent))
    expect(error).toMatchObject({ code: 'UNREACHABLE', outcome: 'unknown' })
    expect(String(error)).toContain('an earlier part of the call may have been executed')
    expect(server.executions('counter_add')).toBe(1)
  })

  test('is unknown if no session could be opened for the second attempt', async () => {
    await using setting = await startSetting({ client: { maxRetries: 2 } })
    const { client, server, proxy } = setting
    await client.ping()
    proxy.inject({ match: isCall, action: afterExecution(lossForms['200-32001']) })
    proxy.inject({ match: is.initialize, action: { status: 500, body: 'on fire' } })
    const error = await rejectionOf(client.callTool('counter_add', {}, idempotent))
    const cause = { name: 'McpClientError', outcome: 'not-executed' }
    expect(error).toMatchObject({ code: 'REJECTED', outcome: 'unknown', cause })
    expect(server.executions('counter_add')).toBe(1)
  })

  test('is unknown if the new session is refused as well', async () => {
    await using setting = await startSetting()
    const { client, server, proxy } = setting
    await client.ping()
    proxy.inject({ match: isCall, action: afterExecution(lossForms['404-empty']) })
    const error = await rejectionOf(client.callTool('counter_add'))
    expect(error).toMatchObject({ code: 'OUTCOME_UNKNOWN', outcome: 'unknown' })
    expect(server.count('tools/call')).toBe(2)
  })

  test('never reports one of five concurrent calls as not executed', async () => {
    await using setting = await startSetting()
    const { client, server, proxy } = setting
    await client.ping()
    proxy.inject({ match: isCall, action: afterExecution(lossForms['404-empty']) })
    const calls = Array.from({ length: 5 }, () => rejectionOf(client.callTool('counter_add')))
    for (const error of await Promise.all(calls)) {
      expect(error).toMatchObject({ code: 'OUTCOME_UNKNOWN', outcome: 'unknown' })
    }
    expect(server.count('tools/call')).toBe(10)
  })

  test('is not executed if the server refused it unread each time', async () => {
    await using setting = await startSetting({
      client: { retryTiming: { wait: async () => {}, random: () => 0 } },
    })
    const { client, server, proxy } = setting
    await client.ping()
    const action = { status: 429, headers: { 'retry-after': '1' } }
    proxy.inject({ match: is.method('tools/call'), action })
    const error = await rejectionOf(client.callTool('counter_add'))
    expect(error).toMatchObject({ code: 'REJECTED', outcome: 'not-executed', retryAfterMs: 1000 })
    expect(proxy.count({ rpcMethod: 'tools/call' })).toBe(2)
    expect(server.executions('counter_add')).toBe(0)
  })

  test('is not sent again after 429 in an error with the id of the request', async () => {
    await using setting = await startSetting()
    const { client, server, proxy } = setting
    await client.ping()
    const error = { code: -32000, message: 'Rate limit of the bank, after the transfer' }
    const body = (id: unknown): string => JSON.stringify({ jsonrpc: '2.0', id, error })
    proxy.inject({ match: isCall, action: afterExecution({ ...overloaded, status: 429, body }) })
    const thrown = await rejectionOf(client.callTool('counter_add'))
    expect(thrown).toBeInstanceOf(McpError)
    expect(thrown).toHaveProperty('data.outcome', 'unknown')
    expect(server.executions('counter_add')).toBe(1)
  })
})

test('fails no call when the ping after a connection problem meets another dead connection', async () => {
  await using setting = await startSetting()
  const { client, server, proxy } = setting
  await client.ping()
  const cut = (rpcMethod: string) => {
    proxy.inject({ match: (one) => one.rpcMethod === rpcMethod, times: 1, action: 'reset-before' })
  }
  cut('tools/call')
  cut('ping')
  expect(await rejectionOf(client.callTool('counter_add'))).toHaveProperty('outcome', 'unknown')
  const calls = Array.from({ length: 10 }, () => client.callTool('counter_add'))
  await Promise.all(calls)
  expect(server.executions('counter_add')).toBe(10)
  expect(proxy.count({ rpcMethod: 'ping' })).toBe(3)
})

test('pings before the first call after a connection problem, however long ago that was', async () => {
  vi.useFakeTimers({ toFake: ['performance'] })
  await using setting = await startSetting()
  const { client, server, proxy } = setting
  await client.ping()
  const match = ({ httpMethod }: Exchange): boolean => httpMethod === 'POST'
  const endOutage = proxy.inject({ match, action: { status: 502 } })
  const outcomes: unknown[] = []
  for (let call = 0; call < 3; call++) {
    outcomes.push(await rejectionOf(client.callTool('counter_add')))
    vi.advanceTimersByTime(60_000)
  }
  expect(outcomes).toMatchObject([
    { outcome: 'unknown' },
    { outcome: 'not-executed' },
    { outcome: 'not-executed' },
  ])
  endOutage()
  const mark = proxy.mark()
  for (let call = 0; call < 3; call++) await client.callTool('counter_add')
  expect(mark.count({ rpcMethod: 'ping' })).toBe(1)
  expect(server.executions('counter_add')).toBe(3)
})

const faults: readonly (readonly [name: string, outcome: string, action: InjectedAction])[] = [
  ['no connection that lasts', 'unknown', 'reset-before'],
  ['a connection that breaks', 'unknown', 'reset-after'],
  ['an answer that breaks off', 'unknown', 'cut-stream'],
  ['an answer that is empty', 'unknown', { status: 202 }],
  ['an answer that is not MCP', 'unknown', { status: 200, body: '<html>' }],
  ['a redirect', 'unknown', { status: 303, headers: { location: '/elsewhere' } }],
  ['401', 'not-executed', { status: 401 }],
  ['403', 'not-executed', { status: 403, body: 'no' }],
  ['405', 'not-executed', { status: 405 }],
  ['409', 'unknown', { status: 409, body: 'Conflict' }],
  ['415', 'not-executed', { status: 415 }],
  ['418', 'unknown', { status: 418 }],
  ['422', 'unknown', { status: 422, body: 'order 17 is half paid' }],
  ['429', 'not-executed', { status: 429 }],
  ['500', 'unknown', { status: 500, body: 'on fire' }],
  ['503', 'unknown', overloaded],
]

describe('every error of a call has an outcome', () => {
  test.each(faults)('%s: %s', async (_name, outcome, action) => {
    await using setting = await startSetting({ client: { replay: 'never' } })
    const { client, proxy } = setting
    await client.ping()
    proxy.inject({ match: is.method('tools/call'), action })
    const error = await rejectionOf(client.callTool('counter_add'))
    expect(McpClientError.is(error)).toBe(true)
    expect(error).toMatchObject({ outcome })
  })
})

/** Reports the start of a request when the response starts. */
function reportingLate(handler: Dispatcher.DispatchHandler): Dispatcher.DispatchHandler {
  return {
    onRequestStart() {},
    onResponseStart(...args) {
      handler.onRequestStart?.(args[0], {})
      handler.onResponseStart?.(...args)
    },
    onResponseData: (...args) => handler.onResponseData?.(...args),
    onResponseEnd: (...args) => handler.onResponseEnd?.(...args),
    onResponseError: (...args) => handler.onResponseError?.(...args),
  }
}

function pool(options?: CreateDispatcherOptions): AsyncDisposable & { readonly value: Dispatcher } {
  const value = createDispatcher(options)
  return { value, [Symbol.asyncDispose]: () => value.destroy() }
}

describe('a call whose time is over', () => {
  const late = { code: 'TIMEOUT', outcome: 'unknown' }
  const unsent = { code: 'TIMEOUT', outcome: 'not-executed' }

  test('is not executed if it waits for its headers', async () => {
    const gate = deferred()
    const headers = async ({ rpcMethod }: { readonly rpcMethod?: string | undefined }) => {
      if (rpcMethod === 'tools/call') await gate.promise
      return {}
    }
    await using server = await startLegacyServer()
    await using client = new McpClient({ url: server.url, headers })
    await client.ping()
    const error = await rejectionOf(client.callTool('counter_add', {}, { timeoutMs: 20 }))
    expect(error).toMatchObject(unsent)
    gate.resolve()
    await client.ping()
    expect(server.count('tools/call')).toBe(0)
    expect(server.count('notifications/cancelled')).toBe(0)
  })

  test('is not executed if it waits for a connection', async () => {
    await using dispatcher = pool({ connections: 1 })
    await using setting = await startSetting({ client: { dispatcher: dispatcher.value } })
    const { client, server } = setting
    await client.ping()
    const slow = client.callTool('slow')
    await server.waitFor(is.tool('slow'))
    const calls = [1, 2, 3].map(() => client.callTool('counter_add', {}, { timeoutMs: 20 }))
    for (const call of calls) expect(await rejectionOf(call)).toMatchObject(unsent)
    server.release()
    await slow
    await client.ping()
    expect(server.count('tools/call')).toBe(1)
    expect(server.count('notifications/cancelled')).toBe(0)
  })

  test('is not executed if it waits for a connection when the client is disposed of', async () => {
    await using dispatcher = pool({ connections: 1 })
    await using setting = await startSetting({
      client: { dispatcher: dispatcher.value, terminateOnClose: false },
    })
    const { client, server } = setting
    await client.ping()
    const slow = rejectionOf(client.callTool('slow'))
    await server.waitFor(is.tool('slow'))
    const waiting = rejectionOf(client.callTool('counter_add'))
    await client.dispose()
    expect(await slow).toMatchObject({ code: 'CLOSED', outcome: 'unknown' })
    expect(await waiting).toMatchObject({ code: 'CLOSED', outcome: 'not-executed' })
    expect(server.count('tools/call')).toBe(1)
  })

  test('is unknown if its dispatcher reports the start of a request late', async () => {
    await using own = pool()
    const dispatcher = own.value.compose(
      (dispatch) => (options, handler) => dispatch(options, reportingLate(handler)),
    )
    await using setting = await startSetting({ client: { dispatcher } })
    const { client, server } = setting
    stopClock()
    const error = rejectionOf(client.callTool('slow', {}, { timeoutMs: 100 }))
    await server.waitFor(is.tool('slow'))
    vi.advanceTimersByTime(100)
    expect(await error).toMatchObject(late)
    await server.waitFor(is.method('notifications/cancelled'))
  })

  test('is unknown if it was refused, and waits for another token', async () => {
    const asked = deferred()
    const authProvider = bearer(({ refused }) => {
      if (refused === undefined) return 'old'
      asked.resolve()
      return new Promise(() => {})
    })
    await using setting = await startSetting({ client: { authProvider } })
    const { client, proxy } = setting
    stopClock()
    const headers = { 'www-authenticate': 'Bearer' }
    proxy.inject({ match: isCall, times: 1, action: { status: 401, headers } })
    const error = rejectionOf(client.callTool('counter_add', {}, { timeoutMs: 300 }))
    await asked.promise
    vi.advanceTimersByTime(300)
    expect(await error).toMatchObject(late)
  })
})

// A server that stops answering: open calls end, and calls that it still answers continue.
import {
  deferred,
  startLegacyServer,
  startRecordingProxy,
  startScriptedServer,
} from '@x/mcp-testing'
import { stopClock } from '@x/internal/testing/clock'
import { beforeEach, describe, expect, test, vi } from 'vitest'
import { createDispatcher, SessionInfo, TransportError } from '../src/index.ts'
import type { RequestContext } from '../src/index.ts'
import { connectRaw, rawClient } from './raw-client.ts'
import { json, openSse, resultOf, scriptedServer } from './scripted-server.ts'
import type { Script } from './scripted-server.ts'

const never = new Promise<never>(() => {})
const timeouts = { silentMs: 600 }

beforeEach(() => stopClock())

const nextTurn = (): Promise<void> => new Promise((resolve) => setImmediate(resolve))

/** Lets the clock run until the promise settles. A server in this process answers in far fewer steps than a check has. */
async function inTime<T>(promise: Promise<T>): Promise<T> {
  const over = Symbol('over')
  const ended = promise.then(
    () => over,
    () => over,
  )
  while ((await Promise.race([ended, nextTurn()])) !== over) await vi.advanceTimersByTimeAsync(10)
  return promise
}

/** Never answers calls, and answers pings with `ping`. */
const silentCalls =
  (ping: Script): Script =>
  (seen) => {
    if (seen.what === 'POST tools/call') return never
    return seen.what === 'POST ping' ? ping(seen) : undefined
  }

describe('a call without any data', () => {
  test('fails with an unknown outcome after two checks without a response', async () => {
    const server = scriptedServer(silentCalls(() => never))
    await using client = await connectRaw(server, { listen: false, timeouts })
    const failure = await inTime(client.failureOf('tools/call'))
    expect(failure).toMatchObject({
      code: 'OUTCOME_UNKNOWN',
      message: expect.stringContaining('2 checks on another connection had no response'),
    })
    expect(server.count('POST ping')).toBe(2)
    const [call] = server.seen.filter(({ what }) => what === 'POST tools/call')
    expect(call?.signal.aborted).toBe(true)
  })

  test.each([
    ['an answer', (seen) => json(resultOf(seen, {}))],
    ['a refusal', () => new Response('no', { status: 404 })],
    ['an error', () => new Response(null, { status: 503 })],
  ] satisfies [string, Script][])('continues if the check has %s', async (_name, ping) => {
    const answered = deferred<Response>()
    const server = scriptedServer({
      'POST tools/call': () => answered.promise,
      'POST ping': (seen) => ping(seen),
    })
    await using client = await connectRaw(server, { listen: false, timeouts })
    const answer = client.request('tools/call')
    await inTime(server.waitFor('POST ping', 3))
    answered.resolve(json({ jsonrpc: '2.0', id: 1, result: { ok: true } }))
    await expect(answer).resolves.toMatchObject({ result: { ok: true } })
  })

  test('continues while its checks have no token', async () => {
    const answered = deferred<Response>()
    const askedAgain = deferred()
    const server = scriptedServer({ 'POST tools/call': () => answered.promise })
    let asked = 0
    const token = async (): Promise<string> => {
      if (server.count('POST tools/call') === 0) return 'token'
      if (++asked === 4) askedAgain.resolve()
      throw new TransportError('UNAUTHORIZED', 'signed out')
    }
    await using client = await connectRaw(server, {
      listen: false,
      timeouts,
      authProvider: { token },
    })
    const answer = client.request('tools/call')
    await inTime(Promise.race([askedAgain.promise, answer]))
    answered.resolve(json({ jsonrpc: '2.0', id: 1, result: { ok: true } }))
    await expect(answer).resolves.toMatchObject({ result: { ok: true } })
    expect(server.count('POST ping')).toBe(0)
  })

  test('is not checked while bytes arrive', async () => {
    const stream = openSse()
    const server = scriptedServer({ 'POST tools/call': () => stream.response })
    await using client = await connectRaw(server, { listen: false, timeouts })
    const answer = client.request('tools/call')
    for (let beat = 0; beat < 20; beat++) {
      stream.push(': beat\n\n')
      for (let turn = 0; turn < 10; turn++) await nextTurn()
      vi.advanceTimersByTime(100)
    }
    expect(server.count('POST ping')).toBe(0)
    stream.push(resultOf({ id: 1 }, {}))
    stream.end()
    await answer
  })

  test('is never checked with silentMs: 0', async () => {
    const server = scriptedServer(silentCalls(() => never))
    await using client = rawClient(server, {
      listen: false,
      timeouts: { ...timeouts, silentMs: 0 },
    })
    await using control = rawClient(scriptedServer(silentCalls(() => never)), { timeouts })
    await client.handshake()
    await control.handshake()
    void client.request('tools/call')
    await inTime(control.failureOf('tools/call')) // takes as long as a check of `client`
    expect(server.count('POST ping')).toBe(0)
  })
})

test('starts the time limit of a check when the check is sent, not while its headers are requested', async () => {
  const answered = deferred<Response>()
  const server = scriptedServer({
    'POST tools/call': () => answered.promise,
    'POST ping': (seen) => json(resultOf(seen, {})),
  })
  const headers = async ({ rpcMethod }: RequestContext): Promise<Record<string, string>> => {
    if (rpcMethod === 'ping') await new Promise((resolve) => setTimeout(resolve, 1000))
    return {}
  }
  await using client = await connectRaw(server, { listen: false, timeouts, headers })
  const answer = client.request('tools/call')
  await inTime(server.waitFor('POST ping', 2))
  answered.resolve(json({ jsonrpc: '2.0', id: 1, result: { ok: true } }))
  await expect(answer).resolves.toMatchObject({ result: { ok: true } })
})

test('ends a call that still waits for a connection as not executed', async () => {
  await using server = await startLegacyServer()
  await using proxy = await startRecordingProxy(server.url)
  proxy.inject({ match: ({ rpcMethod }) => rpcMethod === 'ping', action: 'hang' })
  const dispatcher = createDispatcher({ connections: 1 })
  await using client = await connectRaw(proxy.url, {
    era: 'legacy',
    listen: false,
    timeouts,
    dispatcher,
  })
  const sent = client.failureOf('tools/call', { name: 'slow', arguments: {} })
  const waiting = client.failureOf('tools/call', { name: 'counter_add', arguments: {} })
  expect(await inTime(sent)).toMatchObject({ code: 'OUTCOME_UNKNOWN', outcome: 'unknown' })
  expect(await waiting).toMatchObject({
    code: 'UNREACHABLE',
    outcome: 'not-executed',
    message: expect.stringContaining('The request was not sent'),
  })
  await dispatcher.destroy()
  expect(server.count('tools/call')).toBe(1)
})

test('sends one check for all calls of all clients in a session', async () => {
  const answered = deferred<Response>()
  const server = scriptedServer({
    'POST tools/call': () => never,
    'POST ping': () => answered.promise,
  })
  const sessionInfo = new SessionInfo()
  const options = { listen: false, timeouts, sessionInfo }
  await using one = await connectRaw(server, options)
  await using other = await connectRaw(server, options)
  const calls = [one, other].flatMap((client) =>
    Array.from({ length: 5 }, () => client.failureOf('tools/call')),
  )
  for (const failure of await inTime(Promise.all(calls)))
    expect(failure.code).toBe('OUTCOME_UNKNOWN')
  expect(server.count('POST ping')).toBe(2)
})

test('checks each session, because a gateway may pass two sessions to two servers', async () => {
  const answered = deferred<Response>()
  const server = scriptedServer((seen) => {
    const isLive = seen.sessionId === 'session-2'
    if (seen.what === 'POST tools/call') return isLive ? answered.promise : never
    if (seen.what !== 'POST ping') return undefined
    return isLive ? json(resultOf(seen, {})) : never
  })
  await using silent = await connectRaw(server, { listen: false, timeouts })
  await using live = await connectRaw(server, { listen: false, timeouts })
  const failure = silent.failureOf('tools/call')
  const answer = live.request('tools/call')
  await expect(inTime(failure)).resolves.toHaveProperty('code', 'OUTCOME_UNKNOWN')
  answered.resolve(json({ jsonrpc: '2.0', id: 1, result: { ok: true } }))
  await expect(answer).resolves.toMatchObject({ result: { ok: true } })
})

test('ends no calls of other clients when a client is closed during its check', async () => {
  const server = scriptedServer(silentCalls(() => never))
  const sessionInfo = new SessionInfo()
  const options = { listen: false, timeouts, sessionInfo }
  const first = await connectRaw(server, options)
  await using other = await connectRaw(server, options)
  const closed = first.failureOf('tools/call')
  await inTime(server.waitFor('POST ping'))
  const call = other.failureOf('tools/call')
  await first.transport.close()
  await expect(closed).resolves.toHaveProperty('code', 'CLOSED')
  await expect(inTime(call)).resolves.toHaveProperty('code', 'OUTCOME_UNKNOWN')
  expect(server.count('POST ping')).toBe(3)
})

test('checks a call of a modern server with server/discover', async () => {
  await using server = await startScriptedServer()
  await using client = await connectRaw(server.url, { listen: false, timeouts })
  const before = server.count('server/discover')
  server.answers = { 'tools/call': { end: 'hang' }, 'server/discover': { end: 'hang' } }
  await expect(inTime(client.failureOf('tools/call', { name: 'any' }))).resolves.toMatchObject({
    code: 'OUTCOME_UNKNOWN',
    message: expect.stringContaining('2 checks on another connection'),
  })
  // This server is on a socket: it may not have read the checks before the end of their limits.
  await server.waitFor(() => server.count('server/discover') > before)
})

describe('if the server does not answer a cancellation', () => {
  test('the connection of the call is closed after a second', async () => {
    const server = scriptedServer((seen) =>
      seen.what === 'POST tools/call' || seen.what === 'POST notifications/cancelled'
        ? never
        : undefined,
    )
    await using client = await connectRaw(server, { listen: false })
    void client.request('tools/call')
    const call = await server.waitFor('POST tools/call')
    const cancelling = client.notify('notifications/cancelled', { requestId: 1 })
    const cancelled = await server.waitFor('POST notifications/cancelled')
    const failure = cancelling.catch((error: unknown) => error)
    await vi.advanceTimersByTimeAsync(999)
    expect([call.signal.aborted, cancelled.signal.aborted]).toEqual([false, false])
    await vi.advanceTimersByTimeAsync(1)
    expect([call.signal.aborted, cancelled.signal.aborted]).toEqual([true, true])
    await expect(failure).resolves.toHaveProperty('code', 'TIMEOUT')
  })
})

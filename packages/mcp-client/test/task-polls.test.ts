// When a client asks for the status of a task, and what it does if it gets none.
import { setTimeout as sleep } from 'node:timers/promises'
import { deferred, startRecordingProxy } from '@x/mcp-testing'
import type { InjectedAction, TaskServerOptions } from '@x/mcp-testing'
import { describe, expect, test, vi } from 'vitest'
import { McpClient } from '../src/index.ts'
import type { McpClientOptions } from '../src/index.ts'
import { startGate } from './gate.ts'
import { is, rejectionOf, stopClock, textOf } from './setting.ts'
import { given, polled, startedTask, stored } from './task-setting.ts'

/** A client behind a proxy. */
async function behindProxy(options: McpClientOptions = {}, serverOptions: TaskServerOptions = {}) {
  const { server, ...direct } = await given({}, serverOptions)
  const proxy = await startRecordingProxy(server.url)
  const client = new McpClient({ url: proxy.url }, options)
  return {
    server,
    proxy,
    client,
    async [Symbol.asyncDispose]() {
      await client.dispose()
      await proxy.close()
      await direct[Symbol.asyncDispose]()
    },
  }
}

const isPoll = is.method('tasks/get')

/** Pauses between polls as the client asks for them, or shorter ones. */
function recordedWaits(pause?: (resolve: () => void) => unknown) {
  const waits: number[] = []
  const wait = (ms: number, signal: AbortSignal): Promise<void> => {
    waits.push(ms)
    return pause === undefined ? sleep(ms, undefined, { signal }) : new Promise(pause)
  }
  return { retryTiming: { random: () => 0, wait }, waits }
}

describe.concurrent('a poll', () => {
  const failures: readonly (readonly [string, InjectedAction])[] = [
    ['status 503', { status: 503, body: 'busy' }],
    ['a reset connection', 'reset-before'],
    ['a cut answer', { type: 'break-answer', how: 'close', after: 20 }],
    ['an internal error', { status: 200, body: (id) => rpcError(id, -32603) }],
  ]

  test.each(failures)('is repeated after %s', async (_what, action) => {
    await using all = await behindProxy()
    const { client, server, proxy } = all
    proxy.inject({ match: isPoll, times: 2, action })
    expect(textOf(await client.callTool('slow_compute', { seconds: 0.02 }))).toBe('computed')
    expect(server.runs).toEqual(['slow_compute'])
    expect(proxy.count({ rpcMethod: 'tasks/get' })).toBeGreaterThan(2)
  })

  test('is repeated no sooner than the error of the server says', async () => {
    const { retryTiming, waits } = recordedWaits(setImmediate)
    await using all = await behindProxy({ retryTiming })
    const { client, proxy } = all
    const body = (id: unknown): string => {
      const error = { code: -32603, message: 'Not now', data: { retryAfterMs: 7000 } }
      return JSON.stringify({ jsonrpc: '2.0', id, error })
    }
    proxy.inject({ match: isPoll, times: 1, action: { status: 200, body } })
    expect(textOf(await client.callTool('slow_compute', { seconds: 0.02 }))).toBe('computed')
    expect(Math.max(...waits)).toBeGreaterThanOrEqual(7000)
  })

  test.each([
    [5000, 0],
    [6250, 1],
  ])('comes at most %i ms after one that failed', async (mostMs, random) => {
    const { retryTiming, waits } = recordedWaits(setImmediate)
    await using all = await behindProxy({ retryTiming: { ...retryTiming, random: () => random } })
    const { client, proxy } = all
    proxy.inject({ match: isPoll, times: 20, action: { status: 503 } })
    expect(textOf(await client.callTool('slow_compute', { seconds: 0.02 }))).toBe('computed')
    expect(waits.length).toBeGreaterThan(20)
    expect(Math.max(...waits)).toBe(mostMs)
  })

  test('is repeated while the server restarts', async () => {
    await using all = await given()
    const { client, server } = all
    const call = client.callTool('slow_compute')
    await polled(server)
    await server.restart()
    server.complete('survived')
    expect(textOf(await call)).toBe('survived')
    expect(server.runs).toEqual(['slow_compute'])
  })

  test('is refused with another task, and the call rejects without its data', async () => {
    await using all = await given()
    const { client, server } = all
    server.onGet = (task) => ({
      ...task,
      taskId: 'somebody-elses',
      status: 'completed',
      result: { content: [{ type: 'text', text: 'secret' }] },
    })
    const error = await rejectionOf(client.callTool('slow_compute'))
    expect(error).toMatchObject({ code: 'UNEXPECTED_RESPONSE', outcome: 'unknown' })
    expect(String(error)).not.toContain('secret')
  })

  test('says that the task expired if the server has forgotten it, and the tool is not called again', async () => {
    await using all = await given({ maxRetries: 5 }, { honoursKeys: true })
    const { client, server } = all
    const call = client.callTool('slow_compute', {}, { idempotencyKey: 'k' })
    await polled(server)
    server.tasks.clear()
    expect(await rejectionOf(call)).toMatchObject({ code: 'TASK_EXPIRED', outcome: 'unknown' })
    expect(server.runs).toEqual(['slow_compute'])
  })

  test('goes on until the time to live ends while the server is away', async () => {
    await using all = await behindProxy({}, { ttlMs: 600 })
    const { client, server, proxy } = all
    const error = rejectionOf(client.callTool('slow_compute'))
    await polled(server)
    proxy.inject({ match: isPoll, action: { status: 503 } })
    expect(await error).toMatchObject({ code: 'TASK_EXPIRED', outcome: 'unknown' })
  })

  test.each([0, 1, 300])(
    'goes on while the server keeps the task beyond its ttlMs of %i',
    async (ttlMs) => {
      const { retryTiming, waits } = recordedWaits()
      await using all = await given({ retryTiming }, { ttlMs })
      const result = await all.client.callTool('slow_compute', { seconds: 0.5, label: 'late' })
      expect(textOf(result)).toBe('late')
      expect(Math.min(...waits)).toBeGreaterThanOrEqual(99)
    },
  )

  test.each([401, 403, 404])('is not repeated after status %i', async (status) => {
    await using all = await behindProxy()
    const { client, proxy } = all
    proxy.inject({ match: isPoll, action: { status, body: 'no' } })
    const error = await rejectionOf(client.callTool('slow_compute'))
    expect(error).toMatchObject({ outcome: 'unknown', task: { tool: 'slow_compute' } })
    expect(proxy.count({ rpcMethod: 'tasks/get' })).toBe(1)
  })

  test('is sent at the interval of the server, never below 100 ms, with jitter upwards', async () => {
    const { retryTiming, waits } = recordedWaits(setImmediate)
    const late = { ...retryTiming, random: () => 1 }
    await using all = await given({ retryTiming: late }, { pollIntervalMs: 5, ttlMs: null })
    const call = all.client.callTool('slow_compute')
    await polled(all.server)
    all.server.onGet = (task) => ({ ...task, pollIntervalMs: 1e9 })
    await all.server.waitFor(() => waits.length > 4)
    all.server.complete('done')
    await call
    const [first = 0] = waits
    const last = waits.at(-1) ?? 0
    // Polls start at multiples of 100 ms.
    expect(first).toBeGreaterThanOrEqual(125)
    expect(first).toBeLessThanOrEqual(225)
    expect(last).toBeGreaterThanOrEqual(75_000)
    expect(last).toBeLessThanOrEqual(75_100)
  })

  test('is sent later and later while the task does not change, up to 5 s, and soon again after a change', async () => {
    const { retryTiming, waits } = recordedWaits(setImmediate)
    await using all = await given({ retryTiming }, { pollIntervalMs: 1000 })
    const { client, server } = all
    const call = client.callTool('slow_compute')
    await server.waitFor(() => waits.length > 14)
    // Polls start at multiples of 100 ms. 1 ms covers the fractions.
    const isNear = (ms: number, wanted: number): boolean => ms >= wanted - 1 && ms <= wanted + 101
    const wanted = [1000, 1200, 1440, 1728, 2073.6, 2488.3, 2986, 3583.2, 4299.8, 5000, 5000]
    expect(wanted.filter((ms, n) => !isNear(waits[n] ?? 0, ms))).toEqual([])
    const before = waits.length
    server.change({ statusMessage: 'half of it' })
    await server.waitFor(() => waits.length > before + 2)
    expect(waits.slice(before).some((ms) => isNear(ms, 1000))).toBe(true)
    server.complete('done')
    await call
  })

  test('is sent later with many tasks: at most 250 times a second for all of them', async () => {
    // Each task waits twice. The first waits end together.
    const waits: number[] = []
    const first = deferred()
    const second = deferred()
    const wait = (ms: number): Promise<void> => {
      waits.push(ms)
      if (waits.length === 100) first.resolve()
      if (waits.length === 200) second.resolve()
      return waits.length > 100 ? second.promise : first.promise
    }
    await using all = await given({ retryTiming: { random: () => 0, wait } })
    const { client, server } = all
    const started = await Promise.all(Array.from({ length: 100 }, () => startedTask(client)))
    const results = Promise.all(started.map((task) => task.result()))
    await second.promise
    for (const task of server.tasks.values()) server.complete('done', task)
    await results
    const later = waits.slice(100, 200)
    expect(Math.min(...later)).toBeGreaterThanOrEqual(399)
    expect(Math.max(...later)).toBeLessThanOrEqual(601)
  })
})

function rpcError(id: unknown, code: number): string {
  return JSON.stringify({ jsonrpc: '2.0', id, error: { code, message: 'try later' } })
}

/** Short pauses between polls, and the end of so many of them. */
function shortPauses(count: number) {
  const done = deferred()
  let pauses = 0
  const wait = async (_ms: number, signal: AbortSignal): Promise<void> => {
    await sleep(10, undefined, { signal })
    if (++pauses === count) done.resolve()
  }
  return { retryTiming: { random: () => 0, wait }, done: done.promise }
}

describe.concurrent('a server that is away', () => {
  test.each([429, 500, 502, 503])(
    'delays a resumed task while it answers the handshake with status %i',
    async (status) => {
      await using all = await given()
      const { client, server } = all
      const task = await startedTask(client)
      let isAway = true
      await using proxy = await startRecordingProxy(server.url)
      proxy.inject({ match: () => isAway, times: 1000, action: { status, body: 'away' } })
      const { retryTiming, done } = shortPauses(1)
      await using other = new McpClient({ url: proxy.url }, { retryTiming })
      const result = other.resumeTask({ ...stored(task), server: proxy.url }).result()
      // The first handshake has failed.
      await Promise.race([done, result])
      isAway = false
      server.complete('back')
      expect(textOf(await result)).toBe('back')
    },
  )

  test('delays a resumed task while it refuses connections', async () => {
    await using all = await given()
    await using gate = await startGate(all.server.url)
    const task = await startedTask(all.client)
    await gate.close()
    const { retryTiming, done } = shortPauses(5)
    await using other = new McpClient({ url: gate.url }, { retryTiming })
    const result = other.resumeTask({ ...stored(task), server: gate.url }).result()
    await Promise.race([done, result])
    await gate.open()
    all.server.complete('back')
    expect(textOf(await result)).toBe('back')
    expect(all.server.runs).toEqual(['slow_compute'])
  })

  test('does not delay an abort', async () => {
    await using all = await given()
    await using gate = await startGate(all.server.url)
    const reference = { ...stored(await startedTask(all.client)), server: gate.url }
    await gate.close()
    const waiting = deferred()
    const wait = (_ms: number, signal: AbortSignal): Promise<void> => {
      waiting.resolve()
      return sleep(60_000, undefined, { signal })
    }
    await using other = new McpClient({ url: gate.url }, { retryTiming: { random: () => 0, wait } })
    // The client goes on trying to cancel the task, for 1 s.
    const cancelled = deferred<string>()
    other.on('log', ({ message }) => {
      if (message.includes('could not be cancelled')) cancelled.resolve(message)
    })
    const abort = new AbortController()
    const result = rejectionOf(other.resumeTask(reference).result({ signal: abort.signal }))
    await waiting.promise
    const reason = new Error('enough')
    abort.abort(reason)
    expect(await Promise.race([result, cancelled.promise])).toBe(reason)
    await cancelled.promise
  })

  test.each([401, 403, 404])(
    'is not awaited if it refuses the handshake with status %i',
    async (status) => {
      await using all = await given()
      const task = await startedTask(all.client)
      await using proxy = await startRecordingProxy(all.server.url)
      proxy.inject({ match: () => true, times: 1000, action: { status, body: 'no' } })
      const wait = (): Promise<never> => Promise.reject(new Error('The client waited'))
      await using other = new McpClient(
        { url: proxy.url },
        { retryTiming: { random: () => 0, wait } },
      )
      const reference = { ...stored(task), server: proxy.url }
      const error = await rejectionOf(other.resumeTask(reference).result())
      const code = status === 404 ? 'REJECTED' : 'UNAUTHORIZED'
      expect(error).toMatchObject({ code, outcome: 'unknown', task: reference })
    },
  )
})

test('a server that is away does not delay a resumed task beyond timeoutMs: the error says why, and has the reference', async () => {
  await using all = await given()
  await using gate = await startGate(all.server.url)
  const reference = { ...stored(await startedTask(all.client)), server: gate.url }
  await gate.close()
  stopClock('performance')
  const { retryTiming, done } = shortPauses(1)
  await using other = new McpClient({ url: gate.url }, { retryTiming })
  const error = rejectionOf(other.resumeTask(reference).result({ timeoutMs: 200 }))
  await done
  vi.advanceTimersByTime(200)
  expect(await error).toMatchObject({
    code: 'TIMEOUT',
    outcome: 'unknown',
    task: reference,
    cause: { code: 'UNREACHABLE' },
  })
  expect(String(await error)).toMatch(/may still be running.*ECONNREFUSED.*resumeTask\(\)/u)
})

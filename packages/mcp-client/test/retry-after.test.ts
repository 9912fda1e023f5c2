// A server that is busy, and says when it takes requests again.
import { startLegacyServer, startModernServer, startRecordingProxy } from '@x/mcp-testing'
import type { InjectedAction } from '@x/mcp-testing'
import { describe, expect, test } from 'vitest'
import { McpClient } from '../src/index.ts'
import type { McpClientOptions } from '../src/index.ts'
import { is, rejectionOf } from './setting.ts'
import { given, startedTask } from './task-setting.ts'

const eras = [
  { era: 'with sessions', start: startLegacyServer, opening: 'initialize' },
  { era: 'without sessions', start: startModernServer, opening: 'server/discover' },
]

/** A client behind a proxy. Its waits end at once. */
async function startShop(start: (typeof eras)[number]['start'], options: McpClientOptions = {}) {
  const server = await start()
  const proxy = await startRecordingProxy(server.url)
  const waits: number[] = []
  const wait = async (ms: number): Promise<void> => void waits.push(ms)
  const retryTiming = { random: () => 0, wait }
  const client = new McpClient({ url: proxy.url }, { retryTiming, ...options })
  return {
    server,
    proxy,
    client,
    waits,
    async [Symbol.asyncDispose]() {
      await client.dispose()
      await proxy.close()
      await server[Symbol.asyncDispose]()
    },
  }
}

const busy = (status: number, retryAfter: string): InjectedAction => ({
  status,
  headers: { 'retry-after': retryAfter },
})
const HOUR = { code: 'REJECTED', retryAfterMs: 3_600_000 }
const ASKS = /asks to wait 3600 s/

const requests: Readonly<Record<string, (client: McpClient) => Promise<unknown>>> = {
  'tools/call': (client) => client.callTool('echo', { text: 'x' }),
  'tools/list': (client) => client.listTools(),
  'resources/list': (client) => client.listResources(),
  'resources/read': (client) => client.readResource('a://b'),
  'prompts/get': (client) => client.getPrompt('p'),
  'shop/open': (client) => client.request({ method: 'shop/open' }),
}
const busyCases = eras.flatMap((era) =>
  [429, 503].flatMap((status) =>
    Object.entries(requests).map(([method, send]) => ({ ...era, status, method, send })),
  ),
)

test.each(busyCases)(
  'rejects at once if the time limit ends first: $status to $method, $era',
  async ({ start, status, method, send }) => {
    await using shop = await startShop(start)
    const { client, proxy, waits } = shop
    await client.callTool('echo', { text: 'x' })
    proxy.inject({ match: is.method(method), action: busy(status, '3600') })
    const before = proxy.count({ rpcMethod: method })
    const error = await rejectionOf(send(client))
    expect(error).toMatchObject({ ...HOUR, outcome: status === 429 ? 'not-executed' : 'unknown' })
    expect(String(error)).toMatch(ASKS)
    expect(proxy.count({ rpcMethod: method }) - before).toBe(1)
    expect(waits).toEqual([])
  },
)

describe.each(eras)('a session that a busy server does not open, $era', ({ start, opening }) => {
  test.each([429, 503])('rejects the call at once if its limit ends first: %i', async (status) => {
    await using shop = await startShop(start)
    const { client, proxy, server } = shop
    proxy.inject({ match: is.method(opening), action: busy(status, '3600') })
    const error = await rejectionOf(client.callTool('counter_add'))
    expect(error).toMatchObject({ ...HOUR, outcome: 'not-executed' })
    expect(String(error)).toMatch(ASKS)
    expect(proxy.count({ rpcMethod: opening })).toBe(1)
    expect(server.executions('counter_add')).toBe(0)
  })

  test.each([429, 503])('is opened after the delay, and the call runs once: %i', async (status) => {
    await using shop = await startShop(start)
    const { client, proxy, server, waits } = shop
    proxy.inject({ match: is.method(opening), times: 1, action: busy(status, '20') })
    await client.callTool('echo', { text: 'x' })
    expect(waits).toEqual([20_000])
    expect(server.executions('echo')).toBe(1)
  })
})

describe.each(eras)('a list that two callers share, $era', ({ start }) => {
  test('is requested again for the one with time left, and the other one rejects', async () => {
    await using shop = await startShop(start)
    const { client, proxy, waits } = shop
    await client.ping()
    proxy.inject({ match: is.method('tools/list'), times: 1, action: busy(429, '100') })
    const hasted = rejectionOf(client.listTools({ timeoutMs: 99_000 }))
    const patient = client.listTools({ timeoutMs: 300_000 })
    expect(await hasted).toMatchObject({ code: 'REJECTED', retryAfterMs: 100_000 })
    expect((await patient).length).toBeGreaterThan(0)
    expect(waits).toEqual([100_000])
    expect(proxy.count({ rpcMethod: 'tools/list' })).toBe(2)
  })
})

test.each<readonly [string, string, number | undefined]>([
  ['a date', 'Fri, 31 Dec 2999 23:59:59 GMT', expect.any(Number)],
  ['the largest number', '999999999', 999_999_999_000],
  ['a negative number', '-5', undefined],
  ['nonsense with a number', 'soon 5', undefined],
])('waits for nothing, and sends nothing again: Retry-After is %s', async (_, value, delayMs) => {
  await using shop = await startShop(startLegacyServer, { timeoutMs: Infinity })
  const { client, proxy, waits } = shop
  proxy.inject({ match: is.tool('echo'), action: busy(429, value) })
  const error = await rejectionOf(client.callTool('echo', { text: 'x' }))
  expect(error).toMatchObject({ code: 'REJECTED', retryAfterMs: delayMs })
  expect(proxy.count({ toolName: 'echo' })).toBe(1)
  expect(waits).toEqual([])
})

test('waits for a part of a second', async () => {
  await using shop = await startShop(startLegacyServer)
  const { client, proxy, waits } = shop
  proxy.inject({ match: is.method('tools/list'), times: 1, action: busy(429, '0.5') })
  await client.listTools()
  expect(waits).toEqual([500])
})

test.each([
  ['result', 'tasks/get'],
  ['status', 'tasks/get'],
  ['cancel', 'tasks/cancel'],
] as const)('task.%s() rejects at once if its time limit ends first', async (name, method) => {
  await using tasks = await given()
  await using proxy = await startRecordingProxy(tasks.server.url)
  const waits: number[] = []
  const wait = async (ms: number): Promise<void> => void waits.push(ms)
  const retryTiming = { random: () => 0, wait }
  await using client = new McpClient({ url: proxy.url }, { retryTiming })
  const task = await startedTask(client)
  proxy.inject({ match: is.method(method), action: busy(429, '3600') })
  const error = await rejectionOf(task[name]({ timeoutMs: 600_000 }))
  expect(error).toMatchObject({ ...HOUR, outcome: 'unknown', task: { taskId: expect.any(String) } })
  expect(String(error)).toMatch(ASKS)
  expect(proxy.count({ rpcMethod: method })).toBe(1)
  expect(waits.filter((ms) => ms > 60_000)).toEqual([])
})

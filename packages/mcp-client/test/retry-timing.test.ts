import { lossForms } from '@x/mcp-testing'
import { expect, test } from 'vitest'
import type { RetryTiming } from '../src/index.ts'
import { is, rejectionOf, startSetting } from './setting.ts'

/** Waits that end at once, and constant randomness. */
function instantTiming(): RetryTiming & { readonly waits: readonly number[] } {
  const waits: number[] = []
  return {
    waits,
    wait: async (ms) => void waits.push(ms),
    random: () => 1,
  }
}

test('waits exactly as long as Retry-After says after 429, and the call runs once', async () => {
  const retryTiming = instantTiming()
  await using setting = await startSetting({ client: { retryTiming } })
  const { client, proxy, server } = setting
  proxy.inject({
    match: is.tool('counter_add'),
    times: 1,
    action: { status: 429, headers: { 'retry-after': '7' } },
  })
  await client.callTool('counter_add')
  expect(retryTiming.waits).toEqual([7000])
  expect(server.executions('counter_add')).toBe(1)
})

test('recovers at once the first time, then waits twice as long each time until a call succeeds', async () => {
  const retryTiming = instantTiming()
  await using setting = await startSetting({ client: { retryTiming, maxRetries: 4 } })
  const { client, proxy } = setting
  await client.ping()
  const lost = (times: number): void => {
    const match = is.tool('echo')
    proxy.inject({ match, times, action: lossForms['404-32001'] })
  }
  lost(4)
  await client.callTool('echo', { text: 'x' }, { idempotent: true })
  expect(retryTiming.waits).toEqual([100, 200, 400])
  lost(1)
  await client.callTool('echo', { text: 'x' })
  expect(retryTiming.waits).toHaveLength(3)
})

test('does not wait and sends nothing again when the caller aborts', async () => {
  const caller = new AbortController()
  const reason = new Error('enough')
  const retryTiming: RetryTiming = {
    wait: async (_ms, signal) => {
      caller.abort(reason)
      signal.throwIfAborted()
    },
    random: () => 0,
  }
  await using setting = await startSetting({ client: { retryTiming } })
  const { client, proxy, server } = setting
  proxy.inject({
    match: is.tool('counter_add'),
    times: 1,
    action: { status: 429, headers: { 'retry-after': '7' } },
  })
  expect(await rejectionOf(client.callTool('counter_add', {}, { signal: caller.signal }))).toBe(
    reason,
  )
  expect(server.executions('counter_add')).toBe(0)
})

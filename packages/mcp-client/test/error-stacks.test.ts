import { expect, test, vi } from 'vitest'
import { McpClientError } from '../src/index.ts'
import type { McpClient } from '../src/index.ts'
import { is, startSetting, stopClock } from './setting.ts'

/** The frame of this function must be in the stack of the error. */
async function callFromHere(client: McpClient, name: string): Promise<unknown> {
  try {
    return await client.callTool(name)
  } catch (error) {
    return error
  }
}

test.each([
  ['UNREACHABLE', 'reset-before'],
  ['OUTCOME_UNKNOWN', 'reset-after'],
  ['TIMEOUT', 'hang'],
] as const)('the stack of a failed call shows the line of its caller: %s', async (code, action) => {
  await using setting = await startSetting({ client: { timeoutMs: 10_000 } })
  const { client, proxy } = setting
  await client.listTools()
  proxy.inject({ match: is.tool('counter_add'), action })
  stopClock()
  const failing = callFromHere(client, 'counter_add')
  if (code === 'TIMEOUT') {
    await proxy.waitFor(is.tool('counter_add'))
    await vi.advanceTimersByTimeAsync(10_000)
  }
  const error = await failing
  expect(error).toBeInstanceOf(McpClientError)
  expect(String((error as Error).stack)).toContain('callFromHere')
})

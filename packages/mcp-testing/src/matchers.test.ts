import { expect, test } from 'vitest'
import { RawClient } from '../test/raw-client.ts'
import { startLegacyServer } from './legacy-server.ts'
import type { McpMatchers } from './matchers.ts'
import { matchers } from './matchers.ts'
import { startRecordingProxy } from './proxy/recording-proxy.ts'

declare module 'vitest' {
  interface Matchers<R extends void | Promise<void>, T> extends McpMatchers<R> {}
}

expect.extend(matchers)

const call = { tool: 'pay', args: { key: 'k1' }, principal: 'ada', era: 'legacy' as const }

test('pass and fail for a ledger, a proxy and a mark', async () => {
  await using server = await startLegacyServer()
  await using proxy = await startRecordingProxy(server.url)
  await using client = new RawClient(proxy.url)
  await (await client.initialize()).text()
  const mark = proxy.mark()
  await (await client.call('echo', { text: 'a', key: 'k1' })).text()
  await (await client.call('echo', { text: 'a', key: 'k2' })).text()
  expect(server).toHaveExecuted('echo')
  expect(server.ledger).toHaveExecuted({ tool: 'echo' }, { times: 2 })
  expect(server.ledger).toHaveExecutedOnce('k1')
  expect(server).not.toHaveExecuted('pay')
  expect(server).not.toHaveExecutedOnce('k3')
  expect(server).toHaveInitialized(1)
  expect(proxy).toHaveInitialized(1)
  expect(mark).toHaveInitialized(0)
  expect(() => expect(proxy).toHaveInitialized(2)).toThrow(
    'Expected 2 initialize requests, but there were 1.',
  )
})

test('list in a failure the calls that reached the server', async () => {
  await using server = await startLegacyServer()
  const { ledger } = server
  const message = (check: () => void): string => {
    try {
      check()
    } catch (error) {
      return String(error)
    }
    return 'passed'
  }
  expect(message(() => expect(server).toHaveExecuted('pay'))).toBe(
    'Error: Expected executions of pay, but there were 0.\n\nNo tools/call reached the server.',
  )
  for (const times of [1, 2, 3]) {
    const entry = ledger.receive(call)
    if (times < 3) ledger.advance(entry, 'running')
  }
  expect(message(() => expect(ledger).toHaveExecutedOnce('k1'))).toBe(
    'Error: Expected 1 execution of {"key":"k1"}, but there were 2.\n\n' +
      'Calls that reached the server:\n' +
      '  2 x pay, key k1, by ada: executed (running)\n' +
      '  1 x pay, key k1, by ada: not executed (received)',
  )
  expect(message(() => expect(ledger).not.toHaveExecuted('pay', { times: 2 }))).toContain(
    'Expected not 2 executions of pay',
  )
})

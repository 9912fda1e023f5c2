import { expect, test } from 'vitest'
import { ExchangeRecorder } from '../host/exchange-recorder.ts'
import type { Exchange } from '../timeline/events.ts'
import { EMPTY_STATE } from '../timeline/state.ts'
import { Scene } from './scene.ts'
import { requestsIn } from './steps.ts'
import { Terminal } from './terminal.ts'

/** A scene of a playground in which nothing happens, and what it writes. */
function idleScene() {
  let text = ''
  const terminal = new Terminal((part) => (text += part))
  const playground = {
    state: EMPTY_STATE,
    until: async () => {},
    run: async () => {},
    recorder: new ExchangeRecorder([], () => {}),
    environment: {},
  }
  return { scene: new Scene(playground, terminal), written: () => text }
}

test('compares figures with what they must be, and ignores others', async () => {
  const { scene, written } = idleScene()
  const step = { name: 'first', title: 'A step', hint: 'See.', expected: { POSTs: 1 } }
  const figures = { POSTs: 1, ms: 3 }
  const result = await scene.run({ ...step, act: async () => figures })
  expect(result).toEqual({ name: 'first', ok: true, figures })
  expect(written()).toContain('ok first\n     POSTs: 1 · ms: 3\n')
})

test('names wrong and missing figures', async () => {
  const { scene, written } = idleScene()
  const step = { name: 'first', title: 'A step', hint: 'See.' }
  const expected = { POSTs: 1, basket: 'nothing' }
  const result = await scene.run({ ...step, expected, act: async () => ({ POSTs: 2 }) })
  expect(result).toEqual({ name: 'first', ok: false, figures: { POSTs: 2 } })
  expect(written()).toContain('POSTs is 2 and must be 1\n')
  expect(written()).toContain('basket is undefined and must be nothing\n')
})

test('says why a step has failed', async () => {
  const { scene, written } = idleScene()
  const step = { name: 'first', title: 'A step', hint: 'See.', expected: {} }
  const result = await scene.run({ ...step, act: () => Promise.reject(new Error('It broke')) })
  expect(result).toEqual({ name: 'first', ok: false, figures: {} })
  expect(written()).toContain('WRONG first\n     It broke\n')
})

test('counts requests by method and refused calls, and does not count streams as POSTs', () => {
  const post = (rest: Partial<Exchange>): Exchange => ({
    id: 1,
    from: 'agent',
    to: 'basket',
    kind: 'call',
    label: 'basket_show',
    httpMethod: 'POST',
    startedAt: 1,
    requestBytes: 0,
    responseBytes: 0,
    ...rest,
  })
  expect(
    requestsIn([
      post({ rpcMethod: 'initialize', kind: 'handshake' }),
      post({ rpcMethod: 'tools/call', status: 404, sessionId: 'a… (9)' }),
      post({ rpcMethod: 'tools/call', sessionId: 'b… (9)' }),
      post({ rpcMethod: 'subscriptions/listen', kind: 'stream' }),
      post({ httpMethod: 'GET', kind: 'stream', status: 404 }),
      post({ httpMethod: 'DELETE', kind: 'other' }),
    ]),
  ).toMatchObject({
    initialize: 1,
    'tools/call': 2,
    refused: 1,
    POSTs: 3,
    'session ids': 2,
    DELETE: 1,
  })
})

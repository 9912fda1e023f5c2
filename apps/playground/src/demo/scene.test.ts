import { expect, test } from 'vitest'
import type { Exchange } from '../timeline/events.ts'
import { EMPTY_STATE } from '../timeline/state.ts'
import { Scene } from './scene.ts'
import { requestsIn } from './steps.ts'
import { summaryOf, Terminal } from './terminal.ts'

/** A scene of a playground in which nothing happens, and what it writes. */
function idleScene() {
  let text = ''
  const terminal = new Terminal({ write: (part) => (text += part), isColored: false })
  const playground = {
    state: EMPTY_STATE,
    on: () => () => {},
    run: async () => {},
    exchangeDetails: () => undefined,
    gateway: { url: '', token: '' },
    hasRedis: false,
  }
  const scene = new Scene(playground, terminal, async () => {})
  return { scene, written: () => text }
}

test('names wrong and missing figures and steps that failed, and makes the demo fail', async () => {
  const { scene, written } = idleScene()
  const step = { title: 'A step', hint: 'See.' }
  await scene.run({
    ...step,
    name: 'right',
    act: async () => ({ figures: { POSTs: 1, ms: 3 }, expected: { POSTs: 1 } }),
  })
  expect(summaryOf(scene.results)).toEqual({
    text: 'All 1 steps have the figures that they must have.',
    json: { ok: true, steps: [{ name: 'right', ok: true, figures: { POSTs: 1, ms: 3 } }] },
  })
  await scene.run({
    ...step,
    name: 'wrong',
    act: async () => ({ figures: { POSTs: 2 }, expected: { POSTs: 1, basket: 'nothing' } }),
  })
  await scene.run({ ...step, name: 'failed', act: () => Promise.reject(new Error('It broke')) })
  expect(written()).toContain('POSTs is 2 and must be 1\n')
  expect(written()).toContain('basket is undefined and must be nothing\n')
  expect(written()).toContain('It broke\n')
  expect(summaryOf(scene.results)).toMatchObject({
    text: '2 of 3 steps are wrong: wrong, failed. See above.',
    json: { ok: false, steps: [{ ok: true }, { ok: false, figures: { POSTs: 2 } }, { ok: false }] },
  })
})

test('counts requests by method, and does not count streams as POSTs', () => {
  const post = (rest: Partial<Exchange>): Exchange => ({
    id: 1,
    from: 'agent',
    to: 'basket',
    kind: 'call',
    httpMethod: 'POST',
    startedAt: 1,
    requestBytes: 0,
    responseBytes: 0,
    ...rest,
  })
  expect(
    requestsIn([
      post({ rpcMethod: 'initialize', kind: 'handshake' }),
      post({ rpcMethod: 'tools/call', kind: 'loss', sessionId: 'a… (9)' }),
      post({ rpcMethod: 'tools/call', sessionId: 'b… (9)' }),
      post({ rpcMethod: 'subscriptions/listen', kind: 'stream' }),
      post({ httpMethod: 'GET', kind: 'stream' }),
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

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

test.each<[string, Figures, () => Promise<Figures>, object, string]>([
  [
    'compares figures with what they must be, and ignores others',
    { POSTs: 1 },
    async () => ({ POSTs: 1, ms: 3 }),
    { ok: true, figures: { POSTs: 1, ms: 3 } },
    'ok first\n     POSTs: 1 · ms: 3\n',
  ],
  [
    'names wrong and missing figures',
    { POSTs: 1, basket: 'nothing' },
    async () => ({ POSTs: 2 }),
    { ok: false, figures: { POSTs: 2 } },
    'POSTs is 2 and must be 1\n     basket is undefined and must be nothing\n',
  ],
  [
    'says why a step has failed',
    {},
    () => Promise.reject(new Error('It broke')),
    { ok: false, figures: {} },
    'WRONG first\n     It broke\n',
  ],
])('%s', async (_title, expected, act, result, text) => {
  const { scene, written } = idleScene()
  const step = { name: 'first', title: 'A step', hint: 'See.', expected, act }
  expect(await scene.run(step)).toEqual({ name: 'first', ...result })
  expect(written()).toContain(text)
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

import { expect, test } from 'vitest'
import type { Exchange } from './events.ts'
import { figuresOf } from './figures.ts'

let id = 0
function exchange(kind: Exchange['kind'], rest: Partial<Exchange> = {}): Exchange {
  return {
    id: ++id,
    from: 'agent',
    to: 'shop',
    kind,
    label: 'basket_add',
    httpMethod: 'POST',
    startedAt: id,
    durationMs: 5,
    status: 200,
    requestBytes: 10,
    responseBytes: 20,
    ...rest,
  }
}
const call = (rest: Partial<Exchange> = {}) =>
  exchange('call', { rpcMethod: 'tools/call', ...rest })

test('adds up a session that was lost and replaced', () => {
  const figures = figuresOf([
    exchange('handshake', { rpcMethod: 'server/discover', status: 400 }),
    exchange('handshake', { rpcMethod: 'initialize' }),
    exchange('handshake', { rpcMethod: 'notifications/initialized', status: 202 }),
    exchange('stream', { httpMethod: 'GET', sessionId: 'a' }),
    ...[30, 10, 20, 40].map((durationMs) => call({ durationMs })),
    call({ kind: 'loss', status: 404 }),
    exchange('recovery', { rpcMethod: 'initialize' }),
    exchange('stream', { httpMethod: 'GET', sessionId: 'b' }),
    call({ durationMs: 50 }),
    call({ status: undefined, durationMs: undefined }),
  ])
  expect(figures).toEqual({
    calls: 5,
    handshakes: 2,
    handshakesSaved: 3,
    reconnects: 1,
    resumes: 0,
    p50Ms: 30,
    p95Ms: 50,
    bytes: 13 * 30,
  })
})

test('counts a resumed session, and a stream that was opened again', () => {
  const stream = exchange('stream', { httpMethod: 'GET', sessionId: 'a' })
  const resumed = call({ kind: 'resume' })
  expect(figuresOf([stream, stream, resumed])).toMatchObject({
    calls: 1,
    handshakesSaved: 1,
    reconnects: 1,
    resumes: 1,
  })
})

test('counts no reconnect for a stream that the agent closed between two runs', () => {
  const stream = exchange('stream', { sessionId: 'a', problem: 'client left' })
  expect(figuresOf([stream, stream])).toMatchObject({ reconnects: 0 })
})

test('has no durations without calls', () => {
  expect(figuresOf([])).toEqual({
    calls: 0,
    handshakes: 0,
    handshakesSaved: 0,
    reconnects: 0,
    resumes: 0,
    bytes: 0,
  })
})

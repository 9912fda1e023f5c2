import { expect, test } from 'vitest'
import { Classifier, labelOf } from './classify.ts'
import type { ObservedExchange } from './classify.ts'
import { DEBUG_STATE } from '../timeline/events.ts'

const AGENT = ['agent 1', 'shop'] as const

function post(rpcMethod: string, rest: Partial<ObservedExchange> = {}): ObservedExchange {
  return { httpMethod: 'POST', rpcMethod, ...rest }
}

test('tells the kinds in the life of a session', () => {
  const classifier = new Classifier()
  const kindsOf = (from: string, exchanges: readonly ObservedExchange[]) =>
    exchanges.map((exchange) => classifier.kindOf(from, 'shop', exchange)).join(' ')
  const opening = (assignedSessionId: string) => [
    post('initialize', { status: 200, assignedSessionId }),
    post('notifications/initialized', { sessionId: assignedSessionId, status: 202 }),
  ]
  const call = (sessionId: string, status = 200) => post('tools/call', { sessionId, status })
  const first = opening('one')
  expect(kindsOf('agent 1', [...first, call('one'), call('one', 404)])).toBe(
    'handshake handshake call loss',
  )
  // The answer to the handshake ends after the loss.
  expect(kindsOf('agent 1', [...first.slice(0, 1), ...opening('two'), call('two')])).toBe(
    'handshake recovery recovery call',
  )
  const resumed = call('two')
  expect(kindsOf('agent 2', [resumed, resumed, call('two'), ...opening('three')])).toBe(
    'resume resume call handshake handshake',
  )
  expect(kindsOf('agent 3', [call('three', 404), ...opening('four')])).toBe(
    'loss recovery recovery',
  )
  expect(new Classifier().kindOf(...AGENT, call('four'))).toBe('resume')
})

const opened = (assignedSessionId: string) => post('initialize', { status: 200, assignedSessionId })
const lost = post('tools/call', { sessionId: 'one', status: 404 })
const forgotten = { status: 400, response: { body: '{"error":{"code":-32000}}' } }

test.each<[string, readonly ObservedExchange[], string]>([
  [
    'a late refusal of an earlier session does not make the next handshake a recovery',
    [opened('one'), lost, opened('two'), lost, post('initialize')],
    'handshake loss recovery loss handshake',
  ],
  [
    'a failed handshake after a loss is followed by another recovery',
    [opened('one'), lost, post('initialize', { status: 503 }), opened('two')],
    'handshake loss recovery recovery',
  ],
  [
    'a new process loses a stored session also by the stream with which it begins',
    [{ httpMethod: 'GET', sessionId: 'one', ...forgotten }, opened('two')],
    'loss recovery',
  ],
])('%s', (_title, exchanges, kinds) => {
  const classifier = new Classifier()
  const found = exchanges.map((exchange) => classifier.kindOf(...AGENT, exchange))
  expect(found.join(' ')).toBe(kinds)
})

test('probes of an unknown server are handshakes, and other processes are apart', () => {
  const classifier = new Classifier()
  const refused = { status: 400, response: { body: '{"error":{"code":-32022}}' } }
  expect(classifier.kindOf(...AGENT, post('tools/call', refused))).toBe('handshake')
  classifier.kindOf(...AGENT, post('server/discover', { status: 200 }))
  expect(classifier.kindOf(...AGENT, post('tools/call'))).toBe('call')
  const gateway = ['gateway 2', 'shop'] as const
  expect(classifier.kindOf(...gateway, post('tools/call'))).toBe('resume')
  expect(classifier.kindOf(...gateway, post('server/discover'))).toBe('handshake')
})

test.each<[ObservedExchange, string]>([
  [{ httpMethod: 'GET' }, 'stream'],
  [post('subscriptions/listen', { status: 200 }), 'stream'],
  [{ httpMethod: 'DELETE', sessionId: 'one', status: 404 }, 'other'],
  [post('tools/list'), 'other'],
  [post('tools/call', { status: 404 }), 'call'],
  [post('tools/call', { status: 400, response: { body: 'no JSON' } }), 'call'],
])('%j is %s', (exchange, kind) => {
  expect(new Classifier().kindOf(...AGENT, exchange)).toBe(kind)
})

test('everything that goes to the debug state is of kind state', () => {
  expect(new Classifier().kindOf('agent 1', DEBUG_STATE, { httpMethod: 'GET', status: 404 })).toBe(
    'state',
  )
})

test.each<[Partial<ObservedExchange>, string]>([
  [{ rpcMethod: 'tools/call' }, 'tools/call'],
  [{ rpcMethod: 'tools/call', toolName: 'basket_add' }, 'basket_add'],
  [{ rpcMethod: 'notifications/initialized' }, 'initialized'],
  [{ httpMethod: 'GET', request: { headers: {} } }, 'listening stream'],
  [{ httpMethod: 'GET', request: { headers: { 'last-event-id': '7' } } }, 'resumed stream'],
  [{ rpcMethod: 'subscriptions/listen' }, 'listening stream'],
  [{ httpMethod: 'DELETE' }, 'end of the session'],
  [{ httpMethod: 'PATCH' }, 'PATCH'],
  [{ rpcMethod: undefined }, 'answer'],
])('%j is labelled "%s"', (exchange, label) => {
  expect(labelOf('shop', { httpMethod: 'POST', ...exchange })).toBe(label)
})

test.each([
  ['GET', 'load'],
  ['PUT', 'store'],
  ['DELETE', 'clear'],
])('%s at the debug state is labelled "%s"', (httpMethod, label) => {
  expect(labelOf(DEBUG_STATE, { httpMethod })).toBe(label)
})

import { stripVTControlCharacters } from 'node:util'
import { expect, test } from 'vitest'
import type { Exchange, Happening } from '../timeline/events.ts'
import { EMPTY_STATE, reduce } from '../timeline/state.ts'
import { Terminal } from './terminal.ts'

function written(happenings: readonly Happening[]): string[] {
  let text = ''
  let state = EMPTY_STATE
  const terminal = new Terminal((part) => (text += stripVTControlCharacters(part)))
  for (const happening of happenings) {
    const event = { ...happening, at: 1000 }
    state = reduce(state, event)
    terminal.event(event, state)
  }
  return text.split('\n').slice(0, -1)
}

const CALL: Exchange = {
  id: 1,
  from: 'agent',
  to: 'basket',
  kind: 'call',
  label: 'basket_add',
  httpMethod: 'POST',
  rpcMethod: 'tools/call',
  toolName: 'basket_add',
  startedAt: 1250,
  durationMs: 3.4,
  status: 200,
  requestBytes: 1,
  responseBytes: 1,
}

test('writes an exchange once, when it has ended, and a stream when it is opened', () => {
  const stream: Exchange = {
    ...CALL,
    id: 2,
    kind: 'stream',
    label: 'listening stream',
    httpMethod: 'GET',
    rpcMethod: undefined,
    toolName: undefined,
  }
  const lines = written([
    { type: 'exchange', exchange: { ...CALL, durationMs: undefined, status: undefined } },
    { type: 'exchange', exchange: CALL },
    { type: 'exchange', exchange: { ...stream, durationMs: undefined } },
    { type: 'exchange', exchange: stream },
  ])
  expect(lines).toEqual([
    '   0.3s agent > basket         call      basket_add               200     3 ms',
    '   0.3s agent > basket         stream    listening stream         200',
  ])
})

test('writes the text of an agent as a whole, before the call that follows it', () => {
  const lines = written([
    { type: 'run', run: { id: 'r', state: 'running' } },
    { type: 'item', item: { type: 'message', id: 'u', from: 'user', text: 'Hello' } },
    { type: 'item', item: { type: 'message', id: 'm', from: 'agent', agent: 'shopper', text: '' } },
    { type: 'text', id: 'm', text: 'One ' },
    { type: 'text', id: 'm', text: 'two' },
    {
      type: 'item',
      item: { type: 'tool-call', id: 'c', agent: 'shopper', name: 'add', args: { a: 1 } },
    },
    { type: 'item', item: { type: 'message', id: 'n', from: 'agent', agent: 'shopper', text: '' } },
    { type: 'text', id: 'n', text: 'Three' },
    { type: 'run', run: { id: 'r', state: 'done' } },
  ])
  expect(lines).toEqual([
    '  you         Hello',
    '  shopper     One two',
    '  shopper     calls add {"a":1}',
    '  shopper     Three',
  ])
})

test('writes what a supervisor repeats once', () => {
  const lines = written([
    {
      type: 'item',
      item: { type: 'message', id: 'a', from: 'agent', agent: 'shopper', text: 'Done' },
    },
    {
      type: 'item',
      item: { type: 'message', id: 'b', from: 'agent', agent: 'supervisor', text: 'Done' },
    },
  ])
  expect(lines).toEqual(['  shopper     Done'])
})

test('no line is wider than 80 columns, whatever is said', () => {
  const long = 'word '.repeat(100) + 'x'.repeat(300)
  const lines = written([
    { type: 'notice', level: 'info', text: long },
    { type: 'item', item: { type: 'tool-call', id: 'c', agent: 'a', name: 'n', args: { long } } },
    {
      type: 'exchange',
      exchange: { ...CALL, from: 'gateway', to: long, label: long, durationMs: 123_456 },
    },
  ])
  expect(lines.length).toBeGreaterThan(5)
  for (const line of lines) expect(line.length).toBeLessThanOrEqual(80)
  expect(lines.join('')).toContain('x'.repeat(60))
})

test('counts exchanges that look the same', () => {
  const lines = written([
    ...Array.from({ length: 50 }, (_, id): Happening => {
      return { type: 'exchange', exchange: { ...CALL, id } }
    }),
    { type: 'notice', level: 'info', text: 'Done' },
  ])
  expect(lines).toHaveLength(4)
  expect(lines.slice(2)).toEqual([
    '    +48 agent > basket         call      basket_add               200',
    '  playground  Done',
  ])
})

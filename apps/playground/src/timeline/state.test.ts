import { expect, test } from 'vitest'
import type { Exchange, Happening, Question, ServerState } from './events.ts'
import { EMPTY_STATE, reduce } from './state.ts'
import type { PlaygroundState } from './state.ts'

function after(
  happenings: readonly Happening[],
  start: PlaygroundState = EMPTY_STATE,
): PlaygroundState {
  return happenings.reduce((state, happening) => reduce(state, { ...happening, at: 7 }), start)
}

function exchange(id: number, rest: Partial<Exchange> = {}): Exchange {
  return {
    id,
    from: 'agent',
    to: 'shop',
    kind: 'call',
    label: 'basket_add',
    httpMethod: 'POST',
    startedAt: id,
    requestBytes: 0,
    responseBytes: 0,
    ...rest,
  }
}

test('keeps the newest state of a process, a server and an exchange at its place', () => {
  const server: ServerState = {
    name: 'shop',
    title: 'Shop',
    transport: 'http',
    state: 'starting',
    troubles: [],
  }
  const state = after([
    { type: 'server', server },
    { type: 'server', server: { ...server, name: 'memory' } },
    { type: 'exchange', exchange: exchange(1) },
    { type: 'exchange', exchange: exchange(2) },
    { type: 'server', server: { ...server, state: 'running' } },
    { type: 'exchange', exchange: exchange(1, { status: 200 }) },
  ])
  expect(state.servers.map((one) => [one.name, one.state])).toEqual([
    ['shop', 'running'],
    ['memory', 'starting'],
  ])
  expect(state.exchanges.map((one) => [one.id, one.status])).toEqual([
    [1, 200],
    [2, undefined],
  ])
})

const QUESTION: Question = {
  type: 'question',
  id: 'q',
  server: 'shop',
  message: 'Pay?',
  mode: 'form',
}

test('tells a conversation with text, progress, a result and a question', () => {
  const state = after([
    { type: 'item', item: { type: 'message', id: 'm', from: 'agent', text: 'One' } },
    { type: 'item', item: { type: 'tool-call', id: 'c', agent: 'shopper', name: 'add', args: {} } },
    { type: 'text', id: 'm', text: ' two' },
    { type: 'tool-call-changed', id: 'c', change: { progress: '50 %' } },
    { type: 'tool-call-changed', id: 'c', change: { result: { isError: false, content: [] } } },
    { type: 'item', item: QUESTION },
    { type: 'item', item: { ...QUESTION, action: 'accept' } },
    { type: 'run', run: { id: 'r', state: 'done' } },
  ])
  expect(state.conversation).toMatchObject([
    { type: 'message', text: 'One two' },
    { type: 'tool-call', progress: '50 %', result: { isError: false } },
    { type: 'question', action: 'accept' },
  ])
  expect(state.run?.state).toBe('done')
  expect(after([{ type: 'conversation', items: [] }], state)).toMatchObject({ conversation: [] })
})

test('ignores an event about an item that it does not have', () => {
  expect(after([{ type: 'text', id: 'none', text: 'x' }]).conversation).toEqual([])
})

test('keeps the last 2,000 exchanges and the last 20 notices', () => {
  const state = after([
    ...Array.from({ length: 2010 }, (_, index): Happening => {
      return { type: 'exchange', exchange: exchange(index + 1) }
    }),
    ...Array.from({ length: 25 }, (_, index): Happening => {
      return { type: 'notice', level: 'info', text: `Notice ${index + 1}` }
    }),
  ])
  expect(state.exchanges).toHaveLength(2000)
  expect(state.exchanges[0]?.id).toBe(11)
  expect(state.notices.map(({ text }) => text).at(0)).toBe('Notice 6')
  expect(state.notices).toHaveLength(20)
  // A late end of an exchange that is no longer kept does not come back as the newest one.
  const late = after([{ type: 'exchange', exchange: exchange(3, { status: 200 }) }], state)
  expect(late.exchanges.at(-1)?.id).toBe(2010)
})

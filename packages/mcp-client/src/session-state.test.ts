import { describe, expect, test } from 'vitest'
import { McpSession } from './mcp-session.ts'
import type { ServerConnection } from './requests.ts'
import { nextState, ServerHealth } from './session-state.ts'
import type { SlotEvent, SlotState } from './session-state.ts'

const [first, second] = [1, 2].map(
  (epoch) => new McpSession({ epoch, isResumed: false } as ServerConnection),
) as [McpSession, McpSession]
const before = { session: second, reason: 'The server no longer knew the session' }

const states = {
  created: { phase: 'created' },
  connecting: { phase: 'connecting' },
  handshaking: { phase: 'handshaking', before: undefined },
  recovering: { phase: 'handshaking', before },
  active: { phase: 'active', session: second },
  idle: { phase: 'idle', before },
  disposing: { phase: 'disposing' },
} as const satisfies Record<string, SlotState>

const events = {
  needed: { type: 'needed' },
  connected: { type: 'connected' },
  opened: { type: 'opened', session: second },
  failed: { type: 'failed' },
  ended: { type: 'ended', ...before },
  'ended, of an older session': { type: 'ended', ...before, session: first },
  disposing: { type: 'disposing' },
  disposed: { type: 'disposed' },
} as const satisfies Record<string, SlotEvent>

type StateName = keyof typeof states
type EventName = keyof typeof events

/** All transitions. Any other event changes nothing. */
const transitions: Record<StateName, Partial<Record<EventName, StateName>>> = {
  created: { needed: 'connecting' },
  connecting: { connected: 'handshaking', failed: 'created', disposing: 'disposing' },
  handshaking: { opened: 'active', failed: 'created', disposing: 'disposing' },
  recovering: { opened: 'active', failed: 'idle', disposing: 'disposing' },
  active: { ended: 'idle', disposing: 'disposing' },
  idle: { needed: 'recovering', disposing: 'disposing' },
  disposing: { disposed: 'created' },
}

const stateNames = Object.keys(states) as StateName[]
const eventNames = Object.keys(events) as EventName[]

describe.each(stateNames)('%s', (from) => {
  test.each(eventNames)('%s', (event) => {
    const to = transitions[from][event]
    const next = nextState(states[from], events[event])
    expect(next).toEqual(states[to ?? from])
    expect(next === states[from]).toBe(to === undefined) // an event without effect returns the same object
  })
})

test('waits before the second recovery in a row', () => {
  const health = new ServerHealth()
  const timing = { wait: () => Promise.resolve(), random: () => 1 }
  const delays = [1, 2].map(() => {
    health.lossesInRow++
    return health.delayMs(timing)
  })
  expect(delays).toEqual([0, 100])
})

import { describe, expect, test } from 'vitest'
import { nextState } from './session-state.ts'
import type { SessionEvent, SessionState } from './session-state.ts'
import type { Generation } from './generation.ts'

const first = { number: 1 } as Generation
const second = { number: 2 } as Generation

const states = {
  created: { phase: 'created' },
  connecting: { phase: 'connecting' },
  handshaking: { phase: 'handshaking', isFirst: true },
  recovering: { phase: 'handshaking', isFirst: false },
  active: { phase: 'active', generation: second },
  idle: { phase: 'idle' },
  disposing: { phase: 'disposing' },
} as const satisfies Record<string, SessionState>

const events = {
  needed: { type: 'needed' },
  connected: { type: 'connected' },
  opened: { type: 'opened', generation: second },
  failed: { type: 'failed' },
  ended: { type: 'ended', generation: second },
  'ended, of an older generation': { type: 'ended', generation: first },
  disposing: { type: 'disposing' },
  disposed: { type: 'disposed' },
} as const satisfies Record<string, SessionEvent>

type StateName = keyof typeof states
type EventName = keyof typeof events

/** Every transition there is. What is not here changes nothing. */
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
    expect(next === states[from]).toBe(to === undefined) // what changes nothing keeps the very object
  })
})

test('ignores a late end of an older generation', () => {
  const lost = nextState(
    { phase: 'active', generation: first },
    { type: 'ended', generation: first },
  )
  const recovering = nextState(lost, { type: 'needed' })
  const active = nextState(recovering, { type: 'opened', generation: second })
  expect(nextState(active, { type: 'ended', generation: first })).toBe(active)
})

import { TransportError } from '@x/mcp-transport'
import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest'
import type { Generation } from './generation.ts'
import { nextState, RecoveryGate, RecoveryHistory } from './session-state.ts'
import type { SessionEvent, SessionState } from './session-state.ts'

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

test('a certain loss proves nothing in a session that replaced a lost one, unless the request was not sent', () => {
  const history = new RecoveryHistory()
  const unproven = { number: 2, isUnproven: true } as Generation
  const unsent = new TransportError('SESSION_LOST', 'Gone', { certain: true })
  expect(history.assess(unproven, unsent)).toBe(unsent)
  expect(history.assess(unproven, unsent.with({ status: 404 }))).toMatchObject({ certain: false })
})

test('waits before the second recovery in a row of a child process', () => {
  const history = new RecoveryHistory()
  const timing = { wait: () => Promise.resolve(), random: () => 1 }
  const delays = [1, 2].map(() => {
    history.addDisconnect('its process ended with exit code 1')
    return history.delayMs(timing)
  })
  expect(delays).toEqual([0, 100])
})

describe('RecoveryGate', () => {
  beforeEach(() => vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] }))
  afterEach(() => vi.useRealTimers())

  const { signal } = new AbortController()

  function closedGate(): RecoveryGate {
    const gate = new RecoveryGate()
    gate.close()
    return gate
  }

  /** State of a wait after all pending callbacks have run. */
  async function stateOf(wait: Promise<void>): Promise<'held' | 'released'> {
    let state: 'held' | 'released' = 'held'
    void wait.then(() => (state = 'released'))
    await vi.advanceTimersByTimeAsync(0)
    return state
  }

  test('lets 64 calls through, and all after a response, until nothing is in flight', () => {
    const gate = closedGate()
    expect(gate.holds(63)).toBe(false)
    expect(gate.holds(64)).toBe(true)
    gate.open()
    expect(gate.holds(100_000)).toBe(false)
    gate.close()
    expect(gate.holds(64)).toBe(true)
  })

  test('releases all held calls when the first call ends', async () => {
    const gate = closedGate()
    const waits = [gate.opened(signal), gate.opened(signal)]
    gate.open()
    expect(await Promise.all(waits.map(stateOf))).toEqual(['released', 'released'])
    expect(vi.getTimerCount()).toBe(0)
  })

  test('holds no call longer than 200 ms', async () => {
    const gate = closedGate()
    const wait = gate.opened(signal)
    await vi.advanceTimersByTimeAsync(199)
    expect(await stateOf(wait)).toBe('held')
    await vi.advanceTimersByTimeAsync(1)
    await new Promise(setImmediate)
    expect(await stateOf(wait)).toBe('released')
    expect(gate.holds(64)).toBe(false)
    expect(vi.getTimerCount()).toBe(0)
  })

  test('keeps holding the others when one call is aborted', async () => {
    const gate = closedGate()
    const controller = new AbortController()
    const left = gate.opened(controller.signal)
    const other = gate.opened(signal)
    controller.abort(new Error('enough'))
    await expect(left).rejects.toThrow('enough')
    expect(await stateOf(other)).toBe('held')
    gate.open()
    expect(await stateOf(other)).toBe('released')
  })
})

import { TransportError } from '@x/mcp-transport'
import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest'
import { McpSession } from './mcp-session.ts'
import type { ServerConnection } from './requests.ts'

function sessionOf(connection: { readonly sessionId?: string; readonly isResumed: boolean }) {
  return new McpSession({ epoch: 2, ...connection } as ServerConnection)
}

test('a certain loss proves nothing in a session that replaced a lost one, unless the request was not sent', () => {
  const session = sessionOf({ isResumed: false })
  const unsent = new TransportError('SESSION_LOST', 'Gone', { certain: true })
  const sent = unsent.with({ status: 404 })
  expect(session.assess(sent)).toBe(sent)
  session.isUnproven = true
  expect(session.assess(unsent)).toBe(unsent)
  expect(session.assess(sent)).toMatchObject({ certain: false })
})

describe('the gate', () => {
  beforeEach(() => vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] }))
  afterEach(() => vi.useRealTimers())

  const { signal } = new AbortController()

  /** A resumed session in which some calls are in flight. */
  function resumed(inFlight: number): McpSession {
    const session = sessionOf({ sessionId: 'one', isResumed: true })
    for (let calls = 0; calls < inFlight; calls++) session.enter()
    return session
  }

  /** State of a wait after all pending callbacks have run. */
  async function stateOf(wait: Promise<void>): Promise<'held' | 'released'> {
    let state: 'held' | 'released' = 'held'
    void wait.then(() => (state = 'released'))
    await vi.advanceTimersByTimeAsync(0)
    return state
  }

  test('lets 64 calls through, and all after a response, until nothing is in flight', () => {
    const session = resumed(63)
    expect(session.isHolding).toBe(false)
    session.enter()
    expect(session.isHolding).toBe(true)
    session.leave()
    session.enter()
    expect(session.isHolding).toBe(false)
    for (let calls = 0; calls < 64; calls++) session.leave()
    for (let calls = 0; calls < 64; calls++) session.enter()
    expect(session.isHolding).toBe(true)
  })

  test('is open in a new session, and in one that cannot be lost', () => {
    for (const session of [
      sessionOf({ sessionId: 'one', isResumed: false }),
      sessionOf({ isResumed: true }),
    ]) {
      for (let calls = 0; calls < 64; calls++) session.enter()
      expect(session.isHolding).toBe(false)
    }
  })

  test('releases all held calls when the first call ends', async () => {
    const session = resumed(64)
    const waits = [session.released(signal), session.released(signal)]
    session.leave()
    expect(await Promise.all(waits.map(stateOf))).toEqual(['released', 'released'])
    expect(vi.getTimerCount()).toBe(0)
  })

  test('holds no call longer than 200 ms', async () => {
    const session = resumed(64)
    const wait = session.released(signal)
    await vi.advanceTimersByTimeAsync(199)
    expect(await stateOf(wait)).toBe('held')
    await vi.advanceTimersByTimeAsync(1)
    await new Promise(setImmediate)
    expect(await stateOf(wait)).toBe('released')
    expect(session.isHolding).toBe(false)
    expect(vi.getTimerCount()).toBe(0)
  })

  test('keeps holding the others when one call is aborted', async () => {
    const session = resumed(64)
    const controller = new AbortController()
    const left = session.released(controller.signal)
    const other = session.released(signal)
    controller.abort(new Error('enough'))
    await expect(left).rejects.toThrow('enough')
    expect(await stateOf(other)).toBe('held')
    session.leave()
    expect(await stateOf(other)).toBe('released')
  })
})

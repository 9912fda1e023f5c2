import { describe, expect, test } from 'vitest'
import { LegacySession, randomBlock } from './legacy-session.ts'

function sessionWith(isResumed: boolean): LegacySession {
  return new LegacySession({ id: 'a', epoch: 1, protocolVersion: '2025-11-25', isResumed })
}

describe('the id of a call', () => {
  test('is its number, in a session that this connection opened', () => {
    const session = sessionWith(false)
    expect(session.wireId(3)).toBe(3)
    expect(session.callOf(3)).toBe(3)
  })

  test('is another number in a resumed session, where other processes have used the small ones', () => {
    const session = sessionWith(true)
    const id = session.wireId(3)
    expect(id).toBeGreaterThan(3)
    expect(session.callOf(id)).toBe(3)
    expect(sessionWith(true).callOf(id)).not.toBe(3)
    expect(session.callOf(3)).toBeLessThan(0)
  })

  test('is found also if the server returns it as a text', () => {
    const session = sessionWith(true)
    expect(session.callOf(String(session.wireId(3)))).toBe(3)
    expect(session.callOf('of another process')).toBeNaN()
  })

  test.each([0, 0.5, 0.999_999_999_999])('is a safe integer (random number %d)', (random) => {
    expect(Number.isSafeInteger(randomBlock(random) + 2 ** 30)).toBe(true)
  })
})

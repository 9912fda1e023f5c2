import { expect, test } from 'vitest'
import { shopRecord } from '../test/session-records.ts'
import { nextCopy } from './session-info-debug-state.ts'
import type { SessionCopy } from './session-info-debug-state.ts'

const notLoaded: SessionCopy = { phase: 'not-loaded' }
const cleared: SessionCopy = { phase: 'cleared' }
const loaded: SessionCopy = { phase: 'loaded', session: { sessionId: 'a' }, insteadOf: undefined }
const read = { type: 'read', session: { sessionId: 'stored' } } as const

test('uses the value read until a value is set', () => {
  expect(nextCopy(notLoaded, read)).toEqual({ phase: 'loaded', session: { sessionId: 'stored' } })
  expect(nextCopy(loaded, read)).toBe(loaded)
  expect(nextCopy(cleared, read)).toBe(cleared)
})

test.each([notLoaded, loaded, cleared])('is cleared by undefined, from %j', (copy) => {
  expect(nextCopy(copy, { type: 'set', session: undefined })).toEqual(cleared)
})

test('ignores the same id, and drops the record for another id', () => {
  const record = shopRecord()
  const copy = nextCopy(notLoaded, {
    type: 'set',
    session: { sessionId: 'session-1', record },
  })
  expect(nextCopy(copy, { type: 'set', session: { sessionId: 'session-1' } })).toBe(copy)
  expect(nextCopy(copy, { type: 'set', session: { sessionId: 'session-2' } })).toEqual({
    phase: 'loaded',
    session: { sessionId: 'session-2' },
  })
})

test('keeps a record without a session, because it holds the era', () => {
  const record = shopRecord({ sessionId: undefined })
  expect(nextCopy(loaded, { type: 'set', session: { sessionId: undefined, record } })).toEqual({
    phase: 'loaded',
    session: { sessionId: undefined, record },
  })
})

test('ignores late writes of a session that was superseded', () => {
  const copy = nextCopy(loaded, {
    type: 'superseded',
    session: { sessionId: 'winner' },
    insteadOf: 'a',
  })
  expect(nextCopy(copy, { type: 'set', session: { sessionId: 'a' } })).toBe(copy)
  expect(
    nextCopy(copy, {
      type: 'set',
      session: { sessionId: 'a', record: shopRecord({ sessionId: 'a' }) },
    }),
  ).toBe(copy)
  expect(nextCopy(copy, { type: 'set', session: { sessionId: 'b' } })).toEqual({
    phase: 'loaded',
    session: { sessionId: 'b' },
  })
})

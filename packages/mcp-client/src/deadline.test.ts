import { LONGEST_MS } from '@x/internal'
import { getEventListeners } from 'node:events'
import { afterEach, expect, test, vi } from 'vitest'
import { Deadline, DeadlineError } from './deadline.ts'

afterEach(() => {
  vi.useRealTimers()
})

test('aborts after the time limit, and says how long it was', () => {
  vi.useFakeTimers()
  using deadline = new Deadline(50)
  vi.advanceTimersByTime(49)
  expect(deadline.signal.aborted).toBe(false)
  vi.advanceTimersByTime(1)
  expect(deadline.signal.reason).toBeInstanceOf(DeadlineError)
  expect(deadline.signal.reason).toMatchObject({ message: 'No answer within 50 ms' })
})

test('aborts with the reason of the caller', () => {
  const caller = new AbortController()
  using deadline = new Deadline(1000, caller.signal)
  const reason = new Error('changed my mind')
  caller.abort(reason)
  expect(deadline.signal.reason).toBe(reason)
})

test('is aborted from the start if the caller is, with an Error as the reason', () => {
  using deadline = new Deadline(1000, AbortSignal.abort('enough'))
  expect(deadline.signal.aborted).toBe(true)
  expect(deadline.signal.reason).toEqual(new Error('enough'))
})

test('has at most the longest time of a timer left, also after progress', () => {
  using deadline = new Deadline(Infinity, undefined, Infinity)
  expect(deadline.leftMs).toBeLessThanOrEqual(LONGEST_MS)
  deadline.extend()
  expect(deadline.leftMs).toBeLessThanOrEqual(LONGEST_MS)
})

test('leaves no timer and no listener', () => {
  vi.useFakeTimers()
  const caller = new AbortController()
  {
    using deadline = new Deadline(1000, caller.signal)
    expect(deadline.signal.aborted).toBe(false)
    expect(vi.getTimerCount()).toBe(1)
    expect(getEventListeners(caller.signal, 'abort')).toHaveLength(1)
  }
  expect(vi.getTimerCount()).toBe(0)
  expect(getEventListeners(caller.signal, 'abort')).toEqual([])
})

test('starts the limit again on extend(), up to the maximum', () => {
  vi.useFakeTimers()
  using deadline = new Deadline(50, undefined, 120)
  vi.advanceTimersByTime(40)
  deadline.extend()
  vi.advanceTimersByTime(49)
  expect(deadline.signal.aborted).toBe(false)
  deadline.extend() // at 89 ms: 50 ms more would exceed the maximum
  vi.advanceTimersByTime(30)
  deadline.extend()
  expect(deadline.signal.aborted).toBe(false)
  vi.advanceTimersByTime(1)
  expect(deadline.signal.reason).toMatchObject({ message: expect.stringContaining('maximum time') })
})

test('does not extend without a maximum', () => {
  vi.useFakeTimers()
  using deadline = new Deadline(50)
  vi.advanceTimersByTime(40)
  deadline.extend()
  vi.advanceTimersByTime(10)
  expect(deadline.signal.aborted).toBe(true)
})

test.each([Infinity, LONGEST_MS + 1])('does not fire at once for %s ms', (timeoutMs) => {
  vi.useFakeTimers()
  using deadline = new Deadline(timeoutMs)
  vi.advanceTimersByTime(LONGEST_MS - 1)
  expect(deadline.signal.aborted).toBe(false)
})

test.each([0, -1, Number.NaN])('rejects a limit of %s ms', (timeoutMs) => {
  expect(() => new Deadline(timeoutMs)).toThrow(TypeError)
})

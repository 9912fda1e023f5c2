import { getEventListeners } from 'node:events'
import { afterEach, expect, test, vi } from 'vitest'
import { Deadline, DeadlineError, LONGEST_MS } from './deadline.ts'

afterEach(() => {
  vi.useRealTimers()
})

test('aborts when the time is up, and says how long that was', () => {
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

test('is aborted from the start where the caller was, and a reason that is no error becomes one', () => {
  using deadline = new Deadline(1000, AbortSignal.abort('enough'))
  expect(deadline.signal.aborted).toBe(true)
  expect(deadline.signal.reason).toEqual(new Error('enough'))
})

test('leaves no timer and no listener behind', () => {
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

test('extend() restarts the limit, up to the maximum time', () => {
  vi.useFakeTimers()
  using deadline = new Deadline(50, undefined, 120)
  vi.advanceTimersByTime(40)
  deadline.extend()
  vi.advanceTimersByTime(49)
  expect(deadline.signal.aborted).toBe(false)
  deadline.extend() // at 89 ms: 50 more would be too long
  vi.advanceTimersByTime(30)
  deadline.extend()
  expect(deadline.signal.aborted).toBe(false)
  vi.advanceTimersByTime(1)
  expect(deadline.signal.reason).toMatchObject({ message: expect.stringContaining('maximum time') })
})

test('extend() without a longest time changes nothing', () => {
  vi.useFakeTimers()
  using deadline = new Deadline(50)
  vi.advanceTimersByTime(40)
  deadline.extend()
  vi.advanceTimersByTime(10)
  expect(deadline.signal.aborted).toBe(true)
})

test.each([Infinity, LONGEST_MS + 1])('%s ms is long, not at once', (timeoutMs) => {
  vi.useFakeTimers()
  using deadline = new Deadline(timeoutMs)
  vi.advanceTimersByTime(LONGEST_MS - 1)
  expect(deadline.signal.aborted).toBe(false)
})

test.each([0, -1, Number.NaN])('%s ms is a mistake', (timeoutMs) => {
  expect(() => new Deadline(timeoutMs)).toThrow(TypeError)
})

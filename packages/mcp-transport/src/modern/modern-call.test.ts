import { expect, test } from 'vitest'
import { TransportError } from '../transport-error.ts'
import { Cancellation } from './modern-call.ts'

const first = new TransportError('CLOSED', 'The client cancelled the request')
const second = new TransportError('CLOSED', 'The transport was closed')

test('keeps the first reason', () => {
  const cancellation = new Cancellation()
  expect(cancellation.reason).toBeUndefined()
  cancellation.cancel(first)
  cancellation.cancel(second)
  expect(cancellation.reason).toBe(first)
  expect(cancellation.signal.reason).toBe(first)
})

test('aborts an existing signal once with the reason', () => {
  const cancellation = new Cancellation()
  const { signal } = cancellation
  expect(signal.aborted).toBe(false)
  let aborts = 0
  signal.addEventListener('abort', () => (aborts += 1))
  cancellation.cancel(first)
  cancellation.cancel(second)
  expect(aborts).toBe(1)
  expect(signal.reason).toBe(first)
  expect(cancellation.signal).toBe(signal)
})

test('a later signal is already aborted', () => {
  const cancellation = new Cancellation()
  cancellation.cancel(first)
  expect(cancellation.signal.aborted).toBe(true)
})

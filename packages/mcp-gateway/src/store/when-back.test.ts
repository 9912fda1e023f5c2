import { expect, test } from 'vitest'
import { ManualClock } from '../../test/manual-clock.ts'
import { GatewayError } from '../errors.ts'
import { whenBack } from './gateway-store.ts'

test('rejects with the error of the store when the signal aborts, and leaves no timer', async () => {
  const clock = new ManualClock()
  const stop = new AbortController()
  const away = new GatewayError('UNAVAILABLE', 'The store is away')
  let attempts = 0
  const attempt = (): Promise<never> => {
    attempts++
    return Promise.reject(away)
  }
  const result = whenBack(attempt, { clock, ms: 60_000, signal: stop.signal }).catch(
    (error: unknown) => error,
  )
  await new Promise(setImmediate)
  stop.abort()
  expect(await result).toBe(away)
  expect(attempts).toBe(1)
  expect(clock.pending).toBe(0)
})

import { DEFAULTS } from '../../test/settings.ts'
import { describe, expect, test } from 'vitest'

import { ManualClock } from '../../test/manual-clock.ts'
import { anonymousPrincipal } from '../internal/anonymous.ts'
import { slotOwnerOf, type Principal } from '../internal/principal.ts'
import { RunSlots } from './slots.ts'

const forEver = new AbortController().signal
const nobody = anonymousPrincipal()
const ada: Principal = { id: 'ada', scopes: [], isAnonymous: false, claims: {} }
const bob: Principal = { ...ada, id: 'bob' }

/** What became of calls, in the order in which it did. */
function callsOn(slots: RunSlots): {
  readonly told: string[]
  readonly call: (principal: string, name: string) => Promise<void>
} {
  const told: string[] = []
  return {
    told,
    call: (principal, name) =>
      slots.take(principal, forEver).then(
        () => void told.push(`${name} runs`),
        (error: unknown) => void told.push(`${name}: ${error instanceof Error ? error.name : ''}`),
      ),
  }
}

describe('a queue that is full', () => {
  test('takes a call of a principal with fewer, in place of the last of whoever has the most', async () => {
    const slots = new RunSlots(new ManualClock(), {
      ...DEFAULTS.runs,
      maxConcurrent: 1,
      maxQueued: 3,
    })
    const { told, call } = callsOn(slots)
    await slots.take('ada', forEver)
    const waiting = ['a1', 'a2', 'a3'].map((name) => call('ada', name))
    waiting.push(call('bob', 'b1'))
    await waiting[2]
    expect(told).toEqual(['a3: RunFailure'])
    expect(slots.size).toEqual({ taken: 1, queued: 3 })
    slots.release('ada')
    await waiting[0]
    expect(told.at(-1)).toBe('a1 runs')
  })

  test('takes no call of whoever has the most, nor one that would only turn it round', async () => {
    const slots = new RunSlots(new ManualClock(), {
      ...DEFAULTS.runs,
      maxConcurrent: 0,
      maxQueued: 2,
    })
    const { told, call } = callsOn(slots)
    void call('ada', 'a1')
    void call('bob', 'b1')
    await call('ada', 'a2')
    await call('eve', 'e1')
    expect(told).toEqual(['a2: RunFailure', 'e1: RunFailure'])
    expect(slots.size).toEqual({ taken: 0, queued: 2 })
  })

  test('of no places takes nobody', async () => {
    const slots = new RunSlots(new ManualClock(), {
      ...DEFAULTS.runs,
      maxConcurrent: 0,
      maxQueued: 0,
    })
    await expect(slots.take('ada', forEver)).rejects.toMatchObject({ reason: 'busy' })
  })
})

test('a slot is that of a principal, or of the network of callers without a name', () => {
  const of = (principal: Principal, address?: string): string => slotOwnerOf({ principal, address })
  expect(of(ada, '192.0.2.1')).toBe(of(ada, '192.0.2.2'))
  expect(of(ada, '192.0.2.1')).not.toBe(of(bob, '192.0.2.1'))
  expect(of(nobody, '192.0.2.1')).toBe(of(nobody, '::ffff:192.0.2.1'))
  expect(of(nobody, '192.0.2.1')).not.toBe(of(nobody, '192.0.2.2'))
  expect(of(nobody, '2001:db8::1')).toBe(of(nobody, '2001:db8::2'))
  expect(of(nobody)).toBe(of(nobody))
})

test('who waits too long gives up, and leaves nothing', async () => {
  const clock = new ManualClock()
  const slots = new RunSlots(clock, { ...DEFAULTS.runs, maxConcurrent: 0, queueTimeoutMs: 100 })
  const { told, call } = callsOn(slots)
  const calling = call('ada', 'a1')
  await clock.advance(100)
  await calling
  expect(told).toEqual(['a1: RunFailure'])
  expect(slots.size).toEqual({ taken: 0, queued: 0 })
})

import { deferred } from '@x/test-kit'
import { describe, expect, test } from 'vitest'
import { TransportError } from '../transport-error.ts'
import { followStream } from './follow-stream.ts'
import type { FollowOptions, FollowOutcome, StreamEnd } from './follow-stream.ts'

const reconnect = { firstMs: 1000, maxMs: 30_000, maxAttempts: 2 }
const nothing: StreamEnd = { kind: 'ended', progressed: false }
const something: StreamEnd = { kind: 'ended', progressed: true }

interface Followed {
  readonly outcome: FollowOutcome
  readonly attempts: readonly number[]
  readonly delays: readonly number[]
}

/** Plays the ends one after the other, and the last one for ever; waits for nothing. */
async function follow(
  ends: readonly StreamEnd[],
  more: Partial<FollowOptions> = {},
): Promise<Followed> {
  const attempts: number[] = []
  const delays: number[] = []
  const outcome = await followStream({
    cursor: {},
    reconnect,
    signal: new AbortController().signal,
    isBroken: false,
    random: () => 1,
    wait: async (ms) => void delays.push(ms),
    open: async (attempt) => {
      attempts.push(attempt)
      return ends[Math.min(attempts.length, ends.length) - 1] ?? nothing
    },
    ...more,
  })
  return { outcome, attempts, delays }
}

test('a stream that never brings anything is opened once, and again maxAttempts times', async () => {
  const { outcome, attempts } = await follow([nothing])
  expect(attempts).toEqual([0, 1, 2])
  expect(outcome).toEqual({ kind: 'exhausted', attempts: 2, error: undefined })
})

test('a stream that was read before waits first, and every opening counts', async () => {
  const { attempts, delays } = await follow([nothing], { isBroken: true })
  expect(attempts).toEqual([0, 1])
  expect(delays).toHaveLength(2)
})

test('zero attempts means none', async () => {
  const none = { ...reconnect, maxAttempts: 0 }
  expect((await follow([nothing], { reconnect: none })).attempts).toEqual([0])
  expect((await follow([nothing], { reconnect: none, isBroken: true })).attempts).toEqual([])
})

test('progress starts the count anew', async () => {
  const ends = [nothing, nothing, something, nothing, something, nothing, nothing]
  const { attempts } = await follow(ends)
  expect(attempts).toEqual([0, 1, 2, 3, 4, 5, 6])
})

test('the last reason is told', async () => {
  const error = new TransportError('UNREACHABLE', 'no connection')
  const { outcome } = await follow([nothing, nothing, { ...nothing, error }])
  expect(outcome).toEqual({ kind: 'exhausted', attempts: 2, error })
})

test('a refusal is the end, at once', async () => {
  const error = new TransportError('REJECTED', '405')
  expect(await follow([{ kind: 'refused', error }])).toMatchObject({
    outcome: { kind: 'refused', error },
    attempts: [0],
  })
  expect(await follow([something, { kind: 'refused', error }])).toMatchObject({
    outcome: { kind: 'refused' },
    attempts: [0, 1],
  })
})

describe('delays', () => {
  const many = { ...reconnect, maxAttempts: 12 }

  test('grow by half, up to a most', async () => {
    const { delays } = await follow([nothing], { reconnect: many })
    expect(delays.slice(0, 4)).toEqual([1000, 1500, 2250, 3375])
    expect(delays.at(-1)).toBe(30_000)
  })

  test('have some jitter', async () => {
    const { delays } = await follow([nothing], { random: () => 0 })
    expect(delays[0]).toBe(750)
  })

  test("the server's wish counts as it is", async () => {
    const { delays } = await follow([nothing], { cursor: { retryMs: 500 }, random: () => 0 })
    expect(delays).toEqual([500, 500])
  })

  test.each([
    [0, 100],
    [99, 100],
    [300_000, 300_000],
    [86_400_000, 300_000],
  ])('a wish of %d ms becomes %d ms', async (retryMs, expected) => {
    const { delays } = await follow([nothing], { cursor: { retryMs } })
    expect(delays[0]).toBe(expected)
  })

  test('our own are never a hot loop', async () => {
    const { delays } = await follow([nothing], { reconnect: { ...reconnect, firstMs: 0 } })
    expect(delays[0]).toBe(100)
  })
})

describe('an abort', () => {
  test('before the start opens nothing', async () => {
    const { outcome, attempts } = await follow([nothing], { signal: AbortSignal.abort() })
    expect({ outcome, attempts }).toEqual({ outcome: { kind: 'stopped' }, attempts: [] })
  })

  test('during a stream ends it without another', async () => {
    const stop = new AbortController()
    const { signal } = stop
    const open = async (): Promise<StreamEnd> => {
      stop.abort()
      return something
    }
    await expect(follow([], { signal, open })).resolves.toMatchObject({
      outcome: { kind: 'stopped' },
      delays: [],
    })
  })

  test('ends a real wait at once', async () => {
    const stop = new AbortController()
    const opened = deferred()
    const following = followStream({
      cursor: { retryMs: 300_000 },
      reconnect,
      signal: stop.signal,
      isBroken: false,
      open: async () => {
        opened.resolve()
        return nothing
      },
    })
    await opened.promise
    stop.abort()
    await expect(following).resolves.toEqual({ kind: 'stopped' })
  })
})

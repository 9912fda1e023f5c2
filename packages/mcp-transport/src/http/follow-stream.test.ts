import { deferred } from '@x/mcp-testing'
import { describe, expect, test, vi } from 'vitest'
import { TransportError } from '../transport-error.ts'
import { followStream, pause, parseCursor, cursorHeaders } from './follow-stream.ts'
import type { FollowOptions, FollowOutcome, StreamEnd, StreamTrouble } from './follow-stream.ts'

describe('follow stream', () => {
  const reconnect = { firstMs: 1000, maxMs: 30_000, maxAttempts: 2 }
  const nothing: StreamEnd = { kind: 'ended', progressed: false }
  const something: StreamEnd = { kind: 'ended', progressed: true }

  interface Followed {
    readonly outcome: FollowOutcome
    readonly attempts: readonly number[]
    readonly delays: readonly number[]
  }

  /** Ends its streams with the given ends, and repeats the last one. Does not wait. */
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

  test('opens a stream without progress once, and maxAttempts times more', async () => {
    const { outcome, attempts } = await follow([nothing])
    expect(attempts).toEqual([0, 1, 2])
    expect(outcome).toEqual({ kind: 'exhausted', attempts: 2, error: undefined })
  })

  test('waits before the first opening of a broken stream, and counts every opening', async () => {
    const { attempts, delays } = await follow([nothing], { isBroken: true })
    expect(attempts).toEqual([0, 1])
    expect(delays).toHaveLength(2)
  })

  test('does not reopen a stream with maxAttempts: 0', async () => {
    const none = { ...reconnect, maxAttempts: 0 }
    expect((await follow([nothing], { reconnect: none })).attempts).toEqual([0])
    expect((await follow([nothing], { reconnect: none, isBroken: true })).attempts).toEqual([])
  })

  test('resets the count of attempts after progress', async () => {
    const ends = [nothing, nothing, something, nothing, something, nothing, nothing]
    const { attempts } = await follow(ends)
    expect(attempts).toEqual([0, 1, 2, 3, 4, 5, 6])
  })

  test.each([
    [9_999, [0, 1, 2]],
    [10_000, [0, 1, 2, 3, 4]],
  ])('counts a quiet stream that was open for 10 s as progress (%d ms)', async (ms, expected) => {
    vi.useFakeTimers({ toFake: ['performance'] })
    const attempts: number[] = []
    await follow([], {
      open: async (attempt) => {
        attempts.push(attempt)
        if (attempt < 3) vi.advanceTimersByTime(ms)
        return { ...nothing, wasOpen: true }
      },
    })
    vi.useRealTimers()
    expect(attempts).toEqual(expected)
  })

  test('returns the last error', async () => {
    const error = new TransportError('UNREACHABLE', 'no connection')
    const { outcome } = await follow([nothing, nothing, { ...nothing, error }])
    expect(outcome).toEqual({ kind: 'exhausted', attempts: 2, error })
  })

  describe('slow mode', () => {
    const wasOpen: StreamEnd = { ...nothing, wasOpen: true }
    const refused = (code: 'REJECTED' | 'UNAUTHORIZED'): StreamEnd => ({
      kind: 'refused',
      error: new TransportError(code, 'no'),
    })

    /** Follows until the given number of openings. */
    async function followSlowly(
      ends: readonly StreamEnd[],
      openings: number,
    ): Promise<Followed & { readonly troubles: readonly StreamTrouble[] }> {
      const stop = new AbortController()
      const troubles: StreamTrouble[] = []
      let opened = 0
      const followed = await follow(ends, {
        signal: stop.signal,
        slowly: { onTrouble: (trouble) => troubles.push(trouble), onWaiting: () => {} },
        open: async () => {
          opened += 1
          if (opened === openings) stop.abort()
          return ends[Math.min(opened, ends.length) - 1] ?? nothing
        },
      })
      return { ...followed, troubles }
    }

    test('reports the outage once and goes on with growing delays, at most five minutes', async () => {
      const { outcome, delays, troubles } = await followSlowly([wasOpen, nothing], 12)
      expect(outcome).toEqual({ kind: 'stopped' })
      expect(troubles).toEqual([{ kind: 'exhausted', attempts: 2, error: undefined }])
      expect(delays.slice(0, 4)).toEqual([1000, 1500, 30_000, 45_000])
      expect(delays.at(-1)).toBe(300_000)
    })

    test('reports each outage, and begins each one with quick attempts', async () => {
      const outage = [nothing, nothing, nothing]
      const { delays, troubles } = await followSlowly([wasOpen, ...outage, something, ...outage], 9)
      expect(troubles).toHaveLength(2)
      expect(delays).toEqual([1000, 1500, 30_000, 45_000, 1000, 1500, 30_000, 45_000])
    })

    test('continues after a refusal of a stream that was open before', async () => {
      const { troubles, delays } = await followSlowly([wasOpen, refused('REJECTED')], 4)
      expect(troubles).toMatchObject([{ kind: 'refused', error: { code: 'REJECTED' } }])
      expect(delays).toEqual([1000, 30_000, 45_000])
    })

    test('repeats a stream that was refused for its credentials only after another response of the server', async () => {
      const { delays } = await followSlowly([wasOpen, refused('UNAUTHORIZED')], 3)
      expect(delays).toEqual([1000, Number.POSITIVE_INFINITY])
    })

    test('ends when the server refuses the first stream', async () => {
      const { outcome, troubles } = await followSlowly([refused('REJECTED')], 3)
      expect(outcome).toMatchObject({ kind: 'refused' })
      expect(troubles).toEqual([])
    })

    test('ends after a broken stream with maxAttempts: 0', async () => {
      const none = { ...reconnect, maxAttempts: 0 }
      const slowly = { onTrouble: () => {}, onWaiting: () => {} }
      const { outcome, attempts } = await follow([wasOpen], { reconnect: none, slowly })
      expect([outcome, attempts]).toEqual([{ kind: 'exhausted', attempts: 0 }, [0]])
    })

    test('reopens early when the server answers again, but not immediately', async () => {
      vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout', 'performance'] })
      try {
        const stop = new AbortController()
        let wake: (() => void) | undefined
        const at: number[] = []
        const following = followStream({
          cursor: {},
          reconnect: { firstMs: 100, maxMs: 10_000, maxAttempts: 1 },
          signal: stop.signal,
          isBroken: false,
          random: () => 1,
          wait: (ms, signal, slowly) =>
            slowly === undefined ? Promise.resolve() : pause(ms, signal, slowly),
          slowly: { onTrouble: () => {}, onWaiting: (now) => (wake = now) },
          open: async () => {
            at.push(performance.now())
            return nothing
          },
        })
        await vi.advanceTimersByTimeAsync(100)
        expect(at).toHaveLength(2)
        wake?.()
        await vi.advanceTimersByTimeAsync(899)
        expect(at).toHaveLength(2)
        await vi.advanceTimersByTimeAsync(1)
        expect(at).toHaveLength(3)
        await vi.advanceTimersByTimeAsync(14_999)
        expect(at).toHaveLength(3)
        await vi.advanceTimersByTimeAsync(1)
        expect(at).toHaveLength(4)
        stop.abort()
        expect(await following).toEqual({ kind: 'stopped' })
        expect(vi.getTimerCount()).toBe(0)
      } finally {
        vi.useRealTimers()
      }
    })
  })

  test('ends immediately after a refusal', async () => {
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

    test('grow by half, up to a maximum', async () => {
      const { delays } = await follow([nothing], { reconnect: many })
      expect(delays.slice(0, 4)).toEqual([1000, 1500, 2250, 3375])
      expect(delays.at(-1)).toBe(30_000)
    })

    test('have random jitter', async () => {
      const { delays } = await follow([nothing], { random: () => 0 })
      expect(delays[0]).toBe(750)
    })

    test('are the delay that the server asks for', async () => {
      const { delays } = await follow([nothing], { cursor: { retryMs: 500 }, random: () => 0 })
      expect(delays).toEqual([500, 500])
    })

    test.each([
      [0, 100],
      [99, 100],
      [300_000, 300_000],
      [86_400_000, 300_000],
    ])('convert a requested delay of %d ms to %d ms', async (retryMs, expected) => {
      const { delays } = await follow([nothing], { cursor: { retryMs } })
      expect(delays[0]).toBe(expected)
    })

    test('are at least 100 ms', async () => {
      const { delays } = await follow([nothing], { reconnect: { ...reconnect, firstMs: 0 } })
      expect(delays[0]).toBe(100)
    })
  })

  describe('an abort', () => {
    test('before the start opens no stream', async () => {
      const { outcome, attempts } = await follow([nothing], { signal: AbortSignal.abort() })
      expect({ outcome, attempts }).toEqual({ outcome: { kind: 'stopped' }, attempts: [] })
    })

    test('during a stream ends that stream and opens no other', async () => {
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
})

describe('stream cursor', () => {
  test.each([
    ['an id', 'e1', 'e1'],
    ['an empty one resets', '', undefined],
    ['beyond ASCII', 'é→', 'é→'],
    ['a tab', 'a\tb', undefined],
    ['a line break', 'a\r\nx: y', undefined],
    ['4 KiB', 'a'.repeat(4096), 'a'.repeat(4096)],
    ['more than 4 KiB', 'a'.repeat(4097), undefined],
  ])('%s', (_name, eventId, cursor) => {
    expect(parseCursor(eventId)).toBe(cursor)
  })

  test('sends a cursor as UTF-8', () => {
    expect(cursorHeaders({ lastEventId: 'é→' })).toEqual([
      'last-event-id',
      String.fromCodePoint(...Buffer.from('é→', 'utf8')),
    ])
  })

  test('sends no header without a cursor', () => {
    expect(cursorHeaders({})).toEqual([])
    expect(cursorHeaders({ lastEventId: 'a\nb' })).toEqual([])
  })
})

import { setImmediate } from 'node:timers/promises'
import { deferred } from '@x/mcp-testing'
import { describe, expect, test, vi } from 'vitest'
import { TransportError } from '../transport-error.ts'
import { followStream, parseCursor, cursorHeaders } from './follow-stream.ts'
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
      endless: undefined,
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

  describe('an endless stream', () => {
    const wasOpen: StreamEnd = { ...nothing, wasOpen: true }
    const never = (): Promise<void> => Promise.reject(new Error('There is no other request'))
    const refused = (code: 'REJECTED' | 'UNAUTHORIZED'): StreamEnd => ({
      kind: 'refused',
      error: new TransportError(code, 'no'),
    })

    /** Follows until the given number of openings. */
    async function followOn(
      ends: readonly StreamEnd[],
      openings: number,
    ): Promise<Followed & { readonly troubles: readonly StreamTrouble[] }> {
      const stop = new AbortController()
      const troubles: StreamTrouble[] = []
      let opened = 0
      const followed = await follow(ends, {
        signal: stop.signal,
        endless: { onTrouble: (trouble) => troubles.push(trouble), nextAnswer: never },
        open: async () => {
          opened += 1
          if (opened === openings) stop.abort()
          return ends[Math.min(opened, ends.length) - 1] ?? nothing
        },
      })
      return { ...followed, troubles }
    }

    test('is reported once per outage, and reopened with delays that grow to maxMs', async () => {
      const { outcome, delays, troubles } = await followOn([wasOpen, nothing], 12)
      expect(outcome).toEqual({ kind: 'stopped' })
      expect(troubles).toEqual([{ kind: 'exhausted', attempts: 2, error: undefined }])
      expect(delays.slice(0, 4)).toEqual([1000, 1500, 2250, 3375])
      expect(delays.at(-1)).toBe(30_000)
    })

    test('begins each outage with the first delay', async () => {
      const outage = [nothing, nothing, nothing]
      const { delays, troubles } = await followOn([wasOpen, ...outage, something, ...outage], 9)
      expect(troubles).toHaveLength(2)
      expect(delays).toEqual([1000, 1500, 2250, 3375, 1000, 1500, 2250, 3375])
    })

    test('continues after a refusal if it was open before', async () => {
      const { troubles, delays } = await followOn([wasOpen, refused('REJECTED')], 4)
      expect(troubles).toMatchObject([{ kind: 'refused', error: { code: 'REJECTED' } }])
      expect(delays).toEqual([1000, 1500, 2250])
    })

    test.each([
      ['a refusal of its credentials', refused('UNAUTHORIZED')],
      [
        'a request without a token',
        { ...nothing, error: new TransportError('UNAUTHORIZED', 'no') },
      ],
    ])('waits for another answer after %s', async (_what, end) => {
      const stop = new AbortController()
      const events: string[] = []
      const [asked, answered] = [deferred(), deferred()]
      const following = follow([], {
        signal: stop.signal,
        endless: {
          onTrouble: () => {},
          nextAnswer: () => {
            events.push('asked')
            asked.resolve()
            return answered.promise
          },
        },
        open: async () => {
          if (events.push('opened') > 3) stop.abort()
          return events.length === 1 ? wasOpen : end
        },
      })
      await Promise.race([asked.promise, following])
      await setImmediate()
      expect(events).toEqual(['opened', 'opened', 'asked'])
      answered.resolve()
      await following
      expect(events).toEqual(['opened', 'opened', 'asked', 'opened'])
    })

    test('ends when the server refuses it at first', async () => {
      const { outcome, troubles } = await followOn([refused('REJECTED')], 3)
      expect(outcome).toMatchObject({ kind: 'refused' })
      expect(troubles).toEqual([])
    })

    test('ends when it breaks with maxAttempts: 0', async () => {
      const none = { ...reconnect, maxAttempts: 0 }
      const endless = { onTrouble: () => {}, nextAnswer: never }
      const { outcome, attempts } = await follow([wasOpen], { reconnect: none, endless })
      expect([outcome, attempts]).toEqual([{ kind: 'exhausted', attempts: 0 }, [0]])
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

    test('are at least the delay that the server asks for', async () => {
      const { delays } = await follow([nothing], { cursor: { retryMs: 500 }, random: () => 0 })
      expect(delays).toEqual([500, 1125])
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

    test('follow Retry-After once, and then the delay of the stream again', async () => {
      const busy = new TransportError('REJECTED', 'busy', { retryAfterMs: 60_000 })
      const ends = [something, { ...nothing, error: busy }, something]
      const { delays } = await follow([...ends, nothing], { cursor: { retryMs: 500 } })
      expect(delays.slice(0, 3)).toEqual([500, 60_000, 500])
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
        endless: undefined,
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

import { expect, test } from 'vitest'

import { WrittenStreams } from './written-streams.ts'

function streamsOf(ttlMs: number): { streams: WrittenStreams; pass: (ms: number) => void } {
  let now = 0
  const streams = new WrittenStreams({ ttlMs, now: () => now })
  return {
    streams,
    pass: (ms) => {
      now += ms
    },
  }
}

test('a stream is known for as long as its last event is kept', () => {
  const { streams, pass } = streamsOf(100)
  streams.begin('lost', 'name of lost')
  streams.begin('long', 'name of long')
  pass(60)
  expect(streams.goOn('long')).toBe('name of long')
  pass(60)
  streams.begin('next', 'name of next')
  expect(streams.all).toEqual(['long', 'next'])
  expect(streams.goOn('lost')).toBeUndefined()
})

test('that an event was lost is known no longer than its stream', () => {
  const { streams } = streamsOf(100)
  streams.break('none')
  expect(streams.isBroken('none')).toBe(false)
  streams.begin('one', 'name')
  streams.break('one')
  expect(streams.isBroken('one')).toBe(true)
  streams.forget('one')
  expect([streams.isBroken('one'), streams.has('one')]).toEqual([false, false])
})

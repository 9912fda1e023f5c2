import { expect, test } from 'vitest'

import { ManualClock } from '../../test/manual-clock.ts'
import { anonymousPrincipal } from '../internal/principal.ts'
import { EventStream } from './event-stream.ts'
import { OpenStreams } from './open-streams.ts'
import type { Caller } from '../internal/principal.ts'

const KEEP_ALIVE_MS = 15_000
const from = (address?: string): Caller => ({ principal: anonymousPrincipal(), address })

function openStreams(clock = new ManualClock()): OpenStreams {
  return new OpenStreams(1, 2, clock)
}

test('has no limit for anonymous callers whose address is unknown', () => {
  const streams = openStreams()
  for (let n = 0; n < 10; n++) expect(streams.enter(from())).toBeDefined()
})

test('keeps every open stream open, and no stream that has ended', async () => {
  const clock = new ManualClock()
  const streams = openStreams(clock)
  const texts = ['', '', '', '']
  const all = texts.map((_, n) => {
    const stream = new EventStream()
    stream.connect({
      write: (text) => (texts[n] += text),
      end: () => undefined,
      writable: () => undefined,
    })
    streams.keepOpen(stream)
    return stream
  })
  all[1]?.end()
  await clock.advance(KEEP_ALIVE_MS)
  all[3]?.lose()
  all[0]?.end()
  await clock.advance(KEEP_ALIVE_MS)
  const comment = ': keepalive\n\n'
  expect(texts).toEqual([comment, '', comment + comment, comment])
  streams.close()
  expect(all.every(({ isClosed }) => isClosed)).toBe(true)
  await clock.advance(KEEP_ALIVE_MS)
  expect(texts[2]).toBe(comment + comment)
})

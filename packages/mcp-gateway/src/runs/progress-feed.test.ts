import { expect, test } from 'vitest'

import { deferred } from '@x/mcp-testing'

import { ManualClock, settled } from '../../test/manual-clock.ts'
import { ProgressFeed } from './progress-feed.ts'

interface Piece {
  readonly progress: number
  readonly message: string
}

test('joins pieces of text for `coalesceMs`, and numbers them', async () => {
  const clock = new ManualClock()
  const pieces: Piece[] = []
  const feed = new ProgressFeed((piece) => void pieces.push(piece), clock, 0)
  feed.text('Hel')
  feed.text('lo')
  await clock.advance(99)
  expect(pieces).toEqual([])
  await clock.advance(1)
  feed.line('Done: think')
  await settled()
  expect(pieces).toEqual([
    { progress: 1, message: 'Hello' },
    { progress: 2, message: 'Done: think' },
  ])
})

test('sends 2 KiB of text at once', async () => {
  const pieces: Piece[] = []
  const feed = new ProgressFeed((piece) => void pieces.push(piece), new ManualClock(), 0)
  feed.text('x'.repeat(2048))
  expect(pieces).toHaveLength(1)
})

test('sends a heartbeat every 15 s while the agent is silent', async () => {
  const clock = new ManualClock()
  const pieces: Piece[] = []
  const feed = new ProgressFeed((piece) => void pieces.push(piece), clock, 0)
  await clock.advance(14_999)
  expect(pieces).toEqual([])
  await clock.advance(15_001)
  expect(pieces.map(({ message }) => message)).toEqual([
    'Still working (15 s)',
    'Still working (30 s)',
  ])
  feed.stop({ flush: true })
  expect(clock.pending).toBe(0)
})

test('sends pending text before the result, and nothing after it', async () => {
  const clock = new ManualClock()
  const pieces: Piece[] = []
  const feed = new ProgressFeed((piece) => void pieces.push(piece), clock, 0)
  feed.text('the end')
  feed.stop({ flush: true })
  feed.text('too late')
  await clock.advance(60_000)
  expect(pieces).toEqual([{ progress: 1, message: 'the end' }])
})

test('sends text before the result that came while an earlier piece was being sent', () => {
  const pieces: Piece[] = []
  const feed = new ProgressFeed(
    (piece) => {
      pieces.push(piece)
      return deferred().promise
    },
    new ManualClock(),
    0,
  )
  feed.line('Accepted')
  feed.line('Done: think')
  feed.text('the end')
  feed.stop({ flush: true })
  expect(pieces).toEqual([
    { progress: 1, message: 'Accepted' },
    { progress: 2, message: 'Done: think' },
    { progress: 3, message: 'the end' },
  ])
})

test('drops progress for a slow client, and stores at most 64 KiB', async () => {
  const clock = new ManualClock()
  const pieces: Piece[] = []
  const taken = deferred()
  const feed = new ProgressFeed(
    (piece) => {
      pieces.push(piece)
      return taken.promise
    },
    clock,
    0,
  )
  feed.line('first')
  for (let count = 0; count < 1000; count += 1) feed.line(`${count}`.padEnd(1024))
  expect(pieces).toHaveLength(1)
  taken.resolve()
  await settled()
  expect(pieces.length).toBeLessThanOrEqual(65)
  expect(pieces.at(-1)?.message).toContain('999')
  expect(pieces.map(({ progress }) => progress)).toEqual(pieces.map((_, index) => index + 1))
})

test('stops after a send failed', async () => {
  const clock = new ManualClock()
  let sent = 0
  const feed = new ProgressFeed(
    () => {
      sent += 1
      return Promise.reject(new Error('socket closed'))
    },
    clock,
    0,
  )
  feed.line('one')
  await settled()
  feed.line('two')
  await clock.advance(60_000)
  expect(sent).toBe(1)
  expect(clock.pending).toBe(0)
})

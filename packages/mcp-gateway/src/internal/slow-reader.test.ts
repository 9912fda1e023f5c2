import { deferred } from '@x/mcp-testing'
import { expect, test } from 'vitest'

import { ManualClock, settled } from '../../test/manual-clock.ts'
import { watchedBody } from './watched-body.ts'

const MIB = 1_048_576

/** Events that come whether they are read or not, as those of a session do. */
function events(): {
  readonly response: Response
  readonly push: (bytes: number) => void
  readonly cancelled: Promise<void>
} {
  const cancelled = deferred()
  let controller: ReadableStreamDefaultController<Uint8Array> | undefined
  const body = new ReadableStream<Uint8Array>({
    start: (each) => void (controller = each),
    cancel: () => cancelled.resolve(),
  })
  return {
    response: new Response(body, { headers: { 'content-type': 'text/event-stream' } }),
    push: (bytes) => controller?.enqueue(new Uint8Array(bytes)),
    cancelled: cancelled.promise,
  }
}

test('ends a stream of events that is not read, where another server writes it', async () => {
  const clock = new ManualClock()
  const stream = events()
  const ends: string[] = []
  const { body } = watchedBody(stream.response, (end) => void ends.push(end), { clock })
  for (let n = 0; n < 4; n++) stream.push(MIB)
  await settled()
  await clock.advance(30_000)
  expect(ends).toEqual(['lost'])
  await stream.cancelled
  await expect(body?.getReader().read()).rejects.toThrow('too slowly')
  expect(clock.pending).toBe(0)
})

test('keeps a stream whose reader is behind for a while', async () => {
  const clock = new ManualClock()
  const stream = events()
  const ends: string[] = []
  const { body } = watchedBody(stream.response, (end) => void ends.push(end), { clock })
  for (let n = 0; n < 4; n++) stream.push(MIB)
  await settled()
  await clock.advance(20_000)
  const reader = body?.getReader()
  for (let n = 0; n < 4; n++) expect((await reader?.read())?.value).toHaveLength(MIB)
  await clock.advance(20_000)
  stream.push(1)
  expect((await reader?.read())?.value).toHaveLength(1)
  expect(ends).toEqual([])
  await reader?.cancel()
  expect(ends).toEqual(['lost'])
})

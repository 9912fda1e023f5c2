import { expect, test } from 'vitest'

import { ManualClock } from '../../test/manual-clock.ts'
import { EventStream } from '../mcp/event-stream.ts'
import { toReply } from '../mcp/reply.ts'
import { toResponse } from './web-edge.ts'

const MIB = 1_048_576

interface World {
  readonly clock: ManualClock
  readonly events: EventStream
  readonly ends: string[]
  readonly reader: ReadableStreamDefaultReader<Uint8Array> | undefined
}

function open(signal?: AbortSignal): World {
  const clock = new ManualClock()
  const events = new EventStream()
  const ends: string[] = []
  events.onClose((end) => ends.push(end))
  const { body } = toResponse({ status: 200, body: events }, signal, clock)
  return { clock, events, ends, reader: body?.getReader() }
}

test('ends a stream of events that another server does not read', async () => {
  const { clock, ends, events, reader } = open()
  for (let n = 0; n < 4; n++) events.write('x'.repeat(MIB))
  await clock.advance(30_000)
  expect(ends).toEqual(['lost'])
  await expect(reader?.read()).rejects.toThrow('too slowly')
  expect(clock.pending).toBe(0)
})

test('keeps a stream whose reader is behind for less than 30 s', async () => {
  const { clock, ends, events, reader } = open()
  for (let n = 0; n < 4; n++) events.write('x'.repeat(MIB))
  await clock.advance(20_000)
  for (let n = 0; n < 4; n++) expect((await reader?.read())?.value).toHaveLength(MIB)
  await clock.advance(20_000)
  events.write('x')
  expect((await reader?.read())?.value).toHaveLength(1)
  expect(ends).toEqual([])
  await reader?.cancel()
  expect(ends).toEqual(['lost'])
})

test('loses a stream when its request is aborted', () => {
  const leaving = new AbortController()
  const { ends } = open(leaving.signal)
  leaving.abort()
  expect(ends).toEqual(['lost'])
  expect(open(leaving.signal).ends).toEqual(['lost'])
})

test('passes the response of a library on, and cancels it when the client leaves', async () => {
  let isCancelled = false
  const body = new ReadableStream<Uint8Array>({
    start: (to) => to.enqueue(Buffer.from('data: a\n\n')),
    cancel: () => void (isCancelled = true),
  })
  const headers = { 'content-type': 'text/event-stream', 'x-own': '1' }
  const response = toResponse(toReply(new Response(body, { headers })))
  expect(response.headers.get('x-own')).toBe('1')
  const reader = response.body?.getReader()
  expect(Buffer.from((await reader?.read())?.value ?? []).toString()).toBe('data: a\n\n')
  await reader?.cancel()
  expect(isCancelled).toBe(true)
})

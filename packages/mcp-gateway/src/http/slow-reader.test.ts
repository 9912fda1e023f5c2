import { once } from 'node:events'
import { createServer } from 'node:http'
import { connect, type AddressInfo } from 'node:net'

import { deferred } from '@x/test-kit'
import { expect, test } from 'vitest'

import { ManualClock, settled } from '../../test/manual-clock.ts'
import { writeResponse } from './node-response.ts'
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

test('a client that does not read its stream loses it, and what waits for it is let go', async () => {
  const clock = new ManualClock()
  const stream = events()
  const written = deferred<boolean>()
  const server = createServer((_, outgoing) => {
    const gone = new AbortController()
    outgoing.on('close', () => gone.abort())
    const writing = { headers: { 'content-type': 'text/event-stream' }, signal: gone.signal, clock }
    writeResponse(outgoing, stream.response, writing).then(written.resolve, written.reject)
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo
  const socket = connect(port, '127.0.0.1')
  socket.pause().write('GET / HTTP/1.1\r\nhost: localhost\r\n\r\n')
  for (let n = 0; n < 32; n++) stream.push(MIB) // the system takes some of it for itself
  while (clock.pending === 0) await settled()
  await settled()
  await clock.advance(30_000)
  expect(await written.promise).toBe(false)
  await stream.cancelled
  expect(clock.pending).toBe(0)
  socket.on('error', () => undefined).destroy()
  server.close()
})

test('also where something else than this gateway serves', async () => {
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

test('a reader that is behind for a while loses nothing', async () => {
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

import { DEFAULTS } from '../../test/settings.ts'
import { once } from 'node:events'
import { createServer } from 'node:http'
import { connect, type AddressInfo, type Socket } from 'node:net'

import { deferred } from '@x/mcp-testing'
import { expect, test } from 'vitest'

import { listenOn } from './listening.ts'
import { nodeListener } from './node-listener.ts'
import { writeResponse } from './node-response.ts'
import type { LimitSettings } from '../options.ts'
import { UnreadBytes } from './unread-bytes.ts'

const MIB = 1_048_576

interface Stream extends Disposable {
  readonly socket: Socket
  readonly unread: UnreadBytes
  readonly push: (bytes: Uint8Array) => void
  readonly end: () => void
  /** Of the server's side. */
  readonly written: Promise<boolean>
  readonly cancelled: Promise<void>
}

/** A stream of events that come whether they are read or not, and a client that reads nothing yet. */
async function streamOf(limits?: Partial<LimitSettings>): Promise<Stream> {
  const unread = new UnreadBytes({ ...DEFAULTS.limits, ...limits })
  const written = deferred<boolean>()
  const cancelled = deferred()
  let controller: ReadableStreamDefaultController<Uint8Array> | undefined
  const body = new ReadableStream<Uint8Array>({
    start: (each) => void (controller = each),
    cancel: () => cancelled.resolve(),
  })
  const headers = { 'content-type': 'text/event-stream' }
  const server = createServer((_, outgoing) => {
    const gone = new AbortController()
    outgoing.on('close', () => gone.abort())
    writeResponse(outgoing, new Response(body, { headers }), {
      headers,
      signal: gone.signal,
      unread: () => unread.open('ada', () => outgoing.destroy()),
    })
      .finally(() => outgoing.end())
      .then(written.resolve, written.reject)
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const socket = connect((server.address() as AddressInfo).port, '127.0.0.1')
  socket.on('error', () => undefined).pause()
  socket.write('GET / HTTP/1.0\r\nhost: localhost\r\n\r\n')
  return {
    socket,
    unread,
    push: (bytes) => controller?.enqueue(bytes),
    end: () => controller?.close(),
    written: written.promise,
    cancelled: cancelled.promise,
    [Symbol.dispose]() {
      socket.destroy()
      server.close()
    },
  }
}

test('ends a stream of events when more wait for one connection than may', async () => {
  using stream = await streamOf({ unreadBytesPerConnection: 4 * MIB })
  for (let n = 0; n < 32; n++) stream.push(new Uint8Array(MIB)) // the system takes some of it for itself
  expect(await stream.written).toBe(false)
  await stream.cancelled
  expect(stream.unread.total).toBe(0)
})

test('keeps the order of events that waited, and holds nothing afterwards', async () => {
  using stream = await streamOf()
  const sizes = [10, 3 * MIB, 70_000, 5, 65_536, 8 * MIB, 1]
  const sent = sizes.map((size, n) => Buffer.alloc(size, n + 1))
  for (const bytes of sent) stream.push(bytes)
  stream.end()
  const chunks: Buffer[] = []
  stream.socket.on('data', (chunk: Buffer) => chunks.push(chunk)).resume()
  await once(stream.socket, 'close')
  const received = Buffer.concat(chunks)
  const body = received.subarray(received.indexOf('\r\n\r\n') + 4)
  expect(body.equals(Buffer.concat(sent))).toBe(true)
  expect(await stream.written).toBe(true)
  expect(stream.unread.total).toBe(0)
})

test('gives up a body that comes too slowly', async () => {
  const unexpected = (error: Error): never => {
    throw error
  }
  const listener = nodeListener({
    maxBodyBytes: MIB,
    bodyTimeoutMs: 50,
    isStreamed: () => false,
    unread: new UnreadBytes(DEFAULTS.limits),
    onError: unexpected,
    serve: async (exchange) => {
      const body = await exchange.readBody()
      return { response: new Response(body.ok ? 'all' : body.why, { status: 408 }) }
    },
  })
  const server = await listenOn({ host: '127.0.0.1', port: 0 }, listener, unexpected)
  const socket = connect(server.port, '127.0.0.1')
  socket.write('POST / HTTP/1.1\r\nhost: localhost\r\ncontent-length: 1000\r\n\r\n{')
  const chunks: Buffer[] = []
  for await (const chunk of socket) chunks.push(chunk as Buffer)
  const answer = Buffer.concat(chunks).toString()
  expect(answer).toMatch(/^HTTP\/1.1 408 /)
  expect(answer).toMatch(/connection: close/i)
  expect(answer).toContain('slow')
  await server.close()
})

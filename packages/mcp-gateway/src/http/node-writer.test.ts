import { once } from 'node:events'
import { createServer } from 'node:http'
import { connect, type AddressInfo, type Socket } from 'node:net'

import { deferred } from '@x/mcp-testing'
import { expect, test } from 'vitest'

import { EventStream, type StreamEnd } from '../mcp/event-stream.ts'
import type { Reply } from '../mcp/reply.ts'
import { writeReply } from './node-writer.ts'
import { UNREAD_LIMITS, UnreadBytes, type UnreadLimits } from './unread-bytes.ts'

const MIB = 1_048_576

interface World extends Disposable {
  readonly socket: Socket
  readonly unread: UnreadBytes
  readonly events: EventStream
  readonly closed: Promise<StreamEnd>
}

/** A stream of events, and a client that reads nothing yet. */
async function open(limits?: Partial<UnreadLimits>, reply?: Reply): Promise<World> {
  const unread = new UnreadBytes({ ...UNREAD_LIMITS, ...limits })
  const events = new EventStream()
  const closed = deferred<StreamEnd>()
  events.onClose(closed.resolve)
  const begun = deferred()
  const server = createServer((_, outgoing) => {
    const writing = { headers: undefined, account: 'ada', unread }
    void writeReply(outgoing, reply ?? { status: 200, body: events }, writing)
    begun.resolve()
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const socket = connect((server.address() as AddressInfo).port, '127.0.0.1')
  socket.on('error', () => undefined).pause()
  socket.write('GET / HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n')
  await begun.promise
  return {
    socket,
    unread,
    events,
    closed: closed.promise,
    [Symbol.dispose]() {
      socket.destroy()
      server.close()
    },
  }
}

/** Reads the head and the body that a client receives. */
async function received({ socket }: World): Promise<{ head: string; body: string }> {
  const chunks: Buffer[] = []
  socket.on('data', (chunk: Buffer) => chunks.push(chunk)).resume()
  await once(socket, 'close')
  const [head = '', ...rest] = Buffer.concat(chunks).toString().split('\r\n\r\n')
  const isChunked = /transfer-encoding: chunked/i.test(head)
  const body = rest.join('\r\n\r\n')
  return { head: head.toLowerCase(), body: isChunked ? dechunked(body) : body }
}

function dechunked(body: string): string {
  const bytes = Buffer.from(body)
  let whole = ''
  for (let at = 0; ;) {
    const end = bytes.indexOf('\r\n', at)
    const size = Number.parseInt(bytes.subarray(at, end).toString(), 16)
    if (size === 0) return whole
    whole += bytes.subarray(end + 2, end + 2 + size).toString()
    at = end + 2 + size + 2
  }
}

const [FIRST, SECOND] = ['data: a\n\n', 'data: größer ✓\n\n']

test('sends events of one turn in one piece with their length', async () => {
  using world = await open()
  world.events.write(FIRST)
  world.events.write(SECOND)
  world.events.end()
  const { head, body } = await received(world)
  expect(head).toContain(`content-length: ${Buffer.byteLength(FIRST + SECOND)}`)
  expect(head).toContain('content-type: text/event-stream')
  expect(body).toBe(FIRST + SECOND)
  expect(await world.closed).toBe('ended')
})

test('sends later events as they come, and the head before them', async () => {
  using world = await open()
  const reading = received(world)
  world.events.write(FIRST)
  await new Promise(setImmediate)
  await new Promise(setImmediate)
  world.events.write(SECOND)
  world.events.end()
  const { head, body } = await reading
  expect(head).not.toContain('content-length')
  expect(body).toBe(FIRST + SECOND)
})

test('does not gather many events', async () => {
  using world = await open()
  for (let n = 0; n < 100; n++) world.events.write('x'.repeat(1000))
  world.events.end()
  const { head, body } = await received(world)
  expect(head).not.toContain('content-length')
  expect(body).toBe('x'.repeat(100_000))
})

test('leaves the connection to the server, whatever a library says about it', async () => {
  const events = new EventStream()
  const headers = { connection: 'keep-alive' }
  using world = await open({}, { status: 200, headers, body: events })
  events.end()
  expect((await received(world)).head).toContain('connection: close')
})

test('ends a stream when more bytes wait for one connection than the limit', async () => {
  using world = await open({ unreadBytesPerConnection: 4 * MIB })
  // The operating system takes some of it.
  for (let n = 0; n < 32; n++) world.events.write('x'.repeat(MIB))
  expect(await world.closed).toBe('lost')
  expect(world.unread.total).toBe(0)
})

test('keeps the order of events that waited, and holds no bytes after them', async () => {
  using world = await open()
  const sizes = [10, 3 * MIB, 70_000, 5, 65_536, 8 * MIB, 1]
  const sent = sizes.map((size, n) => String.fromCodePoint(97 + n).repeat(size))
  for (const text of sent) world.events.write(text)
  world.events.end()
  const { body } = await received(world)
  expect(body === sent.join('')).toBe(true)
  expect(await world.closed).toBe('ended')
  expect(world.unread.total).toBe(0)
})

test('is closed only when the client has the whole stream', async () => {
  using world = await open()
  let end: StreamEnd | undefined
  world.events.onClose((how) => (end = how))
  world.events.write('x'.repeat(16 * MIB))
  world.events.end()
  await new Promise(setImmediate)
  expect([world.events.isClosed, end]).toEqual([true, undefined])
  world.socket.destroy()
  expect(await world.closed).toBe('lost')
})

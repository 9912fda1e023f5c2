import { once } from 'node:events'
import { createServer } from 'node:http'
import { connect, type AddressInfo } from 'node:net'
import { text } from 'node:stream/consumers'

import { deferred } from '@x/mcp-testing'
import { expect, test, vi } from 'vitest'

import type { BodyText, HttpExchange, Reply, RequestHeaders } from '../mcp/reply.ts'
import { nodeListener } from './node-edge.ts'
import { listenOn } from './server.ts'
import { UNREAD_LIMITS, UnreadBytes } from './unread-bytes.ts'

function unexpected(error: Error): never {
  throw error
}

const OPTIONS = {
  maxBodyBytes: 1_048_576,
  isStreamed: (path: string) => path === '/streamed',
  unread: new UnreadBytes(UNREAD_LIMITS),
  onError: unexpected,
}

/** Sends text to a server, and returns all that comes back. */
async function send(
  request: string,
  serve: (exchange: HttpExchange) => Promise<Reply>,
): Promise<string> {
  const listener = nodeListener({ ...OPTIONS, serve })
  const place = { host: '127.0.0.1', port: 0, writeTimeoutMs: 30_000 }
  const server = await listenOn(place, listener, unexpected)
  const socket = connect(server.port, '127.0.0.1')
  await once(socket, 'connect')
  socket.write(request)
  const answer = await text(socket)
  await server.close()
  return answer
}

const END = 'Connection: close\r\n\r\n'

test('gives the headers of a request as fetch does', async () => {
  const lines = [
    'Authorization: Bearer a',
    'authorization: Bearer b',
    'X-Own:  1 ',
    'Cookie: a=1',
    'Cookie: b=2',
  ]
  let headers: RequestHeaders = new Headers()
  await send(
    `GET /mcp?x=1 HTTP/1.1\r\nHost: localhost\r\n${lines.join('\r\n')}\r\n${END}`,
    async (exchange) => {
      headers = exchange.headers
      return { status: 200 }
    },
  )
  expect(headers.get('AUTHORIZATION')).toBe('Bearer a, Bearer b')
  expect(headers.get('absent')).toBeNull()
  expect(Object.fromEntries(headers.entries())).toMatchObject({
    host: 'localhost',
    'x-own': '1',
    cookie: 'a=1; b=2',
  })
})

test('makes a whole Request for those who need one', async () => {
  let request: Request | undefined
  await send(
    `GET /a/../b?x=1 HTTP/1.1\r\nHost: localhost\r\nX-Own: 1\r\n${END}`,
    async (exchange) => {
      request = exchange.request
      expect(exchange.request).toBe(request)
      return { status: 200 }
    },
  )
  expect([request?.method, request?.url]).toEqual(['GET', 'http://localhost/b?x=1'])
  expect(request?.headers.get('x-own')).toBe('1')
  expect(await request?.text()).toBe('')
})

test('gives up a body that arrives too slowly, and ends its connection', async () => {
  const head = 'POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000\r\n\r\n{'
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] })
  const answer = await send(head, async (exchange) => {
    const reading = exchange.readBody()
    vi.advanceTimersByTime(20_000)
    vi.useRealTimers()
    const body = await reading
    return { status: 408, body: JSON.stringify(body.ok ? 'all' : body.why) }
  })
  expect(answer).toMatch(/^HTTP\/1.1 408 /)
  expect(answer).toMatch(/connection: close/i)
  expect(answer).toMatch(/"slow"$/)
})

test('does not wait for the body of a client that has left', async () => {
  const begun = deferred()
  const read = deferred<BodyText>()
  const serve = async (exchange: HttpExchange): Promise<Reply> => {
    begun.resolve()
    await once(exchange.signal, 'abort')
    read.resolve(await exchange.readBody())
    return { status: 200 }
  }
  const place = { host: '127.0.0.1', port: 0, writeTimeoutMs: 30_000 }
  const server = await listenOn(place, nodeListener({ ...OPTIONS, serve }), unexpected)
  const socket = connect(server.port, '127.0.0.1')
  socket.write('POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n\r\n{}')
  await begun.promise
  socket.destroy()
  expect(await read.promise).toEqual({ ok: false, why: 'broken' })
  await server.close()
})

test('aborts the signal of a request if its client leaves before the reply', async () => {
  const signals: AbortSignal[] = []
  const server = createServer(
    nodeListener({
      ...OPTIONS,
      serve: async ({ signal, url }) => {
        signals.push(signal)
        if (url.endsWith('/leave')) await once(signal, 'abort')
        return { status: 200 }
      },
    }),
  )
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo
  await (await fetch(`http://127.0.0.1:${port}/stay`)).text()
  const leaving = new AbortController()
  const answer = fetch(`http://127.0.0.1:${port}/leave`, { signal: leaving.signal })
  await expect.poll(() => signals.length).toBe(2)
  leaving.abort()
  await expect(answer).rejects.toThrow('aborted')
  const [stayed, left] = signals
  await expect.poll(() => left?.aborted).toBe(true)
  expect(stayed?.aborted).toBe(false)
  server.close()
})

// Requests that a server can or cannot have executed, on real sockets.
import { once } from 'node:events'
import { createServer } from 'node:net'
import type { AddressInfo, Server, Socket } from 'node:net'
import { deferred } from '@x/mcp-testing'
import type { Dispatcher } from 'undici'
import { describe, expect, test } from 'vitest'
import { createDispatcher } from '../src/index.ts'
import { rawClient } from './raw-client.ts'
import type { RawClient } from './raw-client.ts'

const ANSWER = 'HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: '
const LARGE = 'x'.repeat(16 * 1024 * 1024) // larger than the buffers of a connection

test.each([
  ['resets', (socket: Socket) => socket.resetAndDestroy()],
  ['closes', (socket: Socket) => socket.end()],
])(
  'reports a request as not executed if the server %s the connection before it has the whole request',
  async (_name, end) => {
    await using server = await startServer((socket) => {
      socket.once('data', () => {
        socket.pause()
        end(socket)
      })
    })
    await using client = clientOf(server)
    await expect(client.failureOf('tools/call', { LARGE })).resolves.toMatchObject({
      code: 'UNREACHABLE',
      message: expect.stringContaining('before the whole request was sent'),
    })
  },
)

test.each([
  ['resets', (socket: Socket) => socket.resetAndDestroy()],
  ['closes', (socket: Socket) => socket.end()],
])(
  'reports an unknown outcome if the server %s the connection after the whole request',
  async (_name, end) => {
    await using server = await startServer((socket) => {
      socket.on('data', (chunk) => {
        if (chunk.includes('tools/call')) end(socket)
      })
    })
    await using client = clientOf(server)
    await expect(client.failureOf('tools/call')).resolves.toHaveProperty('code', 'OUTCOME_UNKNOWN')
  },
)

describe('with an interceptor that reports the start of a request together with its response', () => {
  test('reports an unknown outcome if the server closes the connection after the whole request', async () => {
    await using server = await startServer((socket) => {
      socket.on('data', (chunk) => {
        if (chunk.includes('tools/call')) socket.end()
      })
    })
    await using client = clientOf(server, createDispatcher().compose(reportLate))
    await expect(client.failureOf('tools/call')).resolves.toMatchObject({
      code: 'OUTCOME_UNKNOWN',
      outcome: 'unknown',
    })
  })

  test('reports an unknown outcome if the dispatcher is destroyed during the request', async () => {
    const received = deferred()
    await using server = await startServer((socket) => {
      socket.on('data', () => received.resolve())
    })
    const dispatcher = createDispatcher()
    await using client = clientOf(server, dispatcher.compose(reportLate))
    const failure = client.failureOf('tools/call')
    await received.promise
    await dispatcher.destroy()
    await expect(failure).resolves.toMatchObject({ code: 'CLOSED', outcome: 'unknown' })
  })

  test('reports a request without a connection as not executed', async () => {
    const server = await startServer(() => {})
    const { port } = server
    await server[Symbol.asyncDispose]()
    await using client = clientOf({ port }, createDispatcher().compose(reportLate))
    await expect(client.failureOf('tools/call')).resolves.toMatchObject({
      code: 'UNREACHABLE',
      outcome: 'not-executed',
    })
  })
})

/** Like an interceptor that buffers the events until it knows whether it sends the request again. */
const reportLate: Dispatcher.DispatcherComposeInterceptor = (dispatch) => (options, handler) => {
  let context: object = {}
  return dispatch(options, {
    onRequestStart(_controller, given) {
      context = given
    },
    onResponseStart(controller, ...head) {
      handler.onRequestStart?.(controller, context)
      handler.onResponseStart?.(controller, ...head)
    },
    onResponseData: (...data) => handler.onResponseData?.(...data),
    onResponseEnd: (...end) => handler.onResponseEnd?.(...end),
    onResponseError: (...error) => handler.onResponseError?.(...error),
  })
}

test.each([
  ['half-closed', (socket: Socket) => socket.end()],
  ['reset', (socket: Socket) => socket.resetAndDestroy()],
])(
  'does not use an idle connection that was %s, also before its end was noticed',
  async (_name, end) => {
    const received: string[] = []
    await using server = await startServer((socket) => {
      const n = sockets.push(socket)
      socket.on('data', (chunk) => {
        received.push(`${n}: ${/"method":"([^"]*)"/.exec(chunk.toString())?.[1]}`)
        const { id } = JSON.parse(chunk.toString().split('\r\n\r\n')[1] ?? '')
        const body = JSON.stringify({ jsonrpc: '2.0', id, result: {} })
        socket.write(`${ANSWER}${body.length}\r\n\r\n${body}`)
      })
    })
    const sockets: Socket[] = []
    await using client = clientOf(server)
    await client.request('ping')
    const [first] = sockets
    if (first === undefined) throw new Error('There was no connection')
    end(first) // this process has not read it before the next request
    await expect(client.request('tools/call')).resolves.toHaveProperty('result')
    expect(received).toEqual(['1: ping', '2: tools/call'])
  },
)

test('learns to close unused connections before a server does that does not announce its limit', async () => {
  const ends: string[] = []
  let ended = deferred()
  await using server = await startServer((socket) => {
    socket.on('data', (chunk) => {
      const { id } = JSON.parse(chunk.toString().split('\r\n\r\n')[1] ?? '')
      const body = JSON.stringify({ jsonrpc: '2.0', id, result: {} })
      socket.write(`${ANSWER}${body.length}\r\n\r\n${body}`)
      socket.setTimeout(700, () => {
        ends.push('server')
        socket.end()
      })
    })
    socket.once('end', () => {
      if (socket.writable) ends.push('client')
      ended.resolve()
    })
  })
  await using client = clientOf(server)
  // Two closings are enough, unless the machine is so busy that their times differ.
  while (ends.at(-1) !== 'client' && ends.length < 100) {
    ended = deferred()
    await client.request('tools/call')
    await ended.promise
  }
  expect(ends.slice(0, 2)).toEqual(['server', 'server'])
  expect(ends.at(-1)).toBe('client')
})

function clientOf(server: { readonly port: number }, dispatcher?: Dispatcher): RawClient {
  const url = `http://127.0.0.1:${server.port}/mcp`
  const options = { era: 'legacy', listen: false, dispatcher } as const
  return rawClient(url, options)
}

async function startServer(
  onSocket: (socket: Socket) => void,
): Promise<AsyncDisposable & { readonly port: number }> {
  const open = new Set<Socket>()
  const server: Server = createServer({ allowHalfOpen: true }, (socket) => {
    open.add(socket)
    socket.on('error', () => {})
    onSocket(socket)
  })
  await once(server.listen(0, '127.0.0.1'), 'listening')
  return {
    port: (server.address() as AddressInfo).port,
    async [Symbol.asyncDispose]() {
      for (const socket of open) socket.destroy()
      server.close()
      await once(server, 'close')
    },
  }
}

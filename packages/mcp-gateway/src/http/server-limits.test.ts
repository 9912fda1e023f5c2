import type { IncomingMessage } from 'node:http'
import { connect } from 'node:net'

import { expect, test } from 'vitest'

import { listenOn } from './listening.ts'

function unexpected(error: Error): never {
  throw error
}

test('a head that is too large is refused before anybody looks at it', async () => {
  let served = 0
  const server = await listenOn({ host: '127.0.0.1', port: 0 }, () => served++, unexpected)
  const socket = connect(server.port, '127.0.0.1')
  socket.write(`GET / HTTP/1.1\r\nhost: a\r\nx: ${'x'.repeat(20_000)}\r\n\r\n`)
  const answer = await new Promise<string>((resolve) => {
    socket.once('data', (data) => resolve(data.toString()))
  })
  expect(answer).toMatch(/^HTTP\/1.1 431 /)
  expect(served).toBe(0)
  socket.destroy()
  await server.close()
})

test('slow requests, silent connections and many headers have limits, whatever Node thinks of them', async () => {
  const place = { host: '127.0.0.1', port: 0 }
  let serving: unknown
  const server = await listenOn(
    place,
    (request: IncomingMessage, response) => {
      serving = Reflect.get(request.socket, 'server')
      response.end()
    },
    unexpected,
  )
  await (await fetch(`http://127.0.0.1:${server.port}`)).text()
  expect(serving).toMatchObject({
    headersTimeout: 8_000,
    requestTimeout: 300_000,
    keepAliveTimeout: 65_000,
    maxHeadersCount: 200,
  })
  await server.close()
})

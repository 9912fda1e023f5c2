import type { IncomingMessage } from 'node:http'
import { connect } from 'node:net'

import { expect, test } from 'vitest'

import { listenOn } from './server.ts'

const PLACE = { host: '127.0.0.1', port: 0, writeTimeoutMs: 30_000 }

function unexpected(error: Error): never {
  throw error
}

test('refuses a head that is too large without serving it', async () => {
  let served = 0
  const server = await listenOn(PLACE, () => served++, unexpected)
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

test('limits slow requests, silent connections and many headers, whatever the defaults of Node are', async () => {
  let serving: unknown
  const server = await listenOn(
    PLACE,
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

import { createServer } from 'node:http'
import { connect } from 'node:net'

import { expect, test } from 'vitest'

import { MAX_HEADERS_COUNT, MAX_REQUESTS_PER_SOCKET, SERVER_LIMITS } from './server-limits.ts'

test('a server has the limits it was made with, and refuses a head that is too large', async () => {
  const server = createServer(SERVER_LIMITS, (_request, response) => response.end())
  Object.assign(server, {
    maxHeadersCount: MAX_HEADERS_COUNT,
    maxRequestsPerSocket: MAX_REQUESTS_PER_SOCKET,
  })
  expect(server).toMatchObject({
    headersTimeout: 15_000,
    requestTimeout: 300_000,
    keepAliveTimeout: 65_000,
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const address = server.address()
  const port = typeof address === 'object' ? address?.port : undefined
  const socket = connect(port ?? 0, '127.0.0.1')
  socket.write(`GET / HTTP/1.1\r\nhost: a\r\nx: ${'x'.repeat(20_000)}\r\n\r\n`)
  const answer = await new Promise<string>((resolve) => {
    socket.once('data', (data) => resolve(data.toString()))
  })
  expect(answer).toMatch(/^HTTP\/1.1 431 /)
  socket.destroy()
  await new Promise((resolve) => server.close(resolve))
})

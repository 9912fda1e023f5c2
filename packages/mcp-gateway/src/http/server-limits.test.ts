import { connect } from 'node:net'

import { expect, test } from 'vitest'

import { listenOn } from './listening.ts'

test('a head that is too large is refused before anybody looks at it', async () => {
  let served = 0
  const server = await listenOn(
    { host: '127.0.0.1', port: 0 },
    () => served++,
    (error) => {
      throw error
    },
  )
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

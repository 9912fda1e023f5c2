import { expect, test } from 'vitest'
import { deferred } from '@x/internal/testing'
import { startTestServer } from './loopback-server.ts'

test('a restart is a crash: open requests break, the port stays', async () => {
  const arrived = deferred()
  await using server = await startTestServer((request, response) => {
    if (request.method === 'GET') response.end('back')
    else arrived.resolve()
  })
  const open = fetch(server.url, { method: 'POST' })
  await arrived.promise
  await server.restart()
  await expect(open).rejects.toMatchObject({ cause: { code: 'ECONNRESET' } })
  const response = await fetch(server.url)
  await expect(response.text()).resolves.toBe('back')
  expect(server.connections).toBe(2)
})

test('a restart closes also a connection that the server is ending', async () => {
  const closed = deferred()
  await using server = await startTestServer(({ socket }) => {
    socket.once('close', () => closed.resolve())
    socket.end()
    void server.restart()
  })
  await expect(fetch(server.url)).rejects.toThrow('fetch failed')
  await expect(closed.promise).resolves.toBeUndefined()
})

test('disposing does not wait for requests that hang', async () => {
  const arrived = deferred()
  const server = await startTestServer(() => arrived.resolve())
  const answer = fetch(server.url)
  await arrived.promise
  await server[Symbol.asyncDispose]()
  await expect(answer).rejects.toThrow('fetch failed')
  await server[Symbol.asyncDispose]()
})

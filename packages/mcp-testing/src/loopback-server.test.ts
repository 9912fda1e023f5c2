import { once } from 'node:events'
import { connect } from 'node:net'
import { expect, test } from 'vitest'
import { deferred } from '@x/internal/testing'
import { startGuardedServer } from './guarded-server.ts'
import { startLegacyServer } from './legacy-server.ts'
import { startTestServer } from './loopback-server.ts'
import { startModernServer } from './modern-server.ts'
import { startRecordingProxy } from './proxy/recording-proxy.ts'
import { startReplaceableServer } from './replaceable-server.ts'

test('breaks open requests and keeps the port in a restart', async () => {
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

test('resets in a restart also a connection that is idle', async () => {
  await using server = await startTestServer((_request, response) => response.end('here'))
  const { port, host } = new URL(server.url)
  const socket = connect(Number(port), '127.0.0.1')
  const ended = deferred<string>()
  socket.once('end', () => ended.resolve('an orderly end'))
  socket.once('error', ({ message }) => ended.resolve(message))
  socket.write(`GET /mcp HTTP/1.1\r\nHost: ${host}\r\n\r\n`)
  await once(socket, 'data')
  await server.restart()
  await expect(ended.promise).resolves.toContain('ECONNRESET')
})

test('closes in a restart also a connection that it is ending', async () => {
  const closed = deferred()
  await using server = await startTestServer(({ socket }) => {
    socket.once('close', () => closed.resolve())
    socket.end()
    void server.restart()
  })
  await expect(fetch(server.url)).rejects.toThrow('fetch failed')
  await expect(closed.promise).resolves.toBeUndefined()
})

test('does not wait for open requests when it is disposed of', async () => {
  const arrived = deferred()
  const server = await startTestServer(() => arrived.resolve())
  const answer = fetch(server.url)
  await arrived.promise
  await server[Symbol.asyncDispose]()
  await expect(answer).rejects.toThrow('fetch failed')
  await server[Symbol.asyncDispose]()
})

test.each([
  ['a server of one handler', () => startTestServer((_, response) => response.end())],
  ['a legacy server', () => startLegacyServer()],
  ['a modern server', () => startModernServer()],
  ['a guarded server', async () => startGuardedServer(await startLegacyServer())],
  ['a replaceable server', () => startReplaceableServer('legacy')],
  ['a proxy', () => startRecordingProxy('http://127.0.0.1:9/mcp')],
])('%s ends with close(), also twice', async (_, start) => {
  const server = await start()
  await fetch(server.url)
  await server.close()
  await server.close()
  await expect(fetch(server.url)).rejects.toThrow('fetch failed')
})

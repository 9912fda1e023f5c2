import { subscribe } from 'node:diagnostics_channel'
import { once } from 'node:events'
import { request } from 'node:http'
import { connect } from 'node:net'
import { text } from 'node:stream/consumers'
import { describe, expect, onTestFinished, test, vi } from 'vitest'
import { closedGate } from '../../test/gate.ts'
import type { Gate } from '../../test/gate.ts'
import { createDebugStateServer } from './create-debug-state-server.ts'
import type { DebugStateStore } from './debug-state-store.ts'
import { MemoryDebugStateStore } from './memory-debug-state-store.ts'

const PATH = '/agenthub_/design/debugstate/agent/key'
const tokens = [{ token: 'token-of-everybody', agentIds: '*' }] as const

/** A store whose writes wait for the test. */
class SlowStore extends MemoryDebugStateStore {
  readonly began: Gate = closedGate()
  readonly gate: Gate = closedGate()
  override async put(...args: Parameters<DebugStateStore['put']>): Promise<void> {
    this.began.open()
    await this.gate.opened
    return super.put(...args)
  }
}

describe('without tokens', () => {
  test.each(['0.0.0.0', '::', '192.0.2.1', 'example.com'])(
    'refuses to listen on %s',
    async (host) => {
      await using server = createDebugStateServer({ store: new MemoryDebugStateStore() })
      await expect(server.listen({ host })).rejects.toMatchObject({
        code: 'NOT_LOOPBACK',
        message: expect.stringContaining('tokens'),
      })
    },
  )

  test('answers requests with a loopback host name only', async () => {
    await using server = createDebugStateServer({ store: new MemoryDebugStateStore() })
    const { port } = new URL(await server.listen({ host: 'localhost' }))
    const statusFor = async (host: string): Promise<number | undefined> => {
      const asked = request({ host: 'localhost', port, path: '/health', headers: { host } })
      asked.end()
      const [answer] = await once(asked, 'response')
      answer.resume()
      return answer.statusCode
    }
    expect(await statusFor(`localhost:${port}`)).toBe(200)
    expect(await statusFor(`127.0.0.1:${port}`)).toBe(200)
    expect(await statusFor('evil.example')).toBe(403)
  })
})

describe('over HTTP', () => {
  test('stores values, and listens on any host with tokens', async () => {
    await using server = createDebugStateServer({ store: new MemoryDebugStateStore(), tokens })
    const url = (await server.listen({ host: '0.0.0.0' })).replace('0.0.0.0', '127.0.0.1')
    const headers = { authorization: 'Bearer token-of-everybody' }
    expect((await fetch(url + PATH)).status).toBe(401)
    await fetch(url + PATH, { method: 'PUT', body: 'session-1', headers })
    const got = await fetch(url + PATH, { headers })
    expect(await got.text()).toBe('session-1')
  })

  test('refuses a body over the limit before it has arrived, and stores nothing', async () => {
    await using server = createDebugStateServer({ store: new MemoryDebugStateStore() })
    const url = await server.listen()
    const headers = { 'content-length': 10_000_000 }
    const upload = request(url + PATH, { method: 'PUT', headers })
    upload.on('error', () => {}) // the server may close the connection before it has read the body
    upload.write('x')
    const [answer] = await once(upload, 'response')
    expect(answer.statusCode).toBe(413)
    expect(JSON.parse(await text(answer))).toMatchObject({ code: 'BODY_TOO_LARGE' })
    upload.destroy()
    const chunked = await fetch(url + PATH, {
      method: 'PUT',
      body: new Blob(['x'.repeat(70_000)]).stream(),
      duplex: 'half',
    })
    expect(chunked.status).toBe(413)
    expect((await fetch(url + PATH)).status).toBe(404)
  })

  test('names a port in use', async () => {
    await using one = createDebugStateServer({ store: new MemoryDebugStateStore() })
    await using other = createDebugStateServer({ store: new MemoryDebugStateStore() })
    const port = Number(new URL(await one.listen()).port)
    await expect(other.listen({ port })).rejects.toMatchObject({
      code: 'ADDRESS_IN_USE',
      message: expect.stringContaining(`127.0.0.1:${port} is in use: choose another port, or 0`),
    })
    await expect(other.listen()).resolves.toMatch(/^http:/)
    await expect(one.listen()).rejects.toMatchObject({ code: 'LISTENING' })
  })
})

test.each([
  ['no name in the host', 'GET / HTTP/1.1\r\nHost: a b\r\nConnection: close\r\n\r\n', 400],
  ['headers without end', `GET / HTTP/1.1\r\nHost: localhost\r\nX: ${'x'.repeat(20_000)}`, 431],
  [
    'a long key, which still fits',
    `GET /agenthub_/design/debugstate/agent/${'x'.repeat(9000)} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n`,
    414,
  ],
])('answers a request with %s, and closes the connection', async (_what, bytes, status) => {
  await using server = createDebugStateServer({ store: new MemoryDebugStateStore() })
  const { hostname, port } = new URL(await server.listen())
  const socket = connect(Number(port), hostname)
  socket.write(bytes)
  expect(await text(socket)).toMatch(new RegExp(`^HTTP/1.1 ${status} `))
})

describe('closing', () => {
  test('lets a write in flight finish, and takes no new requests', async () => {
    const store = new SlowStore()
    const server = createDebugStateServer({ store })
    const url = await server.listen()
    const writing = fetch(url + PATH, { method: 'PUT', body: 'session-1' })
    await store.began.opened
    const closing = server.close()
    await expect(fetch(url + PATH)).rejects.toThrow('fetch failed')
    store.gate.open()
    expect((await writing).status).toBe(204)
    await closing
    expect(await store.get({ agentId: 'agent', key: 'key' })).toBeDefined()
    await server.close()
    await expect(server.listen()).rejects.toMatchObject({ code: 'CLOSED' })
  })

  test('ends after 5 s while a request hangs', async () => {
    vi.useFakeTimers({ toFake: ['setTimeout'] })
    onTestFinished(() => void vi.useRealTimers())
    const store = new SlowStore()
    const server = createDebugStateServer({ store })
    const url = await server.listen()
    const writing = fetch(url + PATH, { method: 'PUT', body: 'session-1' })
    await store.began.opened
    const closing = server.close()
    vi.advanceTimersByTime(5000)
    await closing
    await expect(writing).rejects.toThrow('fetch failed')
    store.gate.open()
  })

  test('ends a kept-alive connection with its last answer', async () => {
    const store = new SlowStore()
    const server = createDebugStateServer({ store })
    const { hostname, port } = new URL(await server.listen())
    const socket = connect(Number(port), hostname)
    socket.write(`PUT ${PATH} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 1\r\n\r\nx`)
    await store.began.opened
    const closing = server.close()
    store.gate.open()
    expect(await text(socket)).toMatch(/^HTTP\/1\.1 204 [^]*connection: close\r\n/i)
    await closing
  })

  test('does not wait for idle connections', async () => {
    const server = createDebugStateServer({ store: new MemoryDebugStateStore() })
    const { hostname, port } = new URL(await server.listen())
    const socket = connect(Number(port), hostname)
    socket.write(`GET /health HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n`)
    await once(socket, 'data')
    const ended = once(socket, 'close')
    socket.resume()
    await server.close()
    await expect(ended).resolves.toEqual([false])
  })

  test('works before listen()', async () => {
    const server = createDebugStateServer({ store: new MemoryDebugStateStore() })
    await expect(server.close()).resolves.toBeUndefined()
  })
})

test('limits the time of a slow client, of silence, and the number of connections', async () => {
  let limits: unknown
  const onRequest = ({ server }: { readonly server?: unknown }): void => void (limits = server)
  subscribe('http.server.request.start', (event) => onRequest(Object(event)))
  await using server = createDebugStateServer({ store: new MemoryDebugStateStore() })
  await fetch(`${await server.listen()}/health`)
  expect(limits).toMatchObject({
    headersTimeout: 5000,
    requestTimeout: 10_000,
    timeout: 30_000,
    maxConnections: 10_000,
  })
})

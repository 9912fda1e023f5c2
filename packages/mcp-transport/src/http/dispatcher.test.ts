import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo, Socket } from 'node:net'
import { errors, request } from 'undici'
import type { Dispatcher } from 'undici'
import { expect, onTestFinished, test } from 'vitest'
import { createDispatcher } from './dispatcher.ts'

test('goes on with new connections when the server has closed all of them', async () => {
  const server = await startServer()
  const dispatcher = createDispatcher()
  onTestFinished(() => dispatcher.destroy())
  for (const method of ['POST', 'GET', 'POST', 'GET'] as const) {
    const { body } = await request(`${server.url}/last`, { dispatcher, method })
    expect(await body.text()).toBe('ok')
    await server.closed()
  }
  expect(server.connections).toBe(4)
})

test.for([
  ['that was never used', async () => {}],
  [
    'whose connections are open',
    async ({ url, dispatcher }) => {
      await (await request(url, { dispatcher })).body.text()
    },
  ],
  [
    'whose connections are gone',
    async ({ url, dispatcher, closed }) => {
      await (await request(`${url}/last`, { dispatcher })).body.text()
      await closed()
    },
  ],
] satisfies [string, (used: Used) => Promise<void>][])(
  'refuses requests after its end, also one %s',
  async ([, use]) => {
    const server = await startServer()
    const dispatcher = createDispatcher()
    await use({ ...server, dispatcher })
    await dispatcher.destroy()
    for (const method of ['POST', 'GET'] as const) {
      const sent = request(server.url, { dispatcher, method })
      await expect(sent).rejects.toBeInstanceOf(errors.ClientDestroyedError)
    }
  },
)

test('closes at its end also connections that were opened during a server crash', async () => {
  const server = await startServer()
  const dispatcher = createDispatcher()
  const post = async (path: string): Promise<void> => {
    const { body } = await request(`${server.url}${path}`, { dispatcher, method: 'POST' })
    await body.text()
  }
  // The connections break one after another: some requests are sent again before the last one has.
  await Promise.all(Array.from({ length: 10 }, () => post('/wait').catch(() => post('/'))))
  await dispatcher.destroy()
  await expect(server.closed()).resolves.toHaveLength(20)
})

interface Server {
  readonly url: string
  /** How many there were. */
  readonly connections: number
  /** Resolves when all of them are closed, on both sides. */
  readonly closed: () => Promise<unknown>
}

interface Used extends Server {
  readonly dispatcher: Dispatcher
}

async function startServer(): Promise<Server> {
  const sockets: Socket[] = []
  let waiting = 0
  const server = createServer({ keepAliveTimeout: 60_000 }, ({ url }, response) => {
    if (url === '/wait' && ++waiting < 10) return
    if (url === '/wait') return sockets.forEach((socket) => socket.resetAndDestroy())
    if (url === '/last') response.setHeader('connection', 'close')
    response.end('ok')
  })
  const closing: Promise<unknown>[] = []
  server.on('connection', (socket) => {
    sockets.push(socket)
    closing.push(once(socket, 'close'))
  })
  server.listen({ port: 0, host: '127.0.0.1' })
  await once(server, 'listening')
  onTestFinished(() => void server.close())
  const { port } = server.address() as AddressInfo
  return {
    url: `http://127.0.0.1:${port}`,
    get connections() {
      return closing.length
    },
    closed: () => Promise.all(closing),
  }
}

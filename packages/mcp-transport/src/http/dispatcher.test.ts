import { once } from 'node:events'
import { mkdtemp, rm, utimes, writeFile } from 'node:fs/promises'
import { createServer } from 'node:http'
import type { AddressInfo, Socket } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { rootCertificates } from 'node:tls'
import { errors, request } from 'undici'
import type { Dispatcher } from 'undici'
import { expect, onTestFinished, test, describe } from 'vitest'
import {
  createDispatcher,
  certificateAuthorities,
  keepAliveFor,
  learnKeepAlive,
} from './dispatcher.ts'

describe('dispatcher', () => {
  test('opens new connections after the server has closed all of them', async () => {
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
    'refuses requests after close(), also one %s',
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

  test('closes all connections, also those that it opened during a crash of the server', async () => {
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
    /** Number of connections, also of closed ones. */
    readonly connections: number
    /** Resolves when all connections are closed on both sides. */
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
})

describe('certificate authorities', () => {
  test('are those of Node without SSL_CERT_FILE', () => {
    expect(certificateAuthorities({})).toBeUndefined()
    expect(certificateAuthorities({ SSL_CERT_FILE: '' })).toBeUndefined()
  })

  test('are those of SSL_CERT_FILE instead of the built-in ones', async () => {
    const folder = await mkdtemp(join(tmpdir(), 'ca-'))
    try {
      const path = join(folder, 'ca.pem')
      await writeFile(path, rootCertificates[0] ?? '')
      expect(certificateAuthorities({ SSL_CERT_FILE: path })).toContain(rootCertificates[0])
      expect(certificateAuthorities({ SSL_CERT_FILE: path })).not.toContain(rootCertificates[1])
      const [one, other] = [1, 2].map(() => certificateAuthorities({ SSL_CERT_FILE: path }))
      expect(one).toBe(other) // read once for all dispatchers
      await writeFile(path, rootCertificates[1] ?? '')
      await utimes(path, 1, 1)
      expect(certificateAuthorities({ SSL_CERT_FILE: path })).toContain(rootCertificates[1])
    } finally {
      await rm(folder, { recursive: true })
    }
  })

  test('rejects with an error that names SSL_CERT_FILE if the file cannot be read', () => {
    const path = join(tmpdir(), 'there-is-no-such-file.pem')
    expect(() => certificateAuthorities({ SSL_CERT_FILE: path })).toThrow(
      expect.objectContaining({ code: 'CONFIG', message: expect.stringContaining(path) }),
    )
  })
})

describe('keep alive', () => {
  test.each([
    ['nothing', [], 4000],
    ['one closing, which may be a restart', [2000], 4000],
    ['two closings after different times', [2000, 900], 4000],
    ['two closings after nearly the same time', [2000, 2100], 1500],
    ['closings soon after a request', [400, 400, 400], 4000],
    ['closings after more than the default', [60_000, 60_000], 4000],
    ['a server that closes earlier than it did', [2000, 2000, 1000, 1000], 750],
  ])('takes its limit from %s', (name, closedAfter, limit) => {
    const origin = `http://${name.replaceAll(' ', '-')}.test`
    for (const ms of closedAfter) learnKeepAlive(origin, ms)
    expect(keepAliveFor(origin, 4000)).toBe(limit)
    expect(keepAliveFor('http://another.test', 4000)).toBe(4000)
  })
})

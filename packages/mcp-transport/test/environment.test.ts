import { once } from 'node:events'
import { createServer } from 'node:http'
import { connect, createServer as createTcpServer, type Server } from 'node:net'
import { Client } from '@modelcontextprotocol/sdk/client/index.js'
import { freePort, startLegacyServer } from '@x/mcp-testing'
import { afterEach, expect, test, vi } from 'vitest'
import { StreamableHttpTransport } from '../src/index.ts'

afterEach(() => vi.unstubAllEnvs())

/** An HTTP proxy that tunnels, and records the targets. */
async function startProxy({
  refusesWith,
}: {
  refusesWith?: number
} = {}): Promise<AsyncDisposable & { url: string; targets: string[] }> {
  const targets: string[] = []
  const server = createServer((_request, response) => response.writeHead(refusesWith ?? 501).end())
  server.on('connect', (request, client) => {
    targets.push(request.url ?? '')
    if (refusesWith !== undefined) return client.end(`HTTP/1.1 ${refusesWith} Refused\r\n\r\n`)
    const { hostname, port } = new URL(`http://${request.url}`)
    const upstream = connect(Number(port), hostname, () => {
      client.write('HTTP/1.1 200 Connection Established\r\n\r\n')
      upstream.pipe(client).pipe(upstream)
    })
    upstream.on('error', () => client.destroy())
    client.on('error', () => upstream.destroy())
  })
  server.on('request', (request) => targets.push(request.url ?? ''))
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  return {
    url: `http://127.0.0.1:${portOf(server)}`,
    targets,
    async [Symbol.asyncDispose]() {
      server.closeAllConnections()
      server.close()
      await once(server, 'close')
    },
  }
}

/** A server that sends a text for the first bytes of a request, and closes the connection. */
async function startClosingServer(answer: string): Promise<AsyncDisposable & { url: string }> {
  const server = createTcpServer((socket) => {
    socket.on('error', () => {})
    socket.once('data', () => socket.end(answer))
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  return {
    url: `http://127.0.0.1:${portOf(server)}/mcp`,
    async [Symbol.asyncDispose]() {
      server.close()
      await once(server, 'close')
    },
  }
}

async function startRefusingServer(status: number): Promise<AsyncDisposable & { url: string }> {
  const server = createServer((_request, response) => response.writeHead(status).end())
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  return {
    url: `http://127.0.0.1:${portOf(server)}/mcp`,
    async [Symbol.asyncDispose]() {
      server.closeAllConnections()
      server.close()
      await once(server, 'close')
    },
  }
}

function portOf(server: Server): number {
  const address = server.address()
  return typeof address === 'object' && address !== null ? address.port : 0
}

async function attempt(url: string, headers: Record<string, string> = {}): Promise<void> {
  const client = new Client({ name: 'app', version: '1' })
  await client.connect(new StreamableHttpTransport(url, { era: 'legacy', listen: false, headers }))
  await client.close()
}

test('sends requests through the proxy of the environment', async () => {
  await using server = await startLegacyServer()
  await using proxy = await startProxy()
  vi.stubEnv('HTTP_PROXY', proxy.url)
  vi.stubEnv('NO_PROXY', '')
  await attempt(server.url).catch(() => {}) // the proxy may forward or tunnel
  expect(proxy.targets.some((target) => target.includes(new URL(server.url).host))).toBe(true)
})

test('sends requests directly to hosts in NO_PROXY', async () => {
  await using server = await startLegacyServer()
  await using proxy = await startProxy()
  vi.stubEnv('HTTP_PROXY', proxy.url)
  vi.stubEnv('NO_PROXY', '127.0.0.1')
  await attempt(server.url)
  expect(proxy.targets).toEqual([])
  expect(server.count('initialize')).toBe(1)
})

test.each(['http', 'https'])(
  'names the variables of a proxy that cannot be reached (%s)',
  async (scheme) => {
    const proxy = `http://127.0.0.1:${await freePort()}`
    vi.stubEnv('HTTP_PROXY', proxy)
    vi.stubEnv('HTTPS_PROXY', proxy)
    vi.stubEnv('NO_PROXY', '')
    await expect(attempt(`${scheme}://server.test/mcp`)).rejects.toMatchObject({
      data: {
        code: 'UNREACHABLE',
        message: expect.stringContaining('This is the address of a proxy: check HTTP_PROXY'),
      },
    })
  },
)

test('says in one line that a server has no TLS', async () => {
  await using server = await startLegacyServer()
  const url = server.url.replace('http:', 'https:')
  await expect(attempt(url)).rejects.toMatchObject({
    data: {
      code: 'UNREACHABLE',
      message: expect.stringMatching(
        /^No connection to https:\S+: TLS: wrong version number\. Is it a server without TLS \(http:\)\? See \S+$/,
      ),
    },
  })
})

test('says that a server may have TLS if it closes the connection without a byte', async () => {
  await using server = await startClosingServer('')
  await expect(attempt(server.url)).rejects.toMatchObject({
    data: {
      code: 'OUTCOME_UNKNOWN',
      message: expect.stringContaining('if it uses TLS, write https:// in its URL'),
    },
  })
})

test('does not speak of TLS if the connection breaks in an answer', async () => {
  await using server = await startClosingServer('HTTP/1.1 200 OK\r\ncontent-le')
  await expect(attempt(server.url)).rejects.toMatchObject({
    data: { code: 'OUTCOME_UNKNOWN', message: expect.not.stringContaining('TLS') },
  })
})

test.each(['http', 'https'])(
  'reports a proxy that requires credentials as UNREACHABLE (%s)',
  async (scheme) => {
    await using proxy = await startProxy({ refusesWith: 407 })
    vi.stubEnv('HTTP_PROXY', proxy.url)
    vi.stubEnv('HTTPS_PROXY', proxy.url)
    vi.stubEnv('NO_PROXY', '')
    await expect(attempt(`${scheme}://server.test/mcp`)).rejects.toMatchObject({
      data: {
        code: 'UNREACHABLE',
        outcome: 'not-executed',
        message: expect.stringContaining('the proxy requires a user and a password (HTTP 407)'),
      },
    })
  },
)

test('names the status of a proxy that refuses a tunnel', async () => {
  await using proxy = await startProxy({ refusesWith: 403 })
  vi.stubEnv('HTTPS_PROXY', proxy.url)
  vi.stubEnv('NO_PROXY', '')
  await expect(attempt('https://server.test/mcp')).rejects.toMatchObject({
    data: {
      code: 'UNREACHABLE',
      message: expect.stringContaining('the proxy refused the connection (HTTP 403)'),
    },
  })
})

test('says after 401 whether the request had credentials', async () => {
  await using server = await startRefusingServer(401)
  await expect(attempt(server.url)).rejects.toMatchObject({
    data: {
      code: 'UNAUTHORIZED',
      message: expect.stringContaining('the request had no header "authorization"'),
    },
  })
  const headers = { Authorization: 'Bearer old' }
  await expect(attempt(server.url, headers)).rejects.toMatchObject({
    data: {
      code: 'UNAUTHORIZED',
      message: expect.stringContaining('does not accept the credentials in the header'),
    },
  })
})

test('adds no advice about a proxy to a server that cannot be reached', async () => {
  vi.stubEnv('NO_PROXY', '*')
  await expect(attempt(`http://127.0.0.1:${await freePort()}/mcp`)).rejects.toMatchObject({
    data: { message: expect.not.stringContaining('proxy') },
  })
})

test('fails the first request with a clear error if the certificate file is missing', async () => {
  await using server = await startLegacyServer()
  vi.stubEnv('SSL_CERT_FILE', '/there/is/no/such.pem')
  await expect(attempt(server.url)).rejects.toMatchObject({
    data: { code: 'CONFIG', message: expect.stringContaining('/there/is/no/such.pem') },
  })
  expect(server.received).toEqual([])
})

test.each(['proxy.corp:8080', 'ada:s3cret@proxy corp', 'ftp://proxy.corp'])(
  'names the variable with a malformed proxy URL, without its value (%s)',
  async (proxy) => {
    await using server = await startLegacyServer()
    vi.stubEnv('https_proxy', proxy)
    await expect(attempt(server.url)).rejects.toMatchObject({
      data: { code: 'CONFIG', message: expect.stringMatching(/^https_proxy is not(?!.*s3cret)/) },
    })
    expect(server.received).toEqual([])
  },
)

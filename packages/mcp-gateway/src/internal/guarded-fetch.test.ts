import type { IncomingMessage, ServerResponse } from 'node:http'

import { deferred, startTestServer, type TestServer } from '@x/mcp-testing'
import { expect, test } from 'vitest'

import { createGuardedFetch } from './guarded-fetch.ts'
import type { GuardedFetch, GuardedFetchOptions } from './guarded-fetch.ts'

const publicName = async (): Promise<{ address: string; family: 4 }[]> => [
  { address: '93.184.216.34', family: 4 },
]

/** A guard that trusts one server on loopback. */
function guardFor(server: TestServer, options: GuardedFetchOptions = {}): GuardedFetch {
  return createGuardedFetch({ trustedOrigins: [server.url], ...options })
}

/** A POST whose body is a stream. */
function streamed(body: ReadableStream): RequestInit {
  return { method: 'POST', body, duplex: 'half' }
}

async function bodyOf(request: IncomingMessage): Promise<string> {
  const chunks: Buffer[] = []
  for await (const chunk of request) chunks.push(chunk as Buffer)
  return Buffer.concat(chunks).toString()
}

test.each([
  'https://127.0.0.1/',
  'https://127.1/',
  'https://2130706433/',
  'https://0x7f000001/',
  'https://0177.0.0.1/',
  'https://0/',
  'https://0.0.0.0/',
  'https://１２７.0.0.1/', // full-width digits
  'https://10.1.2.3/',
  'https://172.16.0.1/',
  'https://172.31.255.255/',
  'https://192.168.1.1/',
  'https://100.64.0.1/',
  'https://100.100.100.200/',
  'https://169.254.169.254/latest/meta-data/',
  'https://168.63.129.16/',
  'https://192.0.0.192/',
  'https://224.0.0.1/',
  'https://255.255.255.255/',
  'https://[::]/',
  'https://[::1]/',
  'https://[::ffff:127.0.0.1]/',
  'https://[::ffff:8.8.8.8]/',
  'https://[::7f00:1]/',
  'https://[64:ff9b::a9fe:a9fe]/',
  'https://[2002:7f00:1::]/',
  'https://[2001:0:7f00:1::]/',
  'https://[fc00::1]/',
  'https://[fd00:ec2::254]/',
  'https://[fe80::1]/',
  'https://[ff02::1]/',
  'http://93.184.216.34/',
  'http://example.org/',
  'ftp://example.org/',
  'file:///etc/passwd',
  'data:text/plain,hi',
  'https://user:pw@example.org/',
])('refuses the URL %s', async (url) => {
  const guarded = createGuardedFetch({ resolve: publicName })
  const wrong = guarded(url)
  // `Request` itself refuses a URL with a user name.
  await expect(wrong).rejects.toThrow(/Refused to fetch|credentials/)
})

test.each(['10.0.0.1', '::1', '::ffff:10.0.0.1', 'fe80::1%lo'])(
  'refuses a name that leads to %s, even beside a public address',
  async (address) => {
    const resolve = async (): Promise<{ address: string; family: 4 }[]> => [
      { address: '93.184.216.34', family: 4 },
      { address, family: 4 },
    ]
    const guarded = createGuardedFetch({ resolve })
    await expect(guarded('https://rebind.example/')).rejects.toMatchObject({
      code: 'REFUSED',
      message: expect.stringContaining('trustedOrigins'),
    })
  },
)

test('cancels the body of a request that is refused', async () => {
  const cancelled = deferred()
  const body = new ReadableStream({ cancel: () => cancelled.resolve() })
  const refused = createGuardedFetch()('http://example.org/', streamed(body))
  await expect(refused).rejects.toMatchObject({ code: 'REFUSED' })
  await cancelled.promise
})

test('survives a body that breaks before its request is refused', async () => {
  const body = new ReadableStream({
    start: (controller) => controller.error(new Error('The source broke')),
  })
  const refused = createGuardedFetch()('http://example.org/', streamed(body))
  await expect(refused).rejects.toMatchObject({ code: 'REFUSED' })
})

test('looks up a name once, and connects to the address that it checked', async () => {
  await using server = await startTestServer((request, response) => {
    response.end(request.headers.host)
  }, '')
  const origin = `http://rebind.invalid:${new URL(server.url).port}`
  const lookups: string[] = []
  const guarded = createGuardedFetch({
    trustedOrigins: [origin],
    resolve: async (hostname) => {
      lookups.push(hostname)
      return [{ address: lookups.length === 1 ? '127.0.0.1' : '192.0.2.1', family: 4 }]
    },
  })
  const answer = await guarded(`${origin}/`)
  await expect(answer.text()).resolves.toBe(new URL(origin).host)
  expect(lookups).toEqual(['rebind.invalid'])
})

test('ends a lookup that never ends after headersTimeoutMs', async () => {
  const guarded = createGuardedFetch({
    headersTimeoutMs: 20,
    resolve: () => new Promise(() => undefined),
  })
  const answer = guarded('https://slow.example/')
  await expect(answer).rejects.toMatchObject({
    code: 'UNAVAILABLE',
    message: expect.stringContaining('No response within 20 ms'),
  })
})

test('ends a request that gets no response after headersTimeoutMs', async () => {
  const closed = deferred()
  await using server = await startTestServer((_request, response) => {
    response.on('close', () => closed.resolve())
  })
  const answer = guardFor(server, { headersTimeoutMs: 100 })(server.url)
  await expect(answer).rejects.toMatchObject({ code: 'UNAVAILABLE' })
  await closed.promise
})

test('sends requests and returns responses as fetch does', async () => {
  const echo = async (request: IncomingMessage, response: ServerResponse): Promise<void> => {
    const body = await bodyOf(request)
    const type = request.headers['content-type']
    response.writeHead(201, { 'x-method': request.method, 'x-type': type }).end(`got ${body}`)
  }
  await using server = await startTestServer((request, response) => void echo(request, response))
  const guarded = guardFor(server)
  const answer = await guarded(server.url, {
    method: 'POST',
    body: '{"a":1}',
    headers: { 'content-type': 'application/json' },
  })
  expect(answer.status).toBe(201)
  expect(answer.headers.get('x-method')).toBe('POST')
  expect(answer.headers.get('x-type')).toBe('application/json')
  await expect(answer.text()).resolves.toBe('got {"a":1}')
  const request = new Request(server.url, { method: 'PUT', body: 'streamed' })
  await expect((await guarded(request)).text()).resolves.toBe('got streamed')
})

test.each([
  '/next',
  'http://localhost.example:1/',
  'http://ann:secret@localhost.example/',
  'http://',
])('follows no redirect to %s, and shows it to a caller that asks for that', async (location) => {
  const urls: unknown[] = []
  await using server = await startTestServer((request, response) => {
    urls.push(request.url)
    response.writeHead(302, { location }).end('moved')
  }, '')
  const guarded = guardFor(server, { trustedOrigins: [server.url, 'http://localhost.example:1'] })
  for (const redirect of ['follow', 'error'] as const) {
    await expect(guarded(`${server.url}/0`, { redirect })).rejects.toMatchObject({
      code: 'REFUSED',
      message: expect.stringContaining('Refused to fetch: a redirect'),
    })
  }
  const shown = await guarded(`${server.url}/0`, { redirect: 'manual' })
  expect([shown.status, await shown.text()]).toEqual([302, 'moved'])
  expect(urls).toEqual(['/0', '/0', '/0'])
})

test('refuses a too large response, with and without a content-length', async () => {
  await using server = await startTestServer((request, response) => {
    if (request.url === '/announced') response.writeHead(200, { 'content-length': '1000' })
    response.write('x'.repeat(600))
    response.end('x'.repeat(400))
  }, '')
  const guarded = guardFor(server, { maxBytes: 999 })
  await expect(guarded(`${server.url}/announced`)).rejects.toMatchObject({ code: 'LIMIT' })
  const answer = await guarded(`${server.url}/streamed`)
  await expect(answer.text()).rejects.toMatchObject({ code: 'LIMIT' })
  const enough = guardFor(server, { maxBytes: 1000 })
  await expect((await enough(`${server.url}/streamed`)).text()).resolves.toHaveLength(1000)
})

test('closes the connection of a response that stops halfway', async () => {
  const closed = deferred()
  await using server = await startTestServer((_request, response) => {
    response.on('close', () => closed.resolve())
    response.write('first')
  })
  const answer = await guardFor(server, { idleTimeoutMs: 20 })(server.url)
  await expect(answer.text()).rejects.toMatchObject({ code: 'UNAVAILABLE' })
  await closed.promise
})

test('ends a response that comes byte by byte after timeoutMs', async () => {
  const closed = deferred()
  await using server = await startTestServer((_request, response) => {
    const dripping = setInterval(() => response.write('x'), 5)
    response.on('close', () => {
      clearInterval(dripping)
      closed.resolve()
    })
  })
  const answer = await guardFor(server, { timeoutMs: 200 })(server.url)
  await expect(answer.text()).rejects.toMatchObject({
    code: 'UNAVAILABLE',
    message: expect.stringContaining('The response was not complete within 200 ms'),
  })
  await closed.promise
})

test('ends a response that is not read after timeoutMs', async () => {
  const closed = deferred()
  await using server = await startTestServer((_request, response) => {
    response.on('close', () => closed.resolve())
    response.write('first')
  })
  await guardFor(server, { timeoutMs: 50 })(server.url)
  await expect(closed.promise).resolves.toBeUndefined()
})

test('rejects with the reason of the signal of the caller', async () => {
  const closed = deferred()
  const arrived = deferred()
  await using server = await startTestServer((_request, response) => {
    response.on('close', () => closed.resolve())
    arrived.resolve()
  })
  const controller = new AbortController()
  const answer = guardFor(server)(server.url, { signal: controller.signal })
  await arrived.promise
  const reason = new Error('enough')
  controller.abort(reason)
  await expect(answer).rejects.toBe(reason)
  await closed.promise
})

test('closes the connection when the body is cancelled', async () => {
  const closed = deferred()
  await using server = await startTestServer((_request, response) => {
    response.on('close', () => closed.resolve())
    response.write('first')
  })
  const answer = await guardFor(server)(server.url)
  await answer.body?.cancel()
  await expect(closed.promise).resolves.toBeUndefined()
})

test('leaves the query string out of errors', async () => {
  const guarded = createGuardedFetch()
  const error = await guarded('https://10.0.0.1/?token=s3cret').catch((reason: unknown) => reason)
  expect(String(error)).not.toContain('s3cret')
})

import { request, type IncomingMessage } from 'node:http'
import { text } from 'node:stream/consumers'

import { expect, test } from 'vitest'

import { jwtAuth } from '../src/http/auth/jwt.ts'
import { anyAuth } from '../src/http/auth/combine.ts'
import { bearerAuth } from '../src/http/auth/bearer.ts'
import { Runtime } from '../src/gateway/runtime.ts'
import { AgentsAtHand } from './agents-at-hand.ts'
import { modern, modernParts, JSON_HEADERS } from './rpc-requests.ts'
import { giving, TOKENS } from './served-files.ts'

const authorization = `Bearer ${TOKENS.ada}`
const HOST = { host: 'agents.example' }

interface Answer {
  readonly status: number
  readonly headers: Readonly<Record<string, unknown>>
  readonly body: string
}

/** Sends a request as a proxy does: its host is not the address that it connects to. */
async function ask(
  port: number,
  path: string,
  init: { method?: string; headers?: Record<string, string>; body?: string } = {},
): Promise<Answer> {
  const { method = 'GET', headers = {}, body = '' } = init
  const response = await new Promise<IncomingMessage>((resolve, reject) => {
    const sent = request({
      port,
      host: '127.0.0.1',
      path,
      method,
      headers: { ...HOST, ...headers },
    })
    sent.on('response', resolve).on('error', reject).end(body)
  })
  const { statusCode: status = 0 } = response
  return { status, headers: response.headers, body: await text(response) }
}

async function serve(publicUrl: string) {
  const issuers = [{ issuer: 'https://login.example', audience: 'x' }]
  const ada = { token: TOKENS.ada, scopes: ['*'] }
  const gateway = new Runtime(
    {
      sources: [new AgentsAtHand({ give: giving({ name: 'a.bin', data: new Uint8Array(9) }) })],
      auth: anyAuth(bearerAuth({ ada }), jwtAuth({ issuers })),
      http: { publicUrl, metricsPath: '/metrics' },
      log: false,
    },
    { readMaxBytes: 8 },
  )
  const { port } = await gateway.listen({ port: 0 })
  return { port, [Symbol.asyncDispose]: () => gateway.close() }
}

test.each([
  ['https://agents.example/team', '/team/mcp', '/team', ['/team/mcp', '/mcp']],
  ['https://agents.example/team/', '/team/mcp', '/team', ['/team/mcp', '/mcp']],
  ['https://agents.example/team/mcp', '/team/mcp', '/team/mcp', ['/team/mcp', '/mcp']],
  ['HTTPS://AGENTS.example:443/a/b', '/a/b/mcp', '/a/b', ['/a/b/mcp', '/b/mcp', '/mcp']],
])(
  'serves %s to clients behind a proxy that keeps the path or removes it',
  async (...[publicUrl, endpoint, base, forms]) => {
    await using at = await serve(publicUrl)
    const origin = 'https://agents.example'
    const { message, headers } = modernParts('tools/list')
    for (const path of forms) {
      const post = { method: 'POST', body: JSON.stringify(message) }
      const refused = await ask(at.port, path, {
        ...post,
        headers: { ...JSON_HEADERS, ...headers },
      })
      expect([path, refused.status]).toEqual([path, 401])
      const metadata = `/.well-known/oauth-protected-resource${endpoint}`
      expect(refused.headers['www-authenticate']).toContain(
        `resource_metadata="${origin}${metadata}"`,
      )
      const document = await ask(at.port, metadata)
      expect(JSON.parse(document.body)).toMatchObject({ resource: `${origin}${endpoint}` })
      const listed = await ask(at.port, path, {
        ...post,
        headers: { ...JSON_HEADERS, ...headers, authorization },
      })
      expect([path, listed.status]).toEqual([path, 200])
    }

    const stripped = base.replace(/^\/(?:team|a)/, '')
    for (const prefix of new Set([base, stripped, ''])) {
      const name = `${prefix}/artifacts/notes.txt`
      const put = await ask(at.port, name, {
        method: 'PUT',
        headers: { authorization },
        body: 'some notes',
      })
      expect([name, put.status]).toEqual([name, 201])
      const { uri } = JSON.parse(put.body) as { uri: string }
      const read = modernParts('resources/read', { uri })
      const tooLarge = await ask(at.port, '/mcp', {
        method: 'POST',
        headers: { ...JSON_HEADERS, ...read.headers, authorization },
        body: JSON.stringify(read.message),
      })
      const { downloadUrl } = JSON.parse(tooLarge.body).error.data as { downloadUrl: string }
      expect(downloadUrl.startsWith(`${origin}${base}/artifacts/`)).toBe(true)
      const link = downloadUrl.slice(origin.length + base.length)
      expect((await ask(at.port, prefix + link)).body).toBe('some notes')
    }
  },
)

test('serves a path with encoded characters', async () => {
  await using at = await serve('https://agents.example/té%20m')
  const { message, headers } = modernParts('tools/list')
  const post = { method: 'POST', body: JSON.stringify(message) }
  const answer = await ask(at.port, '/t%C3%A9%20m/mcp', {
    ...post,
    headers: { ...JSON_HEADERS, ...headers },
  })
  expect(answer.headers['www-authenticate']).toContain(
    'https://agents.example/.well-known/oauth-protected-resource/t%C3%A9%20m/mcp"',
  )
})

test('does not show metrics and health below the prefix, where a proxy may forward everything', async () => {
  await using at = await serve('https://agents.example/team')
  for (const path of ['/metrics', '/healthz', '/readyz']) {
    expect((await ask(at.port, path)).status).toBe(200)
    expect((await ask(at.port, `/team${path}`)).status).toBe(404)
  }
})

test.each([
  '/other/mcp',
  '/teammcp',
  '/team',
  '/team/',
  '/x/team/mcp',
  '/team/artifacts',
  '/TEAM/mcp',
])('serves nothing at %s', async (path) => {
  await using at = await serve('https://agents.example/team')
  expect((await ask(at.port, path, { headers: { authorization } })).status).toBe(404)
})

test('names the public URL in the challenge of a mounted gateway', async () => {
  const issuers = [{ issuer: 'https://login.example', audience: 'x' }]
  await using gateway = new Runtime({
    auth: jwtAuth({ issuers }),
    http: { publicUrl: 'https://agents.example/team', path: '/' },
  })
  const response = await gateway.fetch(modern('tools/list', {}, HOST))
  expect(response.headers.get('www-authenticate')).toContain(
    'resource_metadata="https://agents.example/.well-known/oauth-protected-resource/team"',
  )
  const document = await gateway.fetch(
    new Request('http://10.0.0.7/.well-known/oauth-protected-resource/team', { headers: HOST }),
  )
  expect(await document.json()).toMatchObject({ resource: 'https://agents.example/team' })
})

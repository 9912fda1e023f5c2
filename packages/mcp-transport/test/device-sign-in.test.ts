// A sign-in by code at a real authorization server. The user has a browser without a window.
import type { ServerResponse } from 'node:http'
import { Client } from '@modelcontextprotocol/sdk/client/index.js'
import { FormBrowser, startTestServer } from '@x/mcp-testing'
import { Provider, type GrantContext } from 'oidc-provider'
import { Agent } from 'undici'
import { afterAll, afterEach, beforeEach, expect, test, vi } from 'vitest'
import { deviceOAuth, memoryTokenStore } from '../src/auth/index.ts'
import { createOAuthFetch } from '../src/http/http-client.ts'
import { StreamableHttpTransport } from '../src/index.ts'
import { signInByCode, TestClock } from './device-user.ts'

const dispatcher = new Agent()
const fetch = createOAuthFetch(dispatcher)
afterAll(() => dispatcher.destroy())
beforeEach(() => {
  // `oidc-provider` says on the console what a server in production has to configure.
  vi.spyOn(console, 'warn').mockImplementation(() => {})
  vi.spyOn(console, 'info').mockImplementation(() => {})
})
afterEach(() => void vi.restoreAllMocks())

interface OidcServer extends AsyncDisposable {
  readonly url: string
  readonly origin: string
  /** Invalidates an access token. */
  revoke(token: string | undefined): Promise<void>
}

/** An MCP server that accepts tokens of `oidc-provider`, which has the same origin. */
async function startOidcServer(): Promise<OidcServer> {
  let provider: Provider | undefined
  const server = await startTestServer((request, response) => {
    if (request.url === '/.well-known/oauth-protected-resource/mcp') {
      return json(response, { resource: server.url, authorization_servers: [origin] })
    }
    if (request.url?.startsWith('/interaction/') === true) {
      const agreed = { login: { accountId: 'ada' }, consent: {} }
      return void provider?.interactionFinished(request, response, agreed)
    }
    if (request.url !== '/mcp') return provider?.callback()(request, response)
    let body = ''
    request.on('data', (chunk: Buffer) => (body += chunk.toString()))
    request.on('end', async () => {
      const [, token = ''] = request.headers.authorization?.split(' ') ?? []
      const found = await provider?.AccessToken.find(token)
      if (found?.aud !== server.url) return response.writeHead(401).end()
      const { id, method } = JSON.parse(body)
      if (id === undefined) return response.writeHead(202).end()
      const opened = {
        protocolVersion: '2025-11-25',
        capabilities: {},
        serverInfo: { name: 'guarded', version: '1' },
      }
      json(response, { jsonrpc: '2.0', id, result: method === 'initialize' ? opened : {} })
    })
  })
  const { origin } = new URL(server.url)
  provider = new Provider(origin, {
    scopes: ['tools', 'offline_access'],
    // The page for the code asks for consent already.
    async loadExistingGrant({ oidc }: GrantContext) {
      const { client, session, provider: here } = oidc
      const grant = new here.Grant({ clientId: client.clientId, accountId: session.accountId })
      grant.addOIDCScope('tools offline_access')
      grant.addResourceScope(server.url, 'tools')
      await grant.save()
      return grant
    },
    features: {
      deviceFlow: { enabled: true },
      registration: { enabled: true },
      devInteractions: { enabled: false },
      resourceIndicators: {
        enabled: true,
        useGrantedResource: () => true,
        getResourceServerInfo: () => ({ scope: 'tools', accessTokenFormat: 'opaque' }),
      },
    },
  })
  return {
    url: server.url,
    origin,
    revoke: async (token = '') => (await provider.AccessToken.find(token))?.destroy(),
    [Symbol.asyncDispose]: () => server[Symbol.asyncDispose](),
  }
}

function json(response: ServerResponse, value: unknown): void {
  response.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify(value))
}

/** Opens the page, agrees, and reads the last page. */
async function enterCode({ origin }: OidcServer, page = ''): Promise<void> {
  const browser = new FormBrowser()
  const end = await browser.signIn(page, `${origin}/device/`)
  expect((await browser.fetch(end)).status).toBe(200)
}

test('gives a token that the MCP server accepts, and later another one without the user', async () => {
  await using server = await startOidcServer()
  const store = memoryTokenStore()
  const tokenNow = async (): Promise<string | undefined> =>
    (await store.read())?.tokens?.access_token
  const clock = new TestClock()
  clock.time = Date.now()
  const opened: (string | undefined)[] = []
  const passTime = clock.sleep.bind(clock)
  clock.sleep = async (ms) => {
    await passTime(ms)
    if (clock.waits.length === 2) await enterCode(server, opened[0]) // after a request that was too early
  }
  await signInByCode(
    { url: server.url, fetch },
    { store, clock, scope: 'tools', onCode: ({ completeUrl }) => void opened.push(completeUrl) },
  )
  expect(clock.waits).toEqual([5000, 5000]) // it names no interval
  expect(opened).toEqual([expect.stringContaining(`${server.origin}/device?user_code=`)])

  const first = await tokenNow()
  const authProvider = deviceOAuth({ store, onCode: (code) => void opened.push(code.url) })
  await using transport = new StreamableHttpTransport(server.url, { authProvider, era: 'legacy' })
  const client = new Client({ name: 'test', version: '1' })
  await client.connect(transport)
  await client.ping()
  expect(await tokenNow()).toBe(first)
  await server.revoke(first)
  await client.ping()
  expect(await tokenNow()).not.toBe(first)
  expect(opened).toHaveLength(1)
})

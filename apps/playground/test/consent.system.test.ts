import { execFile } from 'node:child_process'
import { mkdirSync } from 'node:fs'
import { readFile } from 'node:fs/promises'
import { request as httpRequest } from 'node:http'
import { createServer } from 'node:https'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { AxeBuilder } from '@axe-core/playwright'
import { temporaryFolder } from '@x/internal/testing'
import { createGateway, MemoryGatewayStore } from '@x/mcp-gateway'
import { oauthFacade } from '@x/mcp-gateway-oauth'
import { freePort, startTestServer } from '@x/mcp-testing'
import type { Browser, BrowserContextOptions, Page } from 'playwright-core'
import { afterAll, describe, expect, test } from 'vitest'
import { startChromium } from './chromium.ts'

// The consent page of `@x/mcp-gateway-oauth` in a real browser. Its package has no browser among its dependencies.

const ARTIFACTS = fileURLToPath(new URL('../artifacts/', import.meta.url))
/** Ends what hangs. */
const WAIT = { timeout: 240_000 }

const browser = await startChromium()

interface World extends AsyncDisposable {
  /** URL that a client opens. */
  readonly page: string
  /** Queries with which the browser came back to the client. */
  readonly back: URLSearchParams[]
  /** URL of the identity service. It sends everyone back at once, as if they had signed in there before. */
  readonly identity: string
  /** Text of a page at `/evil` of the identity service, which is another site than the gateway. */
  evil: string
}

/** @param tls with a path that the proxy removes */
async function startWorld(tls: boolean): Promise<World> {
  const store = new MemoryGatewayStore()
  const back: URLSearchParams[] = []
  const client = await startTestServer(({ url = '' }, response) => {
    if (!url.startsWith('/callback?')) return void response.writeHead(404).end()
    back.push(new URL(url, 'http://client').searchParams)
    // An app that goes on to another place, as hosted apps do (FastMCP issue 3369).
    response.writeHead(302, { location: `${identity}/done` }).end()
  }, '')
  const pages = await startTestServer(({ url = '' }, response) => {
    const { pathname, searchParams: query } = new URL(url, 'http://identity')
    const [callback = '', state = ''] = [query.get('callback'), query.get('state')].map(String)
    response.setHeader('content-type', 'text/html')
    if (pathname === '/evil') return void response.end(world.evil)
    if (pathname === '/done') return void response.end('<h1>Connected</h1>')
    // Another host on the way, which the gateway does not know.
    const location =
      pathname === '/login'
        ? `${pages.url}/elsewhere${new URL(url, 'http://identity').search}`
        : `${callback}?${new URLSearchParams({ code: 'upstream', state }).toString()}`
    response.writeHead(302, { location }).end()
  }, '')
  const identity = pages.url.replace('127.0.0.1', 'localhost')
  const port = await freePort()
  const proxy = tls ? await startTls(port) : undefined
  const base = proxy ? `${proxy.url}/team` : `http://127.0.0.1:${port}`
  const auth = oauthFacade({
    store,
    resource: `${base}/mcp`,
    identity: {
      loginUrl: (asked) => `${identity}/login?${new URLSearchParams({ ...asked }).toString()}`,
      exchange: async () => ({ claims: { sub: 'ann' } }),
      refresh: () => Promise.reject(new Error('no refresh is expected')),
    },
  })
  const gateway = createGateway({ auth, store, http: { publicUrl: base }, log: false })
  await gateway.listen({ port })
  const redirectUri = `${client.url}/callback`
  const registered = await fetch(`http://127.0.0.1:${port}/oauth/register`, {
    method: 'POST',
    body: JSON.stringify({ redirect_uris: [redirectUri], client_name: 'Desk <b>Helper</b>' }),
  })
  const { client_id } = (await registered.json()) as { client_id: string }
  const query = new URLSearchParams({
    response_type: 'code',
    client_id,
    redirect_uri: redirectUri,
    code_challenge: 'c'.repeat(43),
    code_challenge_method: 'S256',
    state: 'client-state',
    scope: 'agent:support:call',
  })
  const world: World = {
    page: `${base}/oauth/authorize?${query.toString()}`,
    back,
    identity,
    evil: '',
    [Symbol.asyncDispose]: async () => {
      await gateway.close()
      await proxy?.[Symbol.asyncDispose]()
      await Promise.all([client, pages].map((each) => each[Symbol.asyncDispose]()))
      await store.close()
    },
  }
  return world
}

/** Starts a proxy that speaks https, and removes `/team` from paths. */
async function startTls(port: number): Promise<AsyncDisposable & { readonly url: string }> {
  await using folder = await temporaryFolder()
  const [key, cert] = [folder.file('key.pem'), folder.file('cert.pem')]
  const request = ['req', '-x509', '-newkey', 'rsa:2048', '-nodes', '-subj', '/CN=127.0.0.1']
  await promisify(execFile)('openssl', [...request, '-keyout', key, '-out', cert])
  const secrets = { key: await readFile(key), cert: await readFile(cert) }
  const server = createServer(secrets, (incoming, outgoing) => {
    const { headers, method, url = '' } = incoming
    const path = url.replace(/^\/team/, '')
    const onward = httpRequest({ port, method, path, headers }, (answer) => {
      outgoing.writeHead(answer.statusCode ?? 502, answer.headers)
      answer.pipe(outgoing)
    })
    incoming.pipe(onward)
  })
  const own = await freePort()
  await new Promise<void>((resolve) => server.listen(own, '127.0.0.1', resolve))
  return {
    url: `https://127.0.0.1:${own}`,
    [Symbol.asyncDispose]: async () => {
      server.closeAllConnections()
      await new Promise((resolve) => server.close(resolve))
    },
  }
}

// Without a Chromium they are skipped, with a message; where `CI` is set, `startChromium()` throws instead.
describe.skipIf(browser === undefined)('the consent page', () => {
  const violations: string[] = []
  afterAll(() => browser?.close())

  /** Opens a page in a browser of its own. Without scripts, unless the test says otherwise. */
  async function open(url: string, options: BrowserContextOptions = {}): Promise<Page> {
    const context = await (browser as Browser).newContext({
      ignoreHTTPSErrors: true,
      javaScriptEnabled: false,
      ...options,
    })
    context.setDefaultTimeout(WAIT.timeout)
    const page = await context.newPage()
    page.on('console', (message) => {
      if (message.text().includes('Content Security Policy')) violations.push(message.text())
    })
    await page.goto(url)
    return page
  }
  const press = (page: Page, name: 'Allow and sign in' | 'Deny'): Promise<void> =>
    page.getByRole('button', { name }).click()
  const expectTitle = (page: Page, name: string): Promise<void> =>
    page.getByRole('heading', { name }).waitFor()

  test.each([
    ['over http', false],
    ['over https, behind a path that the proxy removes', true],
  ])(
    'signs in without scripts %s, through hosts that the gateway does not know',
    async (_, tls) => {
      await using world = await startWorld(tls)
      const page = await open(world.page)
      await expectTitle(page, 'Connect an app to 127.0.0.1')
      await page.getByText('Desk <b>Helper</b>').waitFor()
      mkdirSync(ARTIFACTS, { recursive: true })
      await page.screenshot({ path: `${ARTIFACTS}consent.png`, fullPage: true })
      const names = async (): Promise<string[]> =>
        (await page.context().cookies()).map(({ name }) => name)
      expect(await names()).toEqual([tls ? '__Host-mcp-consent' : 'mcp-consent'])
      await press(page, 'Allow and sign in')
      await expectTitle(page, 'Connected')
      expect(world.back.map((query) => query.get('state'))).toEqual(['client-state'])
      expect(world.back[0]?.get('code')).toEqual(expect.any(String))
      expect(await names()).toEqual([tls ? '__Host-mcp-consent' : 'mcp-consent'])
      expect(violations).toEqual([])
    },
  )

  test('signs in from two tabs, in any order', async () => {
    await using world = await startWorld(false)
    const first = await open(world.page)
    const second = await first.context().newPage()
    await second.goto(world.page.replace('client-state', 'second'))
    await press(first, 'Allow and sign in')
    await expectTitle(first, 'Connected')
    await press(second, 'Allow and sign in')
    await expectTitle(second, 'Connected')
    expect(world.back.map((query) => query.get('state'))).toEqual(['client-state', 'second'])
  })

  test('tells the client that the person denied', async () => {
    await using world = await startWorld(false)
    const page = await open(world.page)
    await press(page, 'Deny')
    await expectTitle(page, 'Connected')
    expect(world.back.map((query) => query.get('error'))).toEqual(['access_denied'])
  })

  test('does not finish in the browser of a victim what an attacker began', async () => {
    await using world = await startWorld(false)
    const attacker = await open(world.page)
    const { promise: begun, resolve } = Promise.withResolvers<string>()
    await attacker.route(`${world.identity}/login**`, async (route) => {
      resolve(route.request().url())
      await route.abort()
    })
    await press(attacker, 'Allow and sign in')
    const victim = await open(await begun)
    await expectTitle(victim, 'This sign-in cannot be finished here')
    expect(world.back).toEqual([])
  })

  test('refuses the answer that a page of another site sends for a victim', async () => {
    await using world = await startWorld(false)
    const attacker = await open(world.page)
    const form = await attacker.locator('form').innerHTML()
    world.evil = `<form method="post" action="${world.page.replaceAll('&', '&amp;')}">${form}</form>`
    const victim = await open(world.page)
    await victim.goto(`${world.identity}/evil`)
    await press(victim, 'Allow and sign in')
    await expectTitle(victim, 'This answer cannot be used')
    expect(world.back).toEqual([])
  })

  test('is not shown in a frame', async () => {
    await using world = await startWorld(false)
    world.evil = `<iframe src="${world.page.replaceAll('&', '&amp;')}"></iframe><h1>Loaded</h1>`
    const page = await open('about:blank')
    const refused = page.waitForEvent('console', (message) => /frame/i.test(message.text()))
    await page.goto(`${world.identity}/evil`)
    expect((await refused).text()).toMatch(/frame-ancestors|X-Frame-Options/)
    const frame = page.frames().find((each) => each !== page.mainFrame())
    expect(frame?.url()).not.toContain('/oauth/authorize')
  })

  test('can be used with a screen reader and a small screen', async () => {
    await using world = await startWorld(false)
    const options = { bypassCSP: true, javaScriptEnabled: true }
    const page = await open(world.page, { ...options, viewport: { width: 320, height: 640 } })
    const found = await new AxeBuilder({ page }).analyze()
    expect(found.violations.map(({ id, nodes }) => [id, nodes[0]?.html])).toEqual([])
    const width = await page.evaluate('document.documentElement.scrollWidth')
    expect(width).toBe(320)
  })
})

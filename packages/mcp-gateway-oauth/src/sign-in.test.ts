import { createHash } from 'node:crypto'
import { FormBrowser } from '@x/mcp-testing'
import { expect, test } from 'vitest'
import {
  ask,
  authorizeQuery,
  beginIn,
  codeOf,
  comeBack,
  expectPage,
  locationOf,
  ORIGIN,
  press,
  REDIRECT,
  refreshOf,
  register,
  registration,
  start,
} from '../test/oauth-world.ts'
import type { Asked } from '../test/oauth-world.ts'

const NOT_HERE = 'This sign-in cannot be finished here'
const NOT_USED = 'This answer cannot be used'

/** A browser, and the `Cookie` header of each of its requests. */
function watched(): { readonly browser: FormBrowser; readonly set: string[] } {
  const set: string[] = []
  const browser = new FormBrowser()
  const fetch = browser.fetch.bind(browser)
  browser.fetch = async (url, init, send) => {
    const response = await fetch(url, init, send)
    set.push(...response.headers.getSetCookie())
    return response
  }
  return { browser, set }
}

async function registerNamed(world: Awaited<ReturnType<typeof start>>, name: unknown) {
  const body = { redirect_uris: [REDIRECT], client_name: name }
  return (await (await registration(world.one, body)).json()) as {
    client_id: string
    client_name?: string
  }
}

test('shows the client, the scopes, the gateway and the redirect URI before it asks anybody else', async () => {
  await using world = await start()
  const { client_id } = await registerNamed(world, 'Desk Helper')
  const scope = 'agent:shop:call files:read'
  const page = await ask(world.one, authorizeQuery(client_id, { scope }))
  const text = await page.text()
  for (const shown of [
    '<bdi>Desk Helper</bdi>',
    'nobody has checked the name',
    'gateway.example/mcp',
    'use the agent <b>shop</b>',
    '<b>files:read</b>',
    'A program on this device, at <b>127.0.0.1:4444</b>',
    REDIRECT,
  ]) {
    expect(text).toContain(shown)
  }
  expect(text).not.toMatch(/<script|javascript:|\bon\w+=/i)
  expect(world.upstream.asked).toEqual([])
  const records = await world.store.records.list('oauth:')
  expect(records.map(({ key }) => key)).toEqual([`oauth:client:${client_id}`])
})

test.each([[''], ['*'], ['agent:shop:call *']])(
  'says that the scope "%s" is everything',
  async (scope) => {
    await using world = await start()
    const page = await ask(world.one, authorizeQuery(await register(world.one), { scope }))
    const text = await page.text()
    expect(text).toContain('do everything that you may do here, as you')
    expect(text).not.toContain('use the agent')
  },
)

test('names the host of a metadata document, and a website or an app as destination', async () => {
  const id = 'https://app.example/client.json'
  const redirectUris = ['https://web.example/cb', 'desk.app:/cb']
  const document = { client_id: id, client_name: 'Web app', redirect_uris: redirectUris }
  await using world = await start({
    redirectUris,
    guardedFetch: async () => Response.json(document),
  })
  const textFor = async (redirect_uri = ''): Promise<string> =>
    (await ask(world.one, authorizeQuery(id, { redirect_uri }))).text()
  const web = await textFor(redirectUris[0])
  expect(web).toContain(
    'The name comes from <b>app.example</b> (<code>https://app.example/client.json</code>)',
  )
  expect(web).toContain('The website <b>web.example</b>')
  expect(await textFor(redirectUris[1])).toContain('opens <b>desk.app:</b> links')
})

test('forbids scripts, frames, other forms, caches and referrers on each of its pages', async () => {
  await using world = await start()
  const path = authorizeQuery(await register(world.one))
  const page = await ask(world.one, path)
  const text = await page.clone().text()
  const leaving = await press(world.one, { path, page: page.clone(), decision: 'allow' })
  const pages = [page, leaving, await comeBack(world.one, 'made-up')]
  pages.push(await ask(world.one, path, { method: 'POST' }))
  for (const { headers } of pages) {
    expect(headers.get('content-security-policy')).toMatch(
      /^default-src 'none'; style-src 'sha256-[\w+/=]{44}'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'$/,
    )
    expect(headers.get('x-frame-options')).toBe('DENY')
    expect(headers.get('referrer-policy')).toBe('no-referrer')
    expect(headers.get('cache-control')).toBe('no-store')
    expect(headers.get('x-content-type-options')).toBe('nosniff')
  }
  const [, style = ''] = /<style>([^]*?)<\/style>/.exec(text) ?? []
  const hash = createHash('sha256').update(style).digest('base64')
  expect(page.headers.get('content-security-policy')).toContain(`'sha256-${hash}'`)
})

test.each<[string, unknown, string | undefined]>([
  [
    'HTML',
    '<img src=x onerror=alert(1)>"\'&',
    '&#60;img src=x onerror=alert(1)&#62;&#34;&#39;&#38;',
  ],
  ['a change of direction', 'Good\u202Eppa\u2066 app\u200F', 'Goodppa app'],
  ['tags and joiners', 'A\u{E0041}\u200D\u200BB', 'AB'],
  ['controls and lines', 'A\u0007\n\n\tB\u001B[31m', 'A B'],
  ['nothing that is seen', '\u3164\u2800\u00AD \u200B', undefined],
  ['nothing', '', undefined],
  ['no text', 7, undefined],
  ['half of a character', 'A\uD800', 'A'],
  ['10 kB', 'x'.repeat(10_000), `${'x'.repeat(79)}…`],
  ['10,000 characters of two units', '🙂'.repeat(10_000), `${'🙂'.repeat(79)}…`],
])('shows a name with %s as one short, harmless line', async (_what, name, shown) => {
  await using world = await start()
  const client = await registerNamed(world, name)
  const text = await (await ask(world.one, authorizeQuery(client.client_id))).text()
  expect(text).toContain(`<bdi>${shown ?? 'No name'}</bdi>`)
  expect(text).not.toMatch(/<img|\p{Bidi_Control}/u)
  expect('client_name' in client).toBe(shown !== undefined)
})

test.each([
  'javascript:alert(1)',
  'JavaScript:alert(1)',
  'data:text/html,hi',
  'vbscript:x',
  'blob:https://app.example/1',
  'file:///etc/passwd',
  'about:blank',
  'view-source:https://app.example/',
])('sends no code to %s, even if the operator lists it', async (uri) => {
  await using world = await start({ redirectUris: [uri] })
  expect((await registration(world.one, { redirect_uris: [uri] })).status).toBe(400)
})

test('binds the sign-in to the browser with a cookie that only this gateway can set', async () => {
  await using world = await start()
  const { browser, set } = watched()
  const state = await beginIn(world.one, await register(world.one), { browser })
  const back = await comeBack(world.other, state, { browser })
  expect(locationOf(back).searchParams.has('code')).toBe(true)
  const kept = 'Path=/; Secure; HttpOnly; SameSite=Lax'
  expect(set).toEqual([
    expect.stringMatching(`^__Host-mcp-consent=[\\w-]{43}; Max-Age=3600; ${kept}$`),
    expect.stringMatching(`^__Host-mcp-sign-in-[\\w-]{16}=[\\w-]{43}; Max-Age=600; ${kept}$`),
    expect.stringMatching(`^__Host-mcp-sign-in-[\\w-]{16}=; Max-Age=0; ${kept}$`),
  ])
  const [, secret = ''] = /=([\w-]+)/.exec(set[1] ?? '') ?? []
  expect(secret).not.toBe(state)
})

test('sets cookies without Secure over http on this machine', async () => {
  const resource = 'http://127.0.0.1:8000/mcp'
  await using world = await start({ resource })
  const page = await ask(world.one, authorizeQuery(await register(world.one)))
  expect(page.headers.getSetCookie()).toEqual([
    expect.stringMatching(/^mcp-consent=[\w-]{43}; Max-Age=3600; Path=\/; HttpOnly; SameSite=Lax$/),
  ])
})

test('a sign-in that an attacker began gives no code in the browser of the victim, and no upstream call', async () => {
  await using world = await start()
  const clientId = await register(world.one)
  const attacker = { browser: new FormBrowser() }
  const victim = { browser: new FormBrowser() }
  // The attacker agrees, and sends the URL of the identity service, which then sends the victim back here.
  const state = await beginIn(world.one, clientId, attacker)
  await expectPage(await comeBack(world.one, state, victim), NOT_HERE)
  // A sign-in of the victim does not help the attacker.
  await beginIn(world.one, clientId, victim)
  await expectPage(await comeBack(world.other, state, victim), NOT_HERE)
  await expectPage(await comeBack(world.one, state, { ...victim, more: '&error=x' }), NOT_HERE)
  expect(world.upstream.asked).toEqual([])
  // The browser that began it can still finish it (login CSRF fails in the other direction in the same way).
  expect(locationOf(await comeBack(world.one, state, attacker)).searchParams.has('code')).toBe(true)
})

test('a cookie of one sign-in does not finish another one', async () => {
  await using world = await start()
  const clientId = await register(world.one)
  const { browser, set } = watched()
  await beginIn(world.one, clientId, { browser })
  const own = set.find((line) => line.includes('sign-in'))?.split(';', 1)[0] ?? ''
  const attacker = watched()
  const state = await beginIn(world.one, clientId, attacker)
  const [name = ''] = attacker.set.find((line) => line.includes('sign-in'))?.split('=') ?? []
  const value = own.slice(own.indexOf('=') + 1)
  const stranger = { browser: new FormBrowser() }
  for (const cookie of [own, `${name}=${value}`, `${name}=`, name, `${name}=${state}`]) {
    const answer = await comeBack(world.one, state, { ...stranger, headers: { cookie } })
    await expectPage(answer, NOT_HERE)
  }
})

test('refuses cookies that occur twice, or without the prefix', async () => {
  await using world = await start()
  const { browser, set } = watched()
  const state = await beginIn(world.one, await register(world.one), { browser })
  const pair = set.find((line) => line.includes('sign-in'))?.split(';', 1)[0] ?? ''
  const stranger = { browser: new FormBrowser() }
  for (const cookie of [
    `${pair}; ${pair}`,
    `${pair.replace(/=.*/, '=x')}; ${pair}`,
    pair.replace('__Host-', ''),
    pair.replace('__Host-', '__host-'),
  ]) {
    const answer = await comeBack(world.one, state, { ...stranger, headers: { cookie } })
    await expectPage(answer, NOT_HERE)
  }
  const headers = { cookie: `theme=dark;${pair} ; other="a=b"` }
  expect((await comeBack(world.one, state, { ...stranger, headers })).status).toBe(302)
})

test('accepts a callback once in the same browser, and not after ten minutes', async () => {
  await using world = await start()
  const clientId = await register(world.one)
  const mine = { browser: new FormBrowser() }
  const state = await beginIn(world.one, clientId, mine)
  expect((await comeBack(world.one, state, mine)).status).toBe(302)
  await expectPage(await comeBack(world.one, state, mine), NOT_HERE)
  const { browser, set } = watched()
  const late = await beginIn(world.one, clientId, { browser })
  world.time.now += 600_000
  // A browser may keep a cookie for longer than it should.
  const headers = { cookie: set.find((line) => line.includes('sign-in'))?.split(';', 1)[0] ?? '' }
  await expectPage(await comeBack(world.one, late, { headers }), NOT_HERE)
})

test('two tabs of a browser sign in at the same time, each step at another process', async () => {
  await using world = await start()
  const clientId = await register(world.one)
  const tab = { browser: new FormBrowser() }
  const [path, second] = [authorizeQuery(clientId), authorizeQuery(clientId, { state: 'tab-2' })]
  const pages = [await ask(world.one, path, tab), await ask(world.other, second, tab)] as const
  const allow = async (at: string, page: Response): Promise<string> => {
    const login = await refreshOf(
      await press(world.other, { path: at, page, decision: 'allow' }, tab),
    )
    return login.searchParams.get('state') ?? ''
  }
  const states = [await allow(path, pages[0]), await allow(second, pages[1])] as const
  const back = async (state: string): Promise<string | null> =>
    locationOf(await comeBack(world.one, state, tab)).searchParams.get('state')
  expect([await back(states[1]), await back(states[0])]).toEqual(['tab-2', 'client-state'])
})

test('tells the client that the person denied, and begins no sign-in', async () => {
  await using world = await start()
  const path = authorizeQuery(await register(world.one))
  const page = await ask(world.one, path)
  const answer = await press(world.one, { path, page, decision: 'deny' })
  expect(answer.headers.getSetCookie()).toEqual([])
  const back = await refreshOf(answer)
  expect(`${back.origin}${back.pathname}`).toBe(REDIRECT)
  expect(Object.fromEntries(back.searchParams)).toEqual({
    error: 'access_denied',
    state: 'client-state',
    iss: ORIGIN,
  })
  expect(await world.store.records.list('oauth:state:')).toEqual([])
})

test.each<[string, Record<string, string>]>([
  ['without a token', {}],
  ['with a token of another browser', { token: 'foreign' }],
  ['with a token for another client', { token: 'other client' }],
  ['with a token for other scopes', { token: 'other scopes' }],
  ['with two tokens', { token: 'twice' }],
])('refuses an answer %s', async (_what, { token }) => {
  await using world = await start()
  const [clientId, other] = [await register(world.one), await register(world.one)]
  const mine = { browser: new FormBrowser() }
  const tokenOf = async (path: string, asked: Asked): Promise<string> => {
    const text = await (await ask(world.one, path, asked)).text()
    return /name="token" value="([^"]+)"/.exec(text)?.[1] ?? ''
  }
  const path = authorizeQuery(clientId)
  const own = await tokenOf(path, mine)
  const foreign = await tokenOf(path, { browser: new FormBrowser() })
  const elsewhere = await tokenOf(authorizeQuery(other), mine)
  const wider = await tokenOf(authorizeQuery(clientId, { scope: 'a' }), mine)
  const tokens: Record<string, string[]> = {
    foreign: [foreign],
    'other client': [elsewhere],
    'other scopes': [wider],
    twice: [own, own],
  }
  const body = new URLSearchParams({ decision: 'allow' })
  for (const each of tokens[token ?? ''] ?? []) body.append('token', each)
  const post = { method: 'POST', body, ...mine }
  await expectPage(await ask(world.one, path, post), NOT_USED)
  expect(await world.store.records.list('oauth:state:')).toEqual([])
})

test.each<[string, Record<string, string>]>([
  ['of another site', { origin: 'https://evil.example', 'sec-fetch-site': 'cross-site' }],
  ['of another site in an old browser', { origin: 'https://evil.example' }],
  ['of a sandboxed frame', { origin: 'null', 'sec-fetch-site': 'cross-site' }],
  ['of a subdomain', { origin: 'https://x.gateway.example', 'sec-fetch-site': 'same-site' }],
  ['of another port', { origin: 'https://gateway.example:8443', 'sec-fetch-site': 'same-site' }],
  ['that no page sent', { 'sec-fetch-site': 'none' }],
  ['as text', { 'content-type': 'text/plain' }],
  ['as JSON', { 'content-type': 'application/json' }],
])('refuses an answer %s, even with the right token', async (_what, headers) => {
  await using world = await start()
  const path = authorizeQuery(await register(world.one))
  const page = await ask(world.one, path)
  const answer = await press(world.one, { path, page, decision: 'allow' }, { headers })
  await expectPage(answer, NOT_USED)
})

test.each<[string, Record<string, string>]>([
  ['of a browser that sends its origin', { origin: ORIGIN, 'sec-fetch-site': 'same-origin' }],
  ['of a browser without fetch metadata', { origin: 'null' }],
  ['of a browser that says nothing', {}],
])('accepts an answer %s', async (_what, headers) => {
  await using world = await start()
  const path = authorizeQuery(await register(world.one))
  const page = await ask(world.one, path)
  const leaving = await press(world.one, { path, page, decision: 'allow' }, { headers })
  expect((await refreshOf(leaving)).pathname).toBe('/login')
})

test.each(['HEAD', 'PUT', 'DELETE', 'OPTIONS', 'PATCH'])(
  'answers 405 to %s, and stores nothing',
  async (method) => {
    await using world = await start()
    const path = authorizeQuery(await register(world.one))
    const answer = await ask(world.one, path, { method })
    expect([answer.status, answer.headers.get('allow')]).toEqual([405, 'GET, POST'])
    expect((await ask(world.one, '/oauth/callback?state=x', { method })).status).toBe(405)
    expect(await world.store.records.list('oauth:state:')).toEqual([])
  },
)

test('sends no error to a redirect URI that is not of the client, whatever the method', async () => {
  await using world = await start()
  const path = authorizeQuery(await register(world.one), { redirect_uri: 'https://evil.example/' })
  for (const method of ['GET', 'POST']) {
    const answer = await ask(world.one, path, { method })
    expect([answer.status, answer.headers.get('location')]).toEqual([400, null])
    expect(await answer.text()).not.toContain('evil.example')
  }
})

test('asks again at each sign-in of the same client', async () => {
  await using world = await start()
  const clientId = await register(world.one)
  await codeOf(world.one, clientId)
  const page = await ask(world.one, authorizeQuery(clientId))
  expect(await page.text()).toContain('Allow and sign in')
})

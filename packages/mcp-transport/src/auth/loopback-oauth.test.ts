import { createServer } from 'node:http'
import { deferred, freePort } from '@x/mcp-testing'
import { Agent } from 'undici'
import { afterAll, expect, test } from 'vitest'
import { browse, startProtectedServer } from '../../test/protected-server.ts'
import type { ProtectedServer } from '../../test/protected-server.ts'
import { createOAuthFetch } from '../http/http-client.ts'
import type { OAuthClientProvider } from './auth-provider.ts'
import { Authorizer } from './authorizer.ts'
import { loopbackOAuth } from './providers.ts'
import { memoryTokenStore } from './token-store.ts'

const dispatcher = new Agent()
afterAll(() => dispatcher.destroy())

async function authorize(
  server: ProtectedServer,
  provider: OAuthClientProvider,
  signal: AbortSignal = new AbortController().signal,
): Promise<string | undefined> {
  const authorizer = new Authorizer(provider, new URL(server.url), createOAuthFetch(dispatcher))
  await authorizer.renew({
    signal,
    refused: (await authorizer.credential('POST'))?.token,
    isStepUp: false,
    refusal: { status: 401, headers: {}, text: '' },
  })
  return (await authorizer.credential('POST'))?.token
}

const visit = async (url: URL | string): Promise<Response> => fetch(await browse(new URL(url)))
const redirectOf = (url: URL | undefined): string => url?.searchParams.get('redirect_uri') ?? ''

test('opens a browser, waits for the callback, and closes the listener', async () => {
  await using server = await startProtectedServer()
  const opened: URL[] = []
  const page = deferred<string>()
  const provider = loopbackOAuth({
    clientName: 'command',
    openBrowser: (url) => {
      opened.push(url)
      void visit(url).then(async (response) => page.resolve(await response.text()))
    },
  })
  expect(await authorize(server, provider)).toBe('access-1')
  expect(await page.promise).toContain('You can close this page.')
  const redirect = redirectOf(opened[0])
  expect(redirect).toMatch(/^http:\/\/127\.0\.0\.1:\d+\/callback$/)
  expect(JSON.parse(server.of('/register')[0]?.body ?? '')).toMatchObject({
    client_name: 'command',
    application_type: 'native',
    redirect_uris: [redirect],
  })
  await expect(fetch(redirect)).rejects.toThrow('fetch failed')
})

test('listens on the registered port again, and registers the client again if that port is in use', async () => {
  await using server = await startProtectedServer()
  const store = memoryTokenStore()
  const opened: URL[] = []
  const openBrowser = (url: URL): void => {
    opened.push(url)
    void visit(url)
  }
  const forget = async (): Promise<void> => {
    await loopbackOAuth({ store, openBrowser }).invalidateCredentials?.('tokens')
  }
  await authorize(server, loopbackOAuth({ store, openBrowser }))
  await forget()
  await authorize(server, loopbackOAuth({ store, openBrowser }))
  expect(redirectOf(opened[1])).toBe(redirectOf(opened[0]))
  expect(server.of('/register')).toHaveLength(1)
  await forget()
  const port = Number(new URL(redirectOf(opened[0])).port)
  const other = createServer()
  await new Promise<void>((resolve) => other.listen(port, '127.0.0.1', resolve))
  await authorize(server, loopbackOAuth({ store, openBrowser }))
  await new Promise((resolve) => other.close(resolve))
  expect(redirectOf(opened[2])).not.toBe(redirectOf(opened[0]))
  expect(server.of('/register')).toHaveLength(2)
})

test('refuses requests that are not its callback', async () => {
  await using server = await startProtectedServer()
  const answers: number[] = []
  const port = await freePort()
  const provider = loopbackOAuth({
    port,
    path: '/back',
    async openBrowser(url) {
      const base = `http://127.0.0.1:${port}`
      for (const path of ['/', '/back', '/other?code=x', '/back?code=stolen&state=wrong']) {
        answers.push((await fetch(base + path)).status)
      }
      void visit(url)
    },
  })
  expect(await authorize(server, provider)).toBe('access-1')
  expect(answers).toEqual([404, 404, 404, 400])
})

test('rejects with TIMEOUT and closes the listener if no callback arrives', async () => {
  await using server = await startProtectedServer()
  const opened: URL[] = []
  const provider = loopbackOAuth({ openBrowser: (url) => opened.push(url), waitMs: 20 })
  await expect(authorize(server, provider)).rejects.toMatchObject({ code: 'TIMEOUT' })
  await expect(fetch(redirectOf(opened[0]))).rejects.toThrow('fetch failed')
})

test('closes the listener when the request is aborted', async () => {
  await using server = await startProtectedServer()
  const opened = deferred<URL>()
  const controller = new AbortController()
  const provider = loopbackOAuth({ openBrowser: (url) => opened.resolve(url) })
  const token = authorize(server, provider, controller.signal)
  token.catch(() => {}) // awaited below
  const url = await opened.promise
  controller.abort()
  await expect(token).rejects.toMatchObject({ code: 'CLOSED' })
  await expect(fetch(redirectOf(url))).rejects.toThrow('fetch failed')
})

test('rejects with the reason if the browser cannot be opened', async () => {
  await using server = await startProtectedServer()
  const provider = loopbackOAuth({
    openBrowser: () => {
      throw new Error('no display')
    },
  })
  await expect(authorize(server, provider)).rejects.toThrow('no display')
})

test('rejects with DENIED if the user refuses', async () => {
  await using server = await startProtectedServer()
  const provider = loopbackOAuth({
    openBrowser: (url) => {
      const back = new URL(redirectOf(url))
      back.searchParams.set('error', 'access_denied')
      back.searchParams.set('state', url.searchParams.get('state') ?? '')
      void fetch(back)
    },
  })
  await expect(authorize(server, provider)).rejects.toMatchObject({ code: 'DENIED' })
})

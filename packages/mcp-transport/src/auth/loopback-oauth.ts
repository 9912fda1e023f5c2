import { assertOptions, check } from '@x/internal'
import type { Checks } from '@x/internal'
import { authProviderOptionChecks, createAuthProvider } from './create-auth-provider.ts'
import type { AuthProviderOptions } from './create-auth-provider.ts'
import { listenForRedirect } from './user/loopback-redirect.ts'
import type { LoopbackRedirect } from './user/loopback-redirect.ts'
import type { OAuthClientProvider } from './oauth-client-provider.ts'
import { memoryTokenStore } from './stores/token-store.ts'

export interface LoopbackOAuthOptions extends Omit<
  AuthProviderOptions,
  'redirectUrl' | 'redirect'
> {
  /** Shows the page to the user, in a browser on this machine. What it throws ends the authorization. */
  readonly openBrowser: (url: URL) => unknown
  /** For servers that compare redirect URLs to the letter. @default any free port, the registered one first */
  readonly port?: number | undefined
  /** @default '/callback' */
  readonly path?: string | undefined
  /** How long the user may take, in milliseconds. @default 300_000 */
  readonly waitMs?: number | undefined
  /** HTML for the user who comes back. @default a sentence */
  readonly page?: string | undefined
}

const { redirectUrl: _url, redirect: _redirect, ...commonChecks } = authProviderOptionChecks
const optionChecks: Checks<LoopbackOAuthOptions> = {
  ...commonChecks,
  openBrowser: check.required(check.func),
  port: check.number(),
  path: check.text,
  waitMs: check.number(),
  page: check.text,
}

const PAGE = '<!doctype html><title>Done</title><p>Done. You can close this page.</p>'

/**
 * An `authProvider` for commands and desktop applications: opens a browser when a user has to be asked,
 * and listens on 127.0.0.1 for as long as that takes (RFC 8252). The request that needed the token waits,
 * and goes on.
 *
 * @throws TypeError for an option that is missing, unknown or cannot be used.
 */
export function loopbackOAuth(options: LoopbackOAuthOptions): OAuthClientProvider {
  assertOptions('loopbackOAuth()', options, optionChecks)
  const { openBrowser, port, path = '/callback', waitMs = 300_000, page = PAGE, ...rest } = options
  const store = rest.store ?? memoryTokenStore()
  let redirect: LoopbackRedirect | undefined
  const redirectUrl = (): string => urlOf(redirect?.port ?? port, path)

  const close = async (): Promise<void> => {
    const open = redirect
    redirect = undefined
    await open?.[Symbol.asyncDispose]()
  }
  const base = createAuthProvider({
    ...rest,
    store,
    redirectUrl: redirectUrl(),
    async redirect(url, { signal }) {
      if (redirect === undefined) throw new TypeError('prepareRedirect() has to be called before')
      try {
        const state = url.searchParams.get('state') ?? ''
        const callback = redirect.callback(state, { ms: waitMs, signal })
        callback.catch(() => {}) // awaited below, unless the browser cannot be opened
        await openBrowser(url)
        return await callback
      } finally {
        await close()
      }
    },
  })
  const { clientMetadata } = base
  return {
    ...base,
    get redirectUrl() {
      return redirectUrl()
    },
    get clientMetadata() {
      return { ...clientMetadata, application_type: 'native', redirect_uris: [redirectUrl()] }
    },
    async prepareRedirect({ signal }) {
      await close()
      const registered = portOf((await base.clientInformation())?.redirect_uris, path)
      const isPortFixed = port !== undefined
      redirect = await listenForRedirect({ port: port ?? registered ?? 0, isPortFixed, path, page })
      signal.addEventListener('abort', () => void close(), { once: true })
      if (signal.aborted) await close()
    },
    /** A registration for another port is of no use while a user is being asked. */
    async clientInformation(context) {
      const client = await base.clientInformation(context)
      const uris = client?.redirect_uris
      if (redirect === undefined || uris === undefined || uris.length === 0) return client
      return uris.includes(redirectUrl()) ? client : undefined
    },
  }
}

function urlOf(port: number | undefined, path: string): string {
  const url = new URL(path, 'http://127.0.0.1')
  if (port !== undefined && port !== 0) url.port = String(port)
  return url.href
}

function portOf(uris: readonly string[] | undefined, path: string): number | undefined {
  for (const uri of uris ?? []) {
    if (!URL.canParse(uri)) continue
    const { hostname, pathname, port } = new URL(uri)
    if (hostname === '127.0.0.1' && pathname === path && port !== '') return Number(port)
  }
  return undefined
}

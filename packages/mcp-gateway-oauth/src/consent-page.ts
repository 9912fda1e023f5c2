import { createHmac, timingSafeEqual } from 'node:crypto'
import { canonicalJson, isLoopback } from '@x/internal'
import type { Client } from './clients.ts'
import { markup, pageResponse, type Html } from './pages.ts'

/** What a person is asked to allow. */
export interface ConsentRequest {
  readonly client: Client
  readonly redirectUri: string
  readonly codeChallenge: string
  readonly clientState: string | undefined
  /** Requested scopes. Empty: all that the person has. */
  readonly scopes: readonly string[]
}

export interface ConsentPage {
  readonly request: ConsentRequest
  /** URL of the MCP endpoint. */
  readonly resource: string
  /** See `consentToken()`. */
  readonly token: string
  readonly setCookie: string
}

/** Returns the page that asks whether a client may use the gateway. Its form goes to the URL of the page. */
export function consentPage({ request, resource, token, setCookie }: ConsentPage): Response {
  const { client, redirectUri, scopes } = request
  const { host, pathname } = new URL(resource)
  const body = markup`<p>Allow this only if you have just begun to connect this app yourself.</p>
<dl>
<dt>App</dt>
<dd><b><bdi>${client.name ?? 'No name'}</bdi></b><br>${identification(client)}</dd>
<dt>Gateway</dt>
<dd>${host}${pathname === '/' ? '' : pathname}</dd>
<dt>The app may</dt>
<dd><ul>${wordsFor(scopes)}</ul></dd>
<dt>Access goes to</dt>
<dd>${destination(redirectUri)}<br><code>${redirectUri}</code></dd>
</dl>
<form method="post">
<input type="hidden" name="token" value="${token}">
<button type="submit" name="decision" value="allow">Allow and sign in</button>
<button type="submit" name="decision" value="deny">Deny</button>
</form>`
  return pageResponse({ title: `Connect an app to ${host}?`, body, setCookie })
}

/**
 * Returns the CSRF token of the form. It holds for one request in one browser: it is made with the secret in the cookie
 * of the page, which no other site can read or set.
 */
export function consentToken(secret: string, request: ConsentRequest): string {
  return createHmac('sha256', secret).update(canonicalJson(request)).digest('base64url')
}

export function isConsentToken(token: string, expected: string): boolean {
  const [given, wanted] = [Buffer.from(token), Buffer.from(expected)]
  return given.byteLength === wanted.byteLength && timingSafeEqual(given, wanted)
}

function identification({ documentUrl }: Client): Html {
  if (documentUrl === undefined) {
    return markup`It registered here itself, so nobody has checked the name.`
  }
  return markup`The name comes from <b>${new URL(documentUrl).host}</b> (<code>${documentUrl}</code>).`
}

function destination(redirectUri: string): Html {
  const { protocol, host, hostname } = new URL(redirectUri)
  if (protocol !== 'http:' && protocol !== 'https:') {
    return markup`The app on this device that opens <b>${protocol}</b> links.`
  }
  if (isLoopback(hostname)) return markup`A program on this device, at <b>${host}</b>.`
  return markup`The website <b>${host}</b>.`
}

function wordsFor(scopes: readonly string[]): readonly Html[] {
  if (scopes.length === 0 || scopes.includes('*')) {
    return [markup`<li>do everything that you may do here, as you</li>`]
  }
  return [...new Set(scopes)].map((scope) => {
    const [, agent] = /^agent:(.+):call$/.exec(scope) ?? []
    if (agent !== undefined) return markup`<li>use the agent <b>${agent}</b> as you</li>`
    return markup`<li>use what the scope <b>${scope}</b> allows, as you</li>`
  })
}

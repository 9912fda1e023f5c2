/** How requests reach their server. */
export type SendRequest = (request: Request) => Promise<Response>

interface Form {
  /** As the page writes it. Empty: the URL of the page. */
  readonly action: string
  readonly fields: URLSearchParams
}

/** More steps than a sign-in has: a loop of redirects ends. */
const MAX_STEPS = 20

/**
 * A browser without a window, for sign-ins in tests. It keeps cookies, follows redirects and refreshes, and presses the
 * first button of the first form on a page: on a consent page, that of the person who agrees. It runs no scripts.
 *
 * @example
 * ```ts
 * import { FormBrowser } from '@x/mcp-testing'
 *
 * // Signs in at an authorization server, and returns the address that it redirects to.
 * export const signIn = (authorizationUrl: string) =>
 *   new FormBrowser().signIn(authorizationUrl, 'http://localhost/callback')
 * ```
 */
export class FormBrowser {
  /** Cookies by host. Browsers do not tell the ports of a host apart. */
  readonly #cookies = new Map<string, Map<string, string>>()

  /**
   * Sends one request with the cookies for its host, and keeps those of the answer. Follows nothing.
   *
   * @param send @default the `fetch` of this process
   */
  async fetch(
    url: string | URL,
    init: RequestInit = {},
    send: SendRequest = (request) => globalThis.fetch(request),
  ): Promise<Response> {
    const request = new Request(url, { ...init, redirect: 'manual' })
    const { hostname, protocol } = new URL(request.url)
    const jar = this.#cookies.get(hostname) ?? new Map<string, string>()
    this.#cookies.set(hostname, jar)
    const pairs = [...jar].map(([name, value]) => `${name}=${value}`)
    if (pairs.length > 0) request.headers.set('cookie', pairs.join('; '))
    const response = await send(request)
    for (const line of response.headers.getSetCookie()) keep(jar, line, protocol === 'https:')
    return response
  }

  /**
   * Opens a page, and agrees on each page on the way.
   *
   * @param redirectUrl where the sign-in ends
   * @returns the first URL that begins with `redirectUrl`, with the parameters of the authorization server. It is not opened
   * @throws Error if a page leads nowhere
   */
  async signIn(url: string | URL, redirectUrl: string): Promise<URL> {
    let at = new URL(url)
    let form: Form | undefined
    for (let step = 0; step < MAX_STEPS; step++) {
      if (at.href.startsWith(redirectUrl)) return at
      const init = form && { method: 'POST', body: form.fields }
      const response = await this.fetch(at, init)
      const text = await response.text()
      const next = response.headers.get('location') ?? refreshIn(text)
      form = next === undefined ? formIn(text) : undefined
      if (next === undefined && !form) {
        throw new Error(`${at.host}${at.pathname} answered ${response.status}, and leads nowhere`)
      }
      at = new URL(next ?? form?.action ?? '', at)
    }
    throw new Error(`The sign-in did not come to ${redirectUrl} in ${MAX_STEPS} steps`)
  }
}

/** Keeps or deletes the cookie of a `Set-Cookie` line. */
function keep(jar: Map<string, string>, line: string, isSecure: boolean): void {
  const [pair = '', ...attributes] = line.split(';').map((part) => part.trim())
  const has = (wanted: string): boolean =>
    attributes.some((each) => each.toLowerCase() === wanted.toLowerCase())
  const name = pair.slice(0, pair.indexOf('='))
  if (has('Secure') && !isSecure) return
  if (name.startsWith('__Host-') && !(isSecure && has('Secure') && has('Path=/'))) return
  if (has('Max-Age=0')) jar.delete(name)
  else jar.set(name, pair.slice(name.length + 1))
}

/** Returns the URL of `<meta http-equiv="refresh">`. */
function refreshIn(page: string): string | undefined {
  const content = attributesOf(page, 'meta').find(
    (meta) => meta['http-equiv']?.toLowerCase() === 'refresh',
  )?.['content']
  return content?.match(/;\s*url=(.*)$/i)?.[1]
}

/** Returns the first form, as a press of its first button submits it. */
function formIn(page: string): Form | undefined {
  const [form] = page.match(/<form\b[^]*?<\/form>/i) ?? []
  if (form === undefined) return undefined
  const [button] = attributesOf(form, 'button')
  const fields = new URLSearchParams()
  for (const { name, value = '' } of [...attributesOf(form, 'input'), button ?? {}]) {
    if (name) fields.append(name, value)
  }
  return { action: attributesOf(form, 'form')[0]?.['action'] ?? '', fields }
}

/** Returns the attributes of all elements with this name, as far as they are in double quotes. */
function attributesOf(page: string, element: string): Record<string, string>[] {
  const tags = page.match(new RegExp(`<${element}\\b[^>]*>`, 'gi')) ?? []
  return tags.map((tag) =>
    Object.fromEntries(
      [...tag.matchAll(/([\w-]+)="([^"]*)"/g)].map(([, name = '', value = '']) => [
        name.toLowerCase(),
        unescaped(value),
      ]),
    ),
  )
}

const NAMED: Readonly<Record<string, string>> = { amp: '&', lt: '<', gt: '>', quot: '"', apos: "'" }

function unescaped(text: string): string {
  return text.replaceAll(/&(?:#(\d+)|(\w+));/g, (whole, code?: string, name?: string) =>
    code === undefined ? (NAMED[name ?? ''] ?? whole) : String.fromCodePoint(Number(code)),
  )
}

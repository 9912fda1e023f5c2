const SECRET = /^[A-Za-z0-9_-]{43}$/

/**
 * Cookies that bind a sign-in to a browser. Over https their names begin with `__Host-`: no other host, not even a
 * subdomain, can set them. That prefix demands the path `/`, also for a gateway behind a path of a proxy.
 */
export class BrowserCookies {
  readonly #prefix: string
  readonly #attributes: string

  /** @param issuer its scheme is that of the pages as browsers see them */
  constructor(issuer: string) {
    const isSecure = issuer.startsWith('https:')
    this.#prefix = isSecure ? '__Host-' : ''
    this.#attributes = `Path=/; ${isSecure ? 'Secure; ' : ''}HttpOnly; SameSite=Lax`
  }

  /** Returns the secret in a cookie. `undefined` if there is none, or two with this name: one of them may be forged. */
  read({ headers }: Request, name: string): string | undefined {
    const values = (headers.get('cookie') ?? '').split(';').flatMap((pair) => {
      const [key = '', ...value] = pair.split('=')
      return key.trim() === this.#prefix + name ? [value.join('=').trim()] : []
    })
    const [secret = ''] = values
    return values.length === 1 && SECRET.test(secret) ? secret : undefined
  }

  /** Returns a value of `Set-Cookie`. A response can have one: the gateway would drop others. */
  set(name: string, secret: string, maxAgeSec: number): string {
    return `${this.#prefix}${name}=${secret}; Max-Age=${maxAgeSec}; ${this.#attributes}`
  }

  /** Returns a value of `Set-Cookie` that deletes a cookie. */
  clear(name: string): string {
    return this.set(name, '', 0)
  }
}

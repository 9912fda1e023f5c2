import { GatewayError } from '../../errors.ts'
import type { GuardedFetch } from '../../internal/guarded-fetch.ts'

export interface CredentialOptions {
  readonly fetch: GuardedFetch
  /** The only one that gets the headers: a card may name any address. */
  readonly origin: string
  readonly headers: () => Promise<Readonly<Record<string, string>>>
}

/** `fetch` with the credentials of one agent, for the origin of its card alone. */
export function withCredentials({ fetch, origin, headers }: CredentialOptions): GuardedFetch {
  return async function fetchWithCredentials(input, init) {
    const url = new URL(input instanceof Request ? input.url : input)
    if (url.origin !== origin) return fetch(input, init)
    const merged = new Headers(init?.headers)
    for (const [name, value] of Object.entries(await headers())) merged.set(name, value)
    return fetch(input, { ...init, headers: merged })
  }
}

/**
 * `fetch` for the calls of an agent: an error of its protocol is JSON.
 *
 * @throws GatewayError `UNAVAILABLE` for any other error: its text, which may repeat a credential, goes nowhere
 */
export function jsonOrError(fetch: GuardedFetch): GuardedFetch {
  return async function fetchFromAgent(input, init) {
    const response = await fetch(input, init)
    const type = response.headers.get('content-type') ?? ''
    const isRefused = response.status === 401 || response.status === 403
    if (response.ok || (/\bjson\b/i.test(type) && !isRefused)) return response
    await response.body?.cancel()
    if (isRefused) {
      throw new GatewayError(
        'UNAVAILABLE',
        `The agent refused the credentials of the gateway, with status ${response.status}`,
      )
    }
    throw new GatewayError('UNAVAILABLE', `The agent answered with status ${response.status}`)
  }
}

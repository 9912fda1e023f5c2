import { check } from '@x/internal'
import { StreamableHttpTransport, type OAuthClientProvider } from '@x/mcp-transport'
import { assertOptions } from '../base/options.ts'

/** Longer than any chain of causes that we make. */
const MAX_CAUSES = 16

const URLS = new WeakMap<Error, string>()

/** The user has to be sent to an authorization server. Holds no URL that could be logged. */
class AccessNeeded extends Error {
  override readonly name = 'AccessNeeded'
}

/** Makes an interrupt of a request that was refused because a person has to grant access. */
export interface AuthorizationToInterrupt {
  /** The `authProvider` for the client: sends nobody anywhere by itself. */
  readonly authProvider: OAuthClientProvider
  /** The page to visit, if that is why a call failed. */
  urlIn(error: unknown): string | undefined
  /**
   * Takes what the user came back with, and has the tokens saved.
   *
   * @throws AuthError if there are none
   */
  finish(callback: string): Promise<void>
}

const argumentChecks = {
  provider: check.required({
    ...check.methods('tokens', 'saveTokens'),
    takes: 'a provider, such as createAuthProvider() returns',
  }),
  serverUrl: check.required({ ...check.url, accepts: (value) => URL.canParse(String(value)) }),
}

/**
 * Stands before a provider, made by `createAuthProvider()` with a store that outlives the interrupt: where
 * that one would send the user away, the graph is interrupted with the URL.
 */
export function authorizationToInterrupt(
  provider: OAuthClientProvider,
  serverUrl: string | URL,
): AuthorizationToInterrupt {
  assertOptions('authorizationToInterrupt()', { provider, serverUrl }, argumentChecks)
  return {
    authProvider: new Proxy(provider, {
      get(target, name) {
        if (name === 'redirectToAuthorization') return interruptInstead
        const value: unknown = Reflect.get(target, name)
        return typeof value === 'function' ? value.bind(target) : value
      },
    }),
    urlIn,
    async finish(callback) {
      const transport = new StreamableHttpTransport(serverUrl, { authProvider: provider })
      try {
        await transport.finishAuth(callback)
      } finally {
        await transport.close()
      }
    },
  }
}

function interruptInstead(url: URL): never {
  const needed = new AccessNeeded('A person has to grant access first')
  URLS.set(needed, url.href)
  throw needed
}

function urlIn(error: unknown): string | undefined {
  let cause = error
  for (let depth = 0; depth < MAX_CAUSES && cause instanceof Error; depth++) {
    const url = URLS.get(cause)
    if (url !== undefined) return url
    // Our transport tells the SDK's client of its failures in the `data` of an answer.
    cause = cause.cause ?? ('data' in cause ? cause.data : undefined)
  }
  return undefined
}

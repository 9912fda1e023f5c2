import { check, withoutErrorLink } from '@x/internal'
import { StreamableHttpTransport, type OAuthClientProvider, type UserCode } from '@x/mcp-transport'
import { assertOptions } from '../options.ts'

/** Limit of followed causes. */
const MAX_CAUSES = 16

/** Where a person grants access. Plain data, because a checkpoint stores it. */
export interface AccessPage {
  /** With the code, if the authorization server has such a page. */
  readonly url: string
  /** The code to enter there, for a provider of `deviceOAuth()`. */
  readonly device?: UserCode
}

const PAGES = new WeakMap<Error, AccessPage>()

/** The user has to visit an authorization server. The error contains no URL and no code, because errors are logged. */
class AccessNeeded extends Error {
  override readonly name = 'AccessNeeded'
}

/** Interrupts the graph if a request fails because a person has to grant access. */
export interface AuthorizationToInterrupt {
  /** The `authProvider` for the client. It never opens a page. */
  readonly authProvider: OAuthClientProvider
  /** Returns the page to visit, if a call failed for that reason. */
  pageIn(error: unknown): AccessPage | undefined
  /**
   * Exchanges the callback for tokens, and saves them. Not needed for a code: the next request gets its tokens.
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
 * Wraps a provider of `createAuthProvider()` or `deviceOAuth()` so that the graph is interrupted with the URL, where the
 * provider would redirect the user or show a code. The store of the provider must outlive the interrupt. With another
 * store, the user gets another code when the graph is resumed.
 *
 * @example
 * ```ts
 * import { authorizationToInterrupt, elicitationToInterrupt } from '@x/langchain-mcp'
 * import { createAuthProvider, fileTokenStore } from '@x/mcp-transport/auth'
 *
 * const provider = createAuthProvider({
 *   redirectUrl: 'https://agent.example/callback',
 *   redirect() {}, // the interrupt contains the URL
 *   store: fileTokenStore('.mcp/ada.json'),
 * })
 * const authorization = authorizationToInterrupt(provider, 'https://shop.example/mcp')
 * const elicitation = elicitationToInterrupt({ authorization }) // for loadMcpTools()
 * const { authProvider } = authorization // for the client
 * ```
 */
export function authorizationToInterrupt(
  provider: OAuthClientProvider,
  serverUrl: string | URL,
): AuthorizationToInterrupt {
  assertOptions('authorizationToInterrupt()', { provider, serverUrl }, argumentChecks)
  return {
    authProvider: new Proxy(provider, {
      get(target, name) {
        if (name === 'redirectToAuthorization') return (url: URL) => interruptFor({ url: url.href })
        if (name === 'showUserCode' && target.showUserCode !== undefined) return interruptForCode
        const value: unknown = Reflect.get(target, name)
        return typeof value === 'function' ? value.bind(target) : value
      },
    }),
    pageIn,
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

function interruptForCode(device: UserCode): never {
  return interruptFor({ url: device.completeUrl ?? device.url, device })
}

function interruptFor(page: AccessPage): never {
  const needed = new AccessNeeded('A person has to grant access first')
  PAGES.set(needed, page)
  throw needed
}

function pageIn(error: unknown): AccessPage | undefined {
  return causesOf(error)
    .map((cause) => PAGES.get(cause))
    .find((page) => page !== undefined)
}

/** Returns an error and its causes. */
export function causesOf(error: unknown): Error[] {
  const causes: Error[] = []
  let cause = error
  while (causes.length < MAX_CAUSES && cause instanceof Error) {
    causes.push(cause)
    // Our transport passes its failures to the SDK's client in the `data` of an error response.
    cause = cause.cause ?? ('data' in cause ? cause.data : undefined)
  }
  return causes
}

/** Exchanges the callback for tokens. Returns why there are none. */
export async function finishError(
  authorization: AuthorizationToInterrupt | undefined,
  callback: string,
): Promise<string | undefined> {
  try {
    await authorization?.finish(callback)
    return undefined
  } catch (error) {
    return error instanceof Error ? withoutErrorLink(error.message) : 'Access was not granted'
  }
}

import type { TokenContext, TokenProvider } from './token-provider.ts'

/** A token, or a function that gives one. */
export type BearerSource =
  | string
  | ((context: TokenContext) => string | undefined | Promise<string | undefined>)

/**
 * An `authProvider` for tokens that come from elsewhere: a secret store, a metadata service, a login of
 * the application. The function is asked before every request; after a 401 it is asked with the `refused`
 * token, once for all requests that carried it, and the request is sent again if it gives another one.
 */
export function bearer(source: BearerSource): TokenProvider {
  if (typeof source === 'string') return { token: () => source }
  return { token: (context = {}) => source(context) }
}

import { optionError } from '@x/internal'
import type { TokenContext, TokenProvider } from './token-provider.ts'

/** A token, or a function that gives one. */
export type BearerSource =
  | string
  | ((context: TokenContext) => string | undefined | Promise<string | undefined>)

/**
 * An `authProvider` for tokens that come from elsewhere: a secret store, a metadata service, a login of
 * the application. The function is asked before every request; after a 401 it is asked with the `refused`
 * token, once for all requests that carried it, and the request is sent again if it gives another one.
 *
 * @throws TypeError for a token that is empty, such as a variable of the environment that is not set
 */
export function bearer(source: BearerSource): TokenProvider {
  if (typeof source === 'string' && source !== '') return { token: () => source }
  if (typeof source !== 'function') {
    throw optionError('bearer(): expected a token that is not empty, or a function that gives one')
  }
  return { token: (context = {}) => source(context) }
}

import { assertOptions, check } from '@x/internal'
import type { Checks } from '@x/internal'
import type { OAuthClientProvider, RedirectContext, UserCode } from './auth-provider.ts'
import { DEVICE_GRANT } from './device-flow.ts'
import { createAuthProvider, userChecks } from './providers.ts'
import type { UserOptions } from './providers.ts'

export interface DeviceOAuthOptions extends UserOptions {
  /**
   * Shows the user where to enter which code. The request that needs the token waits until the user has done so. An error
   * that it throws ends the wait, and the next request uses the same code, as long as it is valid.
   */
  readonly onCode: (code: UserCode, context: RedirectContext) => unknown
}

const deviceChecks: Checks<DeviceOAuthOptions> = {
  ...userChecks,
  onCode: check.required(check.func),
}

/**
 * An `authProvider` for programs without a browser, such as in a container or over SSH. The user enters a code in a
 * browser on any other device (RFC 8628), and the request that needs the token waits. A code that the user has not
 * entered yet is in the store, so that the next process goes on with it.
 *
 * @throws TypeError for an option that is missing, unknown or cannot be used.
 * @example
 * ```ts
 * import { deviceOAuth, fileTokenStore } from '@x/mcp-transport/auth'
 *
 * const authProvider = deviceOAuth({
 *   store: fileTokenStore('.mcp/shop-tokens.json'),
 *   clientName: 'shop',
 *   onCode: ({ url, userCode }) => console.log(`Open ${url} and enter ${userCode}`),
 * })
 * ```
 */
export function deviceOAuth(options: DeviceOAuthOptions): OAuthClientProvider {
  assertOptions('deviceOAuth()', options, deviceChecks)
  const { onCode, clientMetadata, ...rest } = options
  const base = createAuthProvider({ ...rest, redirectUrl: 'http://127.0.0.1/', redirect() {} })
  return {
    ...base,
    redirectUrl: undefined,
    clientMetadata: {
      ...base.clientMetadata,
      application_type: 'native',
      grant_types: [DEVICE_GRANT, 'refresh_token'],
      response_types: [],
      redirect_uris: [],
      ...clientMetadata,
    },
    showUserCode: onCode,
  }
}

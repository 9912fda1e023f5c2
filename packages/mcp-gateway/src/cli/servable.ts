import { checkAuthFits } from '../auth/auth-fit.ts'
import type { GatewayConfig } from '../config/gateway-config.ts'
import type { GatewayOptions } from '../gateway-options.ts'
import { stateKeyFrom } from '../state-key.ts'

/**
 * What only shows when somebody is served: credentials over a pipe, everybody let in at a public address, processes
 * that could not verify what another one signed.
 *
 * @throws GatewayError `CONFIG`, as the start would
 */
export function checkServable(
  { http, transport }: GatewayConfig,
  { auth, secrets, store }: GatewayOptions,
): void {
  checkAuthFits({
    auth,
    transport: transport === 'stdio' ? { type: 'stdio' } : { type: 'http', host: http.host },
    isInsecureAllowed: http.insecure,
  })
  const isShared = store?.isShared ?? false
  stateKeyFrom({ stateKey: secrets?.stateKey, isShared, onWarning: () => undefined })
}

import { isLoopback } from '@x/internal'
import { checkAuthFits } from '../http/auth/auth-fit.ts'
import type { GatewayConfig } from './gateway-config.ts'
import type { GatewayOptions } from '../options.ts'
import { stateKeyFrom } from '../internal/state-key.ts'

/**
 * What only shows when somebody is served: credentials over a pipe, everybody let in at a public address, processes
 * that could not verify what another one signed. An address at which others would be refused is only warned of: it
 * may be that of a container.
 *
 * @throws GatewayError `CONFIG`, as the start would
 */
export function checkServable(
  { http, transport }: GatewayConfig,
  { auth, secrets, store }: GatewayOptions,
  onWarning: (message: string) => void,
): void {
  checkAuthFits({
    auth,
    transport: transport === 'stdio' ? { type: 'stdio' } : { type: 'http', host: http.host },
    isInsecureAllowed: http.insecure,
  })
  const { host, publicUrl, allowedHosts } = http
  const isNamed = publicUrl !== null || allowedHosts.length > 0
  if (transport === 'http' && auth === undefined && !isLoopback(host) && !isNamed) {
    onWarning(
      `Without auth, only requests for localhost are answered at ${host}: set http.publicUrl, or name hosts in http.allowedHosts`,
    )
  }
  const isShared = store?.isShared ?? false
  stateKeyFrom({ stateKey: secrets?.stateKey, isShared, onWarning: () => undefined })
}

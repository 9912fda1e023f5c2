import { isLoopback } from '@x/internal'
import { GatewayError } from '../../errors.ts'

/**
 * A URL that credentials may depend on: https, or this machine.
 *
 * @param path of the option, for the error
 * @throws GatewayError `CONFIG`
 */
export function secureUrlFrom(text: string, path: string): URL {
  const url = URL.canParse(text) ? new URL(text) : undefined
  if (url === undefined) throw new GatewayError('CONFIG', `${path} is no URL`, { path })
  const isSecure =
    url.protocol === 'https:' || (url.protocol === 'http:' && isLoopback(url.hostname))
  if (!isSecure) {
    throw new GatewayError('CONFIG', `${path} must begin with https://, except on this machine`, {
      path,
    })
  }
  if (url.username !== '' || url.password !== '' || url.hash !== '') {
    throw new GatewayError('CONFIG', `${path} holds a user name or a fragment`, { path })
  }
  return url
}

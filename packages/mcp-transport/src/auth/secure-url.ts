import { BlockList, isIPv4, isIPv6 } from 'node:net'
import { isLoopback, isPublicAddress } from '@x/internal'
import { AuthError } from './auth-provider.ts'

/**
 * Accepts a URL that a server names for authorization: https, or http on this machine if the MCP server is on it
 * too (OAuth 2.1, section 1.5). A server may name addresses of its own network and public ones, so that it cannot
 * make this machine send requests to services that only this machine or its network reaches. Host names are not
 * resolved: a `dispatcher` can refuse the addresses of a name.
 *
 * @param named URL of an authorization server that the user named: its host may have any address
 * @throws AuthError `INSECURE_URL`
 */
export function secureUrl(input: string | URL, serverUrl: URL, named?: string): URL {
  const url = new URL(input)
  const [network, serverNetwork] = [networkOf(url.hostname), networkOf(serverUrl.hostname)]
  const isLocal = network === 'this-machine' && serverNetwork === 'this-machine'
  const where = url.origin === 'null' ? url.protocol : url.origin
  if (url.protocol !== 'https:' && !(url.protocol === 'http:' && isLocal)) {
    const message = `${where} is named for authorization, but it is neither https nor on this machine`
    throw new AuthError('INSECURE_URL', message)
  }
  const isNamed = named !== undefined && url.hostname === URL.parse(named)?.hostname
  if (isNamed || REACH[serverNetwork].includes(network)) return url
  const message = `${where} is named for authorization, but it has a private address, and the server ${serverUrl.origin} has not. If you trust it, pass it as the issuer of the provider`
  throw new AuthError('INSECURE_URL', message)
}

type Network = 'this-machine' | 'private' | 'public'

/** Networks that a server in each network may name. */
const REACH: Record<Network, readonly Network[]> = {
  'this-machine': ['this-machine', 'private', 'public'],
  private: ['private', 'public'],
  public: ['public'],
}

/** Addresses of private networks (RFC 4193, RFC 4291) and of documentation. All others that are not public may be anything. */
const PRIVATE_IPV6 = new BlockList()
PRIVATE_IPV6.addSubnet('fc00::', 7, 'ipv6')
PRIVATE_IPV6.addSubnet('fe80::', 9, 'ipv6')
PRIVATE_IPV6.addSubnet('2001:db8::', 32, 'ipv6')

/** Suffixes of names that mean something else in each network (RFC 6762, RFC 8375, ICANN for `internal`). */
const PRIVATE_NAMES = /^[^.]+$|\.(?:local|internal|home\.arpa)$/

/** Returns the network of a host of a URL. The strictest one for an address whose meaning is not certain. */
function networkOf(hostname: string): Network {
  const host = hostname.replace(/^\[(.*)\]$/, '$1').replace(/\.+$/, '')
  if (isLoopback(host) || host.endsWith('.localhost')) return 'this-machine'
  if (isPublicAddress(host)) return 'public'
  if (isIPv4(host)) return host.startsWith('0.') ? 'this-machine' : 'private' // RFC 1122, section 3.2.1.3
  if (isIPv6(host)) return PRIVATE_IPV6.check(host, 'ipv6') ? 'private' : 'this-machine'
  return PRIVATE_NAMES.test(host) ? 'private' : 'public'
}

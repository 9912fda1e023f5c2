import { BlockList, isIPv4, isIPv6 } from 'node:net'
import { isLoopback } from '@x/internal'
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

/** Special purpose addresses that are not global (IANA registries of RFC 6890). */
const PRIVATE_IPV4 = listOf('ipv4', [
  ['10.0.0.0', 8],
  ['100.64.0.0', 10],
  ['169.254.0.0', 16],
  ['172.16.0.0', 12],
  ['192.0.0.0', 24],
  ['192.0.2.0', 24],
  ['192.168.0.0', 16],
  ['198.18.0.0', 15],
  ['198.51.100.0', 24],
  ['203.0.113.0', 24],
  ['224.0.0.0', 3],
])
/** Addresses of the services that clouds give to their own machines. */
const CLOUD_SERVICES = new Set(['168.63.129.16'])
const PRIVATE_IPV6 = listOf('ipv6', [
  ['fc00::', 7],
  ['fe80::', 9],
  ['2001:db8::', 32],
])
const GLOBAL_IPV6 = listOf('ipv6', [['2000::', 3]])
/** IPv6 addresses that hold an IPv4 address: 6to4 and Teredo. */
const EMBEDDING_IPV6 = listOf('ipv6', [
  ['2001::', 32],
  ['2002::', 16],
])

/** Suffixes of names that mean something else in each network (RFC 6762, RFC 8375, ICANN for `internal`). */
const PRIVATE_NAMES = /^[^.]+$|\.(?:local|internal|home\.arpa)$/

/** Returns the network of a host of a URL. The strictest one for an address whose meaning is not certain. */
function networkOf(hostname: string): Network {
  const host = hostname.replace(/^\[(.*)\]$/, '$1').replace(/\.+$/, '')
  if (isLoopback(host) || host.endsWith('.localhost')) return 'this-machine'
  if (isIPv4(host)) {
    if (host.startsWith('0.')) return 'this-machine' // RFC 1122, section 3.2.1.3
    return PRIVATE_IPV4.check(host) || CLOUD_SERVICES.has(host) ? 'private' : 'public'
  }
  if (isIPv6(host)) {
    if (PRIVATE_IPV6.check(host, 'ipv6')) return 'private'
    const isGlobal = GLOBAL_IPV6.check(host, 'ipv6') && !EMBEDDING_IPV6.check(host, 'ipv6')
    return isGlobal ? 'public' : 'this-machine'
  }
  return PRIVATE_NAMES.test(host) ? 'private' : 'public'
}

function listOf(
  family: 'ipv4' | 'ipv6',
  subnets: readonly (readonly [string, number])[],
): BlockList {
  const list = new BlockList()
  for (const [network, prefix] of subnets) list.addSubnet(network, prefix, family)
  return list
}

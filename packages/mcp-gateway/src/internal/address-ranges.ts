import { BlockList, isIPv4, isIPv6 } from 'node:net'

/** IPv4 that is not the public internet (IANA special-purpose registry), and what clouds answer their own machines at. */
const NOT_PUBLIC_IPV4 = [
  '0.0.0.0/8', // this network
  '10.0.0.0/8', // private
  '100.64.0.0/10', // carrier-grade NAT, and a metadata service
  '127.0.0.0/8', // loopback
  '168.63.129.16/32', // a cloud's own services, at a public address
  '169.254.0.0/16', // link-local, and most metadata services
  '172.16.0.0/12', // private
  '192.0.0.0/24', // protocol assignments, and a metadata service
  '192.0.2.0/24', // documentation
  '192.88.99.0/24', // 6to4 relays
  '192.168.0.0/16', // private
  '198.18.0.0/15', // benchmarks
  '198.51.100.0/24', // documentation
  '203.0.113.0/24', // documentation
  '224.0.0.0/4', // multicast
  '240.0.0.0/4', // reserved, broadcast
]

/** Of IPv6 only global unicast is public; these parts of it are not, or hold IPv4 addresses inside. */
const GLOBAL_UNICAST = '2000::/3'
const NOT_PUBLIC_IPV6 = [
  '2001::/23', // protocol assignments, Teredo
  '2001:db8::/32', // documentation
  '2002::/16', // 6to4
  '3fff::/20', // documentation
]

const notPublic = new BlockList()
for (const range of NOT_PUBLIC_IPV4) addRange(notPublic, range, 'ipv4')
for (const range of NOT_PUBLIC_IPV6) addRange(notPublic, range, 'ipv6')
const globalUnicast = new BlockList()
addRange(globalUnicast, GLOBAL_UNICAST, 'ipv6')

/**
 * Whether an IP address, in its canonical spelling, is one of the public internet. Everything else is not: IPv4 in
 * IPv6, addresses with a zone, what is no address.
 */
export function isPublicAddress(address: string): boolean {
  if (isIPv4(address)) return !notPublic.check(address, 'ipv4')
  if (!isIPv6(address) || address.includes('%')) return false
  return globalUnicast.check(address, 'ipv6') && !notPublic.check(address, 'ipv6')
}

function addRange(list: BlockList, range: string, family: 'ipv4' | 'ipv6'): void {
  const [network = '', prefix] = range.split('/')
  list.addSubnet(network, Number(prefix), family)
}

import { BlockList, isIPv4, isIPv6 } from 'node:net'

const LOOPBACK = new BlockList()
LOOPBACK.addSubnet('127.0.0.0', 8)
LOOPBACK.addAddress('::1', 'ipv6')

/** Returns whether a host name or address always means this machine. An IPv6 address may stand in brackets. */
export function isLoopback(host: string): boolean {
  const bare = host.startsWith('[') && host.endsWith(']') ? host.slice(1, -1) : host
  if (isIPv4(bare)) return LOOPBACK.check(bare)
  if (isIPv6(bare)) return LOOPBACK.check(bare, 'ipv6')
  return bare.toLowerCase() === 'localhost'
}

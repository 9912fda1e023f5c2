import { lookup } from 'node:dns/promises'
import { isIP } from 'node:net'

import { GatewayError } from '../errors.ts'
import { isPublicAddress } from './address-ranges.ts'
import type { ResolvedAddress } from './pinned-request.ts'

/** What an operator who means it does about it. */
const UNTRUSTED = ' (its origin is not in trustedOrigins)'

/** Which URLs may be asked. */
export interface AddressRules {
  /** Origins at which any address will do. */
  readonly trusted: ReadonlySet<string>
  readonly allowHttp: boolean
  /** All addresses of a name. */
  readonly resolve: (hostname: string) => Promise<readonly ResolvedAddress[]>
}

/**
 * Where a request may connect to; `undefined`: wherever the system finds it.
 *
 * @throws GatewayError `REFUSED`; what the lookup throws
 */
export async function addressesOf(
  url: URL,
  { trusted, allowHttp, resolve }: AddressRules,
): Promise<readonly ResolvedAddress[] | undefined> {
  if (url.username !== '' || url.password !== '') throw refused('a URL with a user name')
  const isWeb = url.protocol === 'https:' || url.protocol === 'http:'
  if (isWeb && trusted.has(url.origin)) return undefined
  if (!isWeb || (url.protocol === 'http:' && !allowHttp)) {
    throw refused(`${url.protocol} instead of https:${isWeb ? UNTRUSTED : ''}`)
  }
  // `URL` has made one spelling of all: octal, hexadecimal, short and decimal IPv4.
  const host = url.hostname.replace(/^\[(.*)\]$/, '$1')
  const addresses = isIP(host) === 0 ? await resolve(host) : [addressFrom(host)]
  if (addresses.length === 0) throw new GatewayError('UNAVAILABLE', 'The name has no address')
  // One that is not public condemns all: whoever answers so is trying something.
  if (!addresses.every(({ address }) => isPublicAddress(address))) {
    throw refused(`an address that is not public${UNTRUSTED}`)
  }
  return addresses
}

/** Addresses as this machine finds them. */
export async function systemResolve(hostname: string): Promise<readonly ResolvedAddress[]> {
  const all = await lookup(hostname, { all: true })
  return all.map(({ address }) => addressFrom(address))
}

/** Says what must not be asked; never the whole URL, which may hold secrets. */
export function refused(what: string): GatewayError {
  return new GatewayError('REFUSED', `Refused to ask: ${what}`)
}

function addressFrom(address: string): ResolvedAddress {
  return { address, family: isIP(address) === 6 ? 6 : 4 }
}

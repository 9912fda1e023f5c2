import { isIP } from 'node:net'

import { isPublicAddress } from '../internal/address-ranges.ts'

/** Whether a URL may be handed to a client as it is: https, without a password, at a name or address of the internet. */
export function isPublicLink(text: string): boolean {
  if (!URL.canParse(text)) return false
  const { protocol, username, password, hostname } = new URL(text)
  if (protocol !== 'https:' || username !== '' || password !== '') return false
  const host = hostname.replace(/^\[(.*)\]$/, '$1').replace(/\.$/, '')
  if (isIP(host) !== 0) return isPublicAddress(host)
  return host.includes('.') && !/\.(?:localhost|local|internal|home\.arpa)$/.test(host)
}

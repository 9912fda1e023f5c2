import type { ServerContext } from '@modelcontextprotocol/server'
import { CLIENT_CAPABILITIES_META_KEY } from '@modelcontextprotocol/server'
import { isObject } from '../rpc-message.ts'

/** What a client of revision 2026-07-28 says it can do, with this request. By name. */
export function declaredCapabilities({ mcpReq }: ServerContext): Readonly<Record<string, unknown>> {
  const envelope: Readonly<Record<string, unknown>> = mcpReq.envelope ?? {}
  const capabilities = envelope[CLIENT_CAPABILITIES_META_KEY]
  return isObject(capabilities) ? capabilities : {}
}

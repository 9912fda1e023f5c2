import { isRecord } from '@x/internal'
import { POST_HEADERS } from '../headers.ts'
import type { JsonRpcRequest } from '../json-rpc.ts'
import type { ToolHeader } from '../session-record.ts'
import { encodeHeaderValue, toolHeaderList } from './tools.ts'

/** Keys of `_meta` that the protocol has reserved (2026-07-28, basic). */
export const META = {
  protocolVersion: 'io.modelcontextprotocol/protocolVersion',
  clientCapabilities: 'io.modelcontextprotocol/clientCapabilities',
  clientInfo: 'io.modelcontextprotocol/clientInfo',
  logLevel: 'io.modelcontextprotocol/logLevel',
  subscriptionId: 'io.modelcontextprotocol/subscriptionId',
} as const

/** What every request tells of the client, because there is no session to remember it. */
export interface ClientIdentity {
  readonly protocolVersion: string
  readonly capabilities: Readonly<Record<string, unknown>>
  readonly clientInfo: unknown
  /** Asks for `notifications/message` from this level on. */
  readonly logLevel?: string | undefined
}

/** The identity as the client's `initialize` told it. What the modern wire does not know is left out. */
export function toIdentity(initialize: JsonRpcRequest, protocolVersion: string): ClientIdentity {
  const { capabilities, clientInfo } = initialize.params ?? {}
  const { tasks: _tasks, roots, ...kept } = isRecord(capabilities) ? capabilities : {}
  return {
    protocolVersion,
    capabilities: { ...kept, ...(isRecord(roots) ? { roots: {} } : {}) },
    clientInfo,
  }
}

/** `params` with the identity in their `_meta`. */
export function withIdentity(
  params: Readonly<Record<string, unknown>> | undefined,
  identity: ClientIdentity,
): Record<string, unknown> {
  const given = params?.['_meta']
  const { protocolVersion, capabilities, clientInfo, logLevel } = identity
  return {
    ...params,
    _meta: {
      ...(isRecord(given) ? given : {}),
      [META.protocolVersion]: protocolVersion,
      [META.clientCapabilities]: capabilities,
      ...(clientInfo === undefined ? {} : { [META.clientInfo]: clientInfo }),
      ...(logLevel === undefined ? {} : { [META.logLevel]: logLevel }),
    },
  }
}

/** Whether a client speaks the modern wire by itself: then its requests go through as they are. */
export function isModernRequest(request: JsonRpcRequest): boolean {
  const meta = request.params?.['_meta']
  return isRecord(meta) && typeof meta[META.protocolVersion] === 'string'
}

/** Which parameter `Mcp-Name` repeats. */
const NAMED_BY: Readonly<Record<string, string>> = {
  'tools/call': 'name',
  'prompts/get': 'name',
  'resources/read': 'uri',
}

/** The headers that repeat what stands in the body, so that gateways need not read it, as a flat list. */
export function modernHeaders(
  request: JsonRpcRequest,
  protocolVersion: string,
  toolHeaders: readonly ToolHeader[] = [],
): string[] {
  const { method, params } = request
  const list = [...POST_HEADERS, 'mcp-protocol-version', protocolVersion, 'mcp-method', method]
  const name = params?.[NAMED_BY[method] ?? '']
  if (typeof name === 'string') list.push('mcp-name', encodeHeaderValue(name))
  if (method === 'tools/call') list.push(...toolHeaderList(toolHeaders, params?.['arguments']))
  return list
}

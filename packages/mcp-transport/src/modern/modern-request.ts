import { isRecord } from '@x/internal'
import { POST_HEADERS } from '../headers.ts'
import type { JsonRpcRequest } from '../json-rpc.ts'
import type { ToolHeader } from '../session-record.ts'
import { encodeHeaderValue, toolHeaderList } from './tools.ts'

/** Reserved keys of `_meta` (2026-07-28, basic). */
export const META = {
  protocolVersion: 'io.modelcontextprotocol/protocolVersion',
  clientCapabilities: 'io.modelcontextprotocol/clientCapabilities',
  clientInfo: 'io.modelcontextprotocol/clientInfo',
  logLevel: 'io.modelcontextprotocol/logLevel',
  subscriptionId: 'io.modelcontextprotocol/subscriptionId',
} as const

/** Description of the client in every request. A stateless server does not remember it. */
export interface ClientIdentity {
  readonly protocolVersion: string
  readonly capabilities: Readonly<Record<string, unknown>>
  readonly clientInfo: unknown
  /** Minimum level of `notifications/message`. */
  readonly logLevel?: string | undefined
}

/** Returns the identity from the client's `initialize`, without fields that this revision does not have. */
export function toIdentity(initialize: JsonRpcRequest, protocolVersion: string): ClientIdentity {
  const { capabilities, clientInfo } = initialize.params ?? {}
  const { tasks: _tasks, roots, ...kept } = isRecord(capabilities) ? capabilities : {}
  return {
    protocolVersion,
    capabilities: { ...kept, ...(isRecord(roots) ? { roots: {} } : {}) },
    clientInfo,
  }
}

/** Adds the identity to `_meta` of `params`. */
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

/** Returns whether the client speaks the stateless revision. Such requests are sent unchanged. */
export function isModernRequest(request: JsonRpcRequest): boolean {
  const meta = request.params?.['_meta']
  return isRecord(meta) && typeof meta[META.protocolVersion] === 'string'
}

/** Parameter that `Mcp-Name` repeats, by method. */
const NAMED_BY: Readonly<Record<string, string>> = {
  'tools/call': 'name',
  'prompts/get': 'name',
  'resources/read': 'uri',
}

/** Headers that repeat parts of the body, so that gateways need not parse it, as a flat list. */
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

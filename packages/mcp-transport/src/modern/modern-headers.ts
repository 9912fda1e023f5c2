import { POST_HEADERS } from '../http/post-headers.ts'
import type { JsonRpcRequest } from '../json-rpc.ts'
import { headerValueFrom } from './header-value.ts'
import type { ToolHeader } from './tool-headers.ts'
import { toolHeaderList } from './tool-headers.ts'

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
  if (typeof name === 'string') list.push('mcp-name', headerValueFrom(name))
  if (method === 'tools/call') list.push(...toolHeaderList(toolHeaders, params?.['arguments']))
  return list
}

import type { ReceivedRequest } from '../received-request.ts'
import { isObject } from '../rpc-message.ts'

const prefix = 'io.modelcontextprotocol/'

/** Which parameter is repeated in `Mcp-Name`; the same methods may ask for input. */
const nameParameters = new Map([
  ['tools/call', 'name'],
  ['prompts/get', 'name'],
  ['resources/read', 'uri'],
])

/**
 * What a request of 2026-07-28 has wrong (basic/transports/streamable-http and basic/index); empty
 * for a good one. Requests of older revisions are all wrong: they have no `_meta` of this kind.
 */
export function modernFaultsOf(request: ReceivedRequest): string[] {
  if (request.httpMethod !== 'POST') return [`${request.httpMethod} does not exist`]
  const { rpcMethod, rpcId, headers, params } = request
  if (rpcMethod === undefined) return ['not a JSON-RPC request']
  const meta = isObject(params?.['_meta']) ? params['_meta'] : {}
  const version = meta[`${prefix}protocolVersion`]
  const nameParameter = nameParameters.get(rpcMethod)
  const name = nameParameter === undefined ? undefined : params?.[nameParameter]
  const claims: readonly (readonly [boolean, string])[] = [
    [typeof rpcId === 'string' || Number.isInteger(rpcId), 'the id is no string or integer'],
    [acceptsBoth(request.accept), 'accept does not list JSON and event streams'],
    [String(headers['content-type']).startsWith('application/json'), 'content-type is not JSON'],
    [typeof version === 'string', '_meta has no protocolVersion'],
    [version === request.protocolVersion, 'MCP-Protocol-Version is not that of _meta'],
    [isObject(meta[`${prefix}clientCapabilities`]), '_meta has no clientCapabilities'],
    [headers['mcp-method'] === rpcMethod, 'Mcp-Method is not the method'],
    [decoded(headers['mcp-name']) === name, 'Mcp-Name is not the name'],
    [nameParameter !== undefined || !isRetry(params), 'only some methods can be continued'],
    [request.sessionId === undefined, 'there is a session id'],
    [request.lastEventId === undefined, 'there is a last event id'],
  ]
  return claims.filter(([holds]) => !holds).map(([, fault]) => fault)
}

/** Whether it answers what an earlier request was asked (basic/patterns/mrtr). */
function isRetry(params: ReceivedRequest['params'] = {}): boolean {
  return 'requestState' in params || 'inputResponses' in params
}

function acceptsBoth(accept = ''): boolean {
  return accept.includes('application/json') && accept.includes('text/event-stream')
}

/** The value of a header that may be base64 in the form `=?base64?…?=`. */
function decoded(value: ReceivedRequest['headers'][string]): unknown {
  const [, encoded] = /^=\?base64\?(.*)\?=$/.exec(String(value)) ?? []
  return encoded === undefined ? value : Buffer.from(encoded, 'base64').toString()
}

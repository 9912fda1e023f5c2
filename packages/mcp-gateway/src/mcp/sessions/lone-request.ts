import {
  RELATED_TASK_META_KEY,
  SUPPORTED_PROTOCOL_VERSIONS,
  type JSONRPCRequest,
} from '@modelcontextprotocol/server'
import { isRecord } from '@x/internal'

/**
 * A request that is plainly right, and alone in its POST. All others are for the SDK's transport, which knows how each
 * of them is refused.
 *
 * @param body parsed
 */
export function loneRequestFrom({ headers }: Request, body: unknown): JSONRPCRequest | undefined {
  return isLone(body) && isServed(headers.get('mcp-protocol-version')) && takesBoth(headers)
    ? body
    : undefined
}

const KEYS = new Set(['jsonrpc', 'id', 'method', 'params'])

function isLone(body: unknown): body is JSONRPCRequest {
  if (!isRecord(body) || body['jsonrpc'] !== '2.0') return false
  const { id, method, params } = body
  return (
    isId(id) &&
    typeof method === 'string' &&
    method !== 'initialize' &&
    (params === undefined || (isRecord(params) && isPlain(params['_meta']))) &&
    Object.keys(body).every((key) => KEYS.has(key))
  )
}

function isPlain(meta: unknown): boolean {
  if (meta === undefined) return true
  if (!isRecord(meta) || meta[RELATED_TASK_META_KEY] !== undefined) return false
  const { progressToken: token } = meta
  return token === undefined || isId(token)
}

function isId(value: unknown): boolean {
  return typeof value === 'string' || Number.isSafeInteger(value)
}

function isServed(revision: string | null): boolean {
  return revision === null || SUPPORTED_PROTOCOL_VERSIONS.includes(revision)
}

/** A client has to take a stream as well as JSON: which it is is not known before the request runs. */
function takesBoth(headers: Headers): boolean {
  const accepted = headers.get('accept')
  return (
    accepted !== null &&
    accepted.includes('application/json') &&
    accepted.includes('text/event-stream')
  )
}

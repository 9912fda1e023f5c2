import type { JsonRpcMessage } from '@x/mcp-transport'

/**
 * The messages of one line; undefined if it is none. More than one where it is a batch, as 2025-03-26
 * allowed them. The shape only: the client above checks every field with its own schemas.
 */
export function incomingMessages(line: string): readonly JsonRpcMessage[] | undefined {
  let value: unknown
  try {
    value = JSON.parse(line)
  } catch {
    return undefined
  }
  const all: readonly unknown[] = Array.isArray(value) ? value : [value]
  return all.length > 0 && all.every(isMessage) ? all : undefined
}

function isMessage(value: unknown): value is JsonRpcMessage {
  if (!isObject(value) || value['jsonrpc'] !== '2.0') return false
  const { id, method, params, result, error } = value
  const isIdentified = typeof id === 'string' || typeof id === 'number'
  if (typeof method === 'string') {
    return (id === undefined || isIdentified) && (params === undefined || isObject(params))
  }
  if (error === undefined) return isIdentified && isObject(result)
  const isError =
    isObject(error) && typeof error['code'] === 'number' && typeof error['message'] === 'string'
  return isError && result === undefined && (isIdentified || id === undefined || id === null)
}

function isObject(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

/** Id of a JSON-RPC message; `null` where an error belongs to no request. */
export type RpcId = string | number | null

/** What the kit looks at in a JSON-RPC message. */
export interface RpcMessage {
  readonly id?: RpcId | undefined
  /** Absent in an answer. */
  readonly method?: string | undefined
  readonly params?: Readonly<Record<string, unknown>> | undefined
}

/** A JSON object, and no array. */
export function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

/** The JSON-RPC message in `text`; `undefined` when there is none, or a batch. */
export function rpcMessageFrom(text: string): RpcMessage | undefined {
  let value: unknown
  try {
    value = JSON.parse(text)
  } catch {
    return undefined
  }
  if (!isObject(value) || value['jsonrpc'] !== '2.0') return undefined
  const { id, method, params } = value
  return {
    id: typeof id === 'string' || typeof id === 'number' || id === null ? id : undefined,
    method: typeof method === 'string' ? method : undefined,
    params: isObject(params) ? params : undefined,
  }
}

/** Name of the tool a `tools/call` is for. */
export function toolNameOf(message: RpcMessage | undefined): string | undefined {
  const name = message?.params?.['name']
  return message?.method === 'tools/call' && typeof name === 'string' ? name : undefined
}

/** A JSON-RPC error as JSON. */
export function rpcError(code: number, message: string, id: RpcId = null): string {
  return JSON.stringify({ jsonrpc: '2.0', error: { code, message }, id })
}

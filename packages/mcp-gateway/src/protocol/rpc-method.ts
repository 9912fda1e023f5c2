import { isRecord } from '../is-record.ts'

/** The method of a JSON-RPC message; `undefined` for anything else. */
export function methodOf(message: unknown): string | undefined {
  if (!isRecord(message)) return undefined
  return typeof message['method'] === 'string' ? message['method'] : undefined
}

/** Ids of the requests in a body, which may be a batch. */
export function requestIdsOf(body: unknown): readonly (string | number)[] {
  const messages = Array.isArray(body) ? body : [body]
  return messages.flatMap((message: unknown) => {
    if (!isRecord(message) || typeof message['method'] !== 'string') return []
    const { id } = message
    return typeof id === 'string' || typeof id === 'number' ? [id] : []
  })
}

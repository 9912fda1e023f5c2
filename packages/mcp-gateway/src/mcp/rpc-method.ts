import { isRecord } from '@x/internal'

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

const NONE: readonly (string | number)[] = []

/** Ids of requests that a body cancels, which may be a batch. */
export function cancelledIdsOf(body: unknown): readonly (string | number)[] {
  if (Array.isArray(body)) return body.flatMap(cancelledIdsOf)
  if (methodOf(body) !== 'notifications/cancelled' || !isRecord(body)) return NONE
  const { params } = body
  const id = isRecord(params) ? params['requestId'] : undefined
  return typeof id === 'string' || typeof id === 'number' ? [id] : NONE
}

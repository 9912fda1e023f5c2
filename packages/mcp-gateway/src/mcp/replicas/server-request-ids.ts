import type { JSONRPCMessage } from '@modelcontextprotocol/server'
import { isRecord } from '@x/internal'

/**
 * Names of what servers of one session ask, where the session has a server in several processes: each counts
 * its requests from zero, so that their ids carry the process. With them the answer finds who asked.
 */
export class ServerRequestIds {
  readonly #replica: string

  /** @param replica without a dot */
  constructor(replica: string) {
    this.#replica = replica
  }

  /** A message of our server, as its client is to see it. */
  outgoing(message: JSONRPCMessage): JSONRPCMessage {
    if (!('method' in message)) return message
    if ('id' in message) {
      const { params } = message
      const { _meta: meta } = params ?? {}
      const token = meta?.progressToken
      const id = this.#named(message.id)
      if (token === undefined) return { ...message, id }
      const named = { ...meta, progressToken: this.#named(token) }
      return { ...message, id, params: { ...params, _meta: named } }
    }
    if (message.method !== 'notifications/cancelled') return message
    const { params } = message
    const requestId = params?.['requestId']
    return typeof requestId === 'number'
      ? { ...message, params: { ...params, requestId: this.#named(requestId) } }
      : message
  }

  /** A message of the client: whose request it is about, and how that one knows it. `undefined`: nobody's. */
  incoming(message: unknown): AddressedMessage | undefined {
    if (!isRecord(message)) return undefined
    const { id, method, params } = message
    if (method === undefined) {
      const place = placeFrom(id)
      return place && { replica: place.replica, message: { ...message, id: place.number } }
    }
    if (method !== 'notifications/progress' || !isRecord(params)) return undefined
    const place = placeFrom(params['progressToken'])
    if (!place) return undefined
    const known = { ...params, progressToken: place.number }
    return { replica: place.replica, message: { ...message, params: known } }
  }

  #named(id: string | number): string {
    return `${this.#replica}.${id}`
  }
}

export interface AddressedMessage {
  readonly replica: string
  readonly message: Readonly<Record<string, unknown>>
}

function placeFrom(id: unknown): { replica: string; number: number } | undefined {
  const [, replica, digits] = (typeof id === 'string' && /^([^.]+)\.(\d{1,15})$/.exec(id)) || []
  return replica === undefined ? undefined : { replica, number: Number(digits) }
}

import type {
  JsonRpcNotification,
  JsonRpcRequest,
  JsonRpcResponse,
  RequestId,
} from '../json-rpc.ts'
import type { LegacySession } from './legacy-session.ts'

/**
 * Requests of the server that the client has not replied to yet, and the session that each came in: replies
 * go there, for a later session does not know the question.
 */
export class ServerRequests {
  readonly #sessions = new Map<RequestId, LegacySession>()

  asked({ id }: JsonRpcRequest, session: LegacySession): void {
    this.#sessions.set(id, session)
  }

  /** The server no longer wants a reply: `notifications/cancelled`. */
  cancelled({ params }: JsonRpcNotification): void {
    const id = params?.['requestId']
    if (typeof id === 'string' || typeof id === 'number') this.#sessions.delete(id)
  }

  /** The session that waits for a reply, once; undefined if none does any more. */
  take({ id }: JsonRpcResponse): LegacySession | undefined {
    if (id === undefined || id === null) return undefined
    const session = this.#sessions.get(id)
    this.#sessions.delete(id)
    return session
  }
}

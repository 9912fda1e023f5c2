import { isRecord } from '@x/internal'
import { POST_HEADERS } from '../headers.ts'
import type {
  JsonRpcMessage,
  JsonRpcRequest,
  RequestId,
  JsonRpcNotification,
  JsonRpcResponse,
} from '../json-rpc.ts'
import type { SessionRecord } from '../session-record.ts'
import type { PendingCall } from './pending-call.ts'
import { MAX_REFUSALS } from './session-loss.ts'

/** Headers of every request in a session, as a flat list. */
export function sessionHeaders(
  id: string | undefined,
  protocolVersion: string | undefined,
): readonly string[] {
  const session = id === undefined ? [] : ['mcp-session-id', id]
  const version = protocolVersion === undefined ? [] : ['mcp-protocol-version', protocolVersion]
  return session.concat(version) // a spread would allocate more
}

/** One session with the server, from the answer to `initialize` until it is lost, terminated or replaced. */
export class LegacySession {
  /** Undefined if the server has no sessions. Then it cannot be lost. */
  readonly id: string | undefined
  readonly epoch: number
  readonly protocolVersion: string | undefined
  /** Opened by another process or an earlier one. */
  readonly isResumed: boolean
  readonly ids: RequestIds
  readonly headers: readonly string[]
  /** Headers of every POST. Built once. */
  readonly postHeaders: readonly string[]
  /**
   * Record of a half-open session: the server has not accepted `notifications/initialized` yet. It is stored
   * after that, because a strict server refuses every other request in such a session. Undefined for an open session.
   */
  unstored: SessionRecord | undefined
  /** A request has succeeded in this session. */
  isProven: boolean
  /** The session replaced a lost one, and no request has succeeded in it: a refusal proves nothing. */
  isDoubtful = false
  /** Number of refusals since the last success. Refusals of requests that were in flight together count as one. */
  refusals = 0
  /** Set when the session has ended. Resolves when it is removed from the store. */
  lost: Promise<void> | undefined
  /** The session that replaced this one, or the attempt to open it. */
  replacement: Promise<LegacySession | 'stateless'> | undefined
  /** Called when a request has succeeded. Set while the listening stream waits for that. */
  onSuccess: (() => void) | undefined
  /** False if the server has refused the session, or was asked to terminate it. */
  mayBeOpen = true
  isTerminated = false
  /** State of the listening stream, which is opened at most once. */
  #listening: AbortController | 'over' | undefined

  constructor({
    id,
    epoch,
    protocolVersion,
    isResumed,
  }: Pick<LegacySession, 'id' | 'epoch' | 'protocolVersion' | 'isResumed'>) {
    this.id = id
    this.epoch = epoch
    this.protocolVersion = protocolVersion
    this.isResumed = isResumed
    this.ids = new RequestIds(isResumed ? randomBlock() : 0)
    this.isProven = !isResumed
    this.headers = sessionHeaders(id, protocolVersion)
    this.postHeaders = POST_HEADERS.concat(this.headers)
  }

  succeeded(): void {
    this.isProven = true
    this.isDoubtful = false
    this.refusals = 0
    this.onSuccess?.()
  }

  /**
   * Counts the refusal of a request. Returns true if the session counts as lost: otherwise a client could
   * stay in a session that the server has forgotten.
   *
   * @param before Value of `refusals` when the request was created
   */
  refused(before: number): boolean {
    if (this.id !== undefined && before === this.refusals) this.refusals++
    return this.refusals >= MAX_REFUSALS
  }

  /** Returns the signal that ends the listening stream; `undefined` if there was one already. */
  beginListening(): AbortSignal | undefined {
    if (this.#listening !== undefined) return undefined
    this.#listening = new AbortController()
    return this.#listening.signal
  }

  /** Ends the listening stream. No other is opened. */
  endListening(): void {
    const listening = this.#listening
    this.#listening = 'over'
    if (listening !== 'over') listening?.abort()
  }
}

const BLOCK_SIZE = 2 ** 20

/** `random` is 0 to 1. The block is a 31-bit number, so that every id is a safe integer. */
export function randomBlock(random: number = Math.random()): number {
  return (1 + Math.floor(random * (2 ** 31 - 1))) * BLOCK_SIZE
}

/**
 * Converts request ids. A session that this transport opened uses the ids of the client. In a resumed session
 * other processes have used the small numbers, and servers store requests by id, so ids start at a random
 * block. They stay numbers, because some servers mishandle text ids (rust-sdk #1017).
 */
export class RequestIds {
  readonly #offset: number
  #highest = 0

  constructor(offset: number) {
    this.#offset = offset
  }

  toWire(id: RequestId): RequestId {
    if (typeof id !== 'number') return id
    if (id > this.#highest) this.#highest = id
    return this.#offset + id
  }

  /** Returns the client's id; `undefined` for an id of another process. */
  fromWire(id: RequestId): RequestId | undefined {
    if (this.#offset === 0) return id
    const number = Number(id) // some servers return "5" for 5 (python-sdk PR #1720)
    if (Number.isNaN(number)) return id
    const own = number - this.#offset
    return own >= 0 && own <= this.#highest ? own : undefined
  }

  /** Returns the request with its converted id and progress token. */
  request(message: JsonRpcRequest): JsonRpcRequest {
    if (this.#offset === 0) return message
    const meta = message.params?.['_meta']
    const token = isRecord(meta) ? meta['progressToken'] : undefined
    const params =
      typeof token === 'number' && isRecord(meta)
        ? { ...message.params, _meta: { ...meta, progressToken: this.toWire(token) } }
        : message.params
    return { ...message, id: this.toWire(message.id), ...(params === undefined ? {} : { params }) }
  }

  /** Returns a progress notification with the client's token; `undefined` if it is for another process. */
  progress(message: JsonRpcMessage): JsonRpcMessage | undefined {
    if (this.#offset === 0 || !('method' in message)) return message
    const token = message.params?.['progressToken']
    if (message.method !== 'notifications/progress' || typeof token !== 'number') return message
    const own = this.fromWire(token)
    return own === undefined
      ? undefined
      : { ...message, params: { ...message.params, progressToken: own } }
  }
}

/** A request of the server without a response. */
interface ServerRequest {
  readonly id: RequestId
  readonly session: LegacySession
  /** The call whose response stream delivered the request. Undefined for a request on the listening stream. */
  readonly call: PendingCall | undefined
}

/**
 * Requests of the server without a response, and their sessions. A response is sent in the session of its request,
 * because another session does not know it, or knows another request by that id: each session counts from the start.
 */
export class ServerRequests {
  /** By the id that the client knows. */
  readonly #open = new Map<RequestId, ServerRequest>()

  /**
   * Returns the request for the client. Its id differs from the ids of all requests of other sessions. It is not 0
   * either, because the SDK ignores the cancellation of a request with that id.
   */
  asked(request: JsonRpcRequest, session: LegacySession, call?: PendingCall): JsonRpcRequest {
    const { id } = request
    const known = this.#open.get(id)
    const isTaken = id === 0 || (known !== undefined && known.session !== session)
    const ownId = isTaken ? `${session.epoch}/${typeof id}/${id}` : id
    this.#open.set(ownId, { id, session, call })
    return isTaken ? { ...request, id: ownId } : request
  }

  /** The server cancelled its request. Returns the notification for the client; undefined for an unknown request. */
  cancelled(
    notification: JsonRpcNotification,
    session: LegacySession,
  ): JsonRpcNotification | undefined {
    const { params } = notification
    for (const [requestId, request] of this.#open) {
      if (request.session !== session || request.id !== params?.['requestId']) continue
      this.#open.delete(requestId)
      return { ...notification, params: { ...params, requestId } }
    }
    return undefined
  }

  /** The session has ended. Returns the notifications that cancel its requests. */
  ended(session: LegacySession): JsonRpcNotification[] {
    return [...this.#open].flatMap(([requestId, request]) => {
      if (request.session !== session) return []
      this.#open.delete(requestId)
      const params = { requestId, reason: 'The session has ended' }
      return [{ jsonrpc: '2.0', method: 'notifications/cancelled', params }]
    })
  }

  take({ id }: JsonRpcResponse): ServerRequest | undefined {
    if (id === undefined || id === null) return undefined
    const request = this.#open.get(id)
    this.#open.delete(id)
    return request
  }
}

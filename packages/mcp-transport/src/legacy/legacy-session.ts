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

/** Refusals in a row after which a session is given up. */
const MAX_REFUSALS = 2

export interface LegacySessionOptions {
  readonly id: string | undefined
  readonly epoch: number
  readonly protocolVersion: string | undefined
  /** Opened by another process, or by one before this. */
  readonly isResumed: boolean
  readonly ids: RequestIds
  readonly lastEventId?: string | undefined
  /** See {@link LegacySession.unstored}. */
  readonly unstored?: SessionRecord | undefined
}

/** One session with the server, from the answer to `initialize` until it is lost, ended or left. */
export class LegacySession {
  /** Absent where the server has no sessions: then it cannot be lost either. */
  readonly id: string | undefined
  readonly epoch: number
  readonly protocolVersion: string | undefined
  readonly isResumed: boolean
  readonly ids: RequestIds
  /** The headers of every request in this session, as a flat list. */
  readonly headers: readonly string[]
  /** Those of every POST: one list for all, so that it is put together once. */
  readonly postHeaders: readonly string[]
  /** Cursor of the listening stream. */
  lastEventId: string | undefined
  /**
   * Record of a half-open session: the server has not accepted `notifications/initialized` yet. It is stored
   * after that, so that nobody can resume a session in which a strict server refuses every request.
   */
  unstored: SessionRecord | undefined
  /** A request has succeeded with this id. */
  isProven: boolean
  /** It replaced a lost session, and no request has succeeded in it: a refusal proves nothing. */
  isDoubtful = false
  /** Refusals in a row, without a success between them. Requests that were in flight together count once. */
  refusals = 0
  /** Set once it is over; resolves when the store has forgotten it. */
  lost: Promise<void> | undefined
  /** While the listening stream waits for long: has it opened soon. */
  wakeListening: (() => void) | undefined
  /** It was this side that ended it. */
  isEnded = false
  /** The listening stream was asked for, which is done once; a controller while it goes on. */
  #listening: AbortController | 'over' | undefined

  constructor(options: LegacySessionOptions) {
    const { id, epoch, protocolVersion, isResumed, ids, lastEventId, unstored } = options
    this.id = id
    this.epoch = epoch
    this.protocolVersion = protocolVersion
    this.isResumed = isResumed
    this.ids = ids
    this.lastEventId = lastEventId
    this.unstored = unstored
    this.isProven = !isResumed
    const session = id === undefined ? [] : ['mcp-session-id', id]
    const version = protocolVersion === undefined ? [] : ['mcp-protocol-version', protocolVersion]
    this.headers = session.concat(version) // not spread, which reserves more than it needs
    this.postHeaders = POST_HEADERS.concat(this.headers)
  }

  /** A request has been answered with a result. */
  succeeded(): void {
    this.isProven = true
    this.isDoubtful = false
    this.refusals = 0
    this.wakeListening?.()
  }

  /**
   * Counts the refusal of a request. Returns true where the session is to be given up: a client whose
   * requests are all refused would be stuck in a session that the server has forgotten.
   *
   * @param before Value of `refusals` when the request was made
   */
  refused(before: number): boolean {
    if (this.id !== undefined && before === this.refusals) this.refusals++
    return this.refusals >= MAX_REFUSALS
  }

  /** What ends the listening stream; `undefined` where there shall be none, or was one already. */
  beginListening(): AbortSignal | undefined {
    if (this.#listening !== undefined) return undefined
    this.#listening = new AbortController()
    return this.#listening.signal
  }

  /** There is no listening stream any more, and will be none. */
  endListening(): void {
    const listening = this.#listening
    this.#listening = 'over'
    if (listening !== 'over') listening?.abort()
  }
}

const BLOCK_SIZE = 2 ** 20

/**
 * Ids on the wire. In a session that we opened they are the client's own. In a resumed one other
 * processes have used the small numbers already, and servers keep tables by id: there a random block
 * makes them unique without coordination. They stay numbers, because servers mishandle string ids
 * (rust-sdk #1017).
 */
export class RequestIds {
  readonly #offset: number
  #highest = 0

  private constructor(offset: number) {
    this.#offset = offset
  }

  static asTheyAre(): RequestIds {
    return new RequestIds(0)
  }

  /** `random` gives 0 … 1. The block is a 31-bit number, so that every id is a safe integer. */
  static inRandomBlock(random: () => number): RequestIds {
    return new RequestIds((1 + Math.floor(random() * (2 ** 31 - 1))) * BLOCK_SIZE)
  }

  toWire(id: RequestId): RequestId {
    if (typeof id !== 'number') return id
    if (id > this.#highest) this.#highest = id
    return this.#offset + id
  }

  /** The client's id; `undefined` if it is one of another process. */
  fromWire(id: RequestId): RequestId | undefined {
    if (this.#offset === 0) return id
    const number = Number(id) // "5" for 5 is seen in the field (python-sdk PR #1720)
    if (Number.isNaN(number)) return id
    const own = number - this.#offset
    return own >= 0 && own <= this.#highest ? own : undefined
  }

  /** The request with its id, and its progress token, as they go over the wire. */
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

  /** A progress notification with the client's own token; `undefined` if it is for another process. */
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

import type { Exchange } from '../http/exchange.ts'
import type { HttpClient } from '../http/http-client.ts'
import type { JsonRpcMessage, JsonRpcRequest, JsonRpcResponse, RequestId } from '../json-rpc.ts'
import type { SessionKeeper, StoredSession } from '../session-keeper.ts'
import type { InitializeResult } from '../session-record.ts'
import type { TransportError } from '../transport-error.ts'
import { handshake, initializeParamsHash } from './handshake.ts'
import type { HandshakeOutcome } from './handshake.ts'
import { LEGACY_VERSIONS, LegacySession } from './legacy-session.ts'
import { deleteSession } from './one-way.ts'
import { RequestIds } from './request-ids.ts'
import { evidenceFrom, lossVerdict } from './session-loss.ts'

export interface SessionOpenerOptions {
  readonly http: HttpClient
  readonly keeper: SessionKeeper
  /** Limit for the response head, in milliseconds; 0 for none. */
  readonly headersMs: number
  /** 0 … 1 */
  readonly random: () => number
  /** What the server says before it answers `initialize`. */
  readonly onMessage: (message: JsonRpcMessage) => void
}

/** Limit for ending a session that nobody uses. */
const END_MS = 2000

export type OpenOutcome =
  | {
      readonly kind: 'opened'
      readonly session: LegacySession
      /** What the client's `initialize` is answered with. */
      readonly result: InitializeResult
    }
  | { readonly kind: 'answered'; readonly answer: JsonRpcResponse }
  | { readonly kind: 'failed'; readonly error: TransportError }

/** The client's `initialize`, while it is on its way. */
export class Initializing {
  readonly id: RequestId
  #isAbandoned = false
  #exchange: Exchange | undefined

  constructor(id: RequestId) {
    this.id = id
  }

  get isAbandoned(): boolean {
    return this.#isAbandoned
  }

  /**
   * Nobody waits any more. Its connection is cut: `initialize` must not be cancelled by a message. If the
   * server has told the session's id by then, the session is ended; if not, it is left to the server's own
   * limit, for nobody can name it.
   */
  abandon(reason: TransportError): void {
    this.#isAbandoned = true
    this.#exchange?.abort(reason)
  }

  /** Returns false if it was abandoned before it was sent. */
  started(exchange: Exchange): boolean {
    this.#exchange = exchange
    return !this.#isAbandoned
  }
}

/**
 * Gets a session for the client's `initialize`: the stored one, answered from its record without a
 * request, or a new one by a handshake.
 */
export class SessionOpener {
  readonly #options: SessionOpenerOptions
  /** What `load` found, until it is used: a session that was given out is never given out again. */
  #stored: StoredSession | undefined
  /** Sessions of no use to anybody, while they are ended. */
  #ending: Set<Promise<void>> | undefined

  constructor(options: SessionOpenerOptions) {
    this.#options = options
  }

  get hasStoredSession(): boolean {
    const { record, bareId } = this.#stored ?? {}
    return (
      bareId !== undefined ||
      record?.sessionId !== undefined ||
      record?.initializeResult !== undefined
    )
  }

  /** Reads the store. No request is made. */
  async load(): Promise<void> {
    this.#stored = await this.#options.keeper.load()
  }

  async open(request: JsonRpcRequest, initializing: Initializing): Promise<OpenOutcome> {
    const stored = this.#stored ?? (await this.#options.keeper.load())
    this.#stored = undefined
    const result = this.#fittingResult(stored, request)
    if (result !== undefined) return { kind: 'opened', session: this.#resumed(stored), result }
    const outcome = await this.#handshake(stored, request, initializing)
    return outcome.kind === 'opened' ? this.#opened(request, outcome) : outcome
  }

  /** The stored session as it is, for a client that sends something else before `initialize`. */
  adopt(): LegacySession {
    return this.#resumed(this.#stored ?? {})
  }

  /** Waits for the end of sessions of no use; at most 2 s. */
  async close(): Promise<void> {
    if (this.#ending) await Promise.all(this.#ending)
  }

  /** The stored answer to `initialize`, if the stored session fits this client. */
  #fittingResult({ record }: StoredSession, request: JsonRpcRequest): InitializeResult | undefined {
    const { keeper } = this.#options
    if (record?.initializeResult === undefined || record.protocolVersion === undefined) return
    if (!LEGACY_VERSIONS.includes(record.protocolVersion)) {
      return keeper.leaveAside('is of a revision that is not spoken here')
    }
    if (record.initializeParamsHash !== initializeParamsHash(request)) {
      return keeper.leaveAside('was opened by a client with another name or other capabilities')
    }
    return record.initializeResult
  }

  #resumed({ record, bareId }: StoredSession): LegacySession {
    return new LegacySession({
      id: record?.sessionId ?? bareId,
      epoch: record?.epoch ?? 0,
      protocolVersion: record?.protocolVersion,
      lastEventId: record?.lastEventId,
      isResumed: true,
      ids: RequestIds.inRandomBlock(this.#options.random),
    })
  }

  async #opened(request: JsonRpcRequest, opened: OpenedByHandshake): Promise<OpenOutcome> {
    const { sessionId, result, isTakenOver } = opened
    const { protocolVersion } = result
    const record = await this.#options.keeper.opened({
      sessionId,
      protocolVersion,
      initializeResult: result,
      initializeParamsHash: initializeParamsHash(request),
    })
    const session = new LegacySession({
      id: sessionId,
      epoch: record.epoch,
      protocolVersion,
      isResumed: false,
      ids:
        isTakenOver === true
          ? RequestIds.inRandomBlock(this.#options.random)
          : RequestIds.asTheyAre(),
    })
    return { kind: 'opened', session, result }
  }

  /** An id that was stored without an answer to `initialize` is tried once; else a session is opened. */
  async #handshake(
    stored: StoredSession,
    request: JsonRpcRequest,
    initializing: Initializing,
  ): Promise<OpenedByHandshake | Exclude<HandshakeOutcome, { kind: 'opened' }>> {
    const { http, headersMs, onMessage, keeper } = this.#options
    const onStart = (exchange: Exchange): boolean => initializing.started(exchange)
    const onOrphan = (orphan: string): void => this.#end({ bareId: orphan })
    const options = { http, request, headersMs, onMessage, onStart, onOrphan }
    const { record, bareId } = stored
    const sessionId =
      record?.initializeResult === undefined ? (record?.sessionId ?? bareId) : undefined
    if (sessionId === undefined) return handshake(options)
    const protocolVersion = record?.protocolVersion
    const outcome = await handshake({ ...options, sessionId, protocolVersion })
    if (outcome.kind === 'opened') {
      const isTakenOver = outcome.sessionId === undefined || outcome.sessionId === sessionId
      return { ...outcome, sessionId: outcome.sessionId ?? sessionId, isTakenOver }
    }
    if (!refusesSession(outcome)) {
      this.#stored = stored // trouble with the connection says nothing about the session
      return outcome
    }
    await keeper.lost(sessionId)
    this.#end({ bareId: sessionId })
    return handshake(options)
  }

  /** Best effort: what the server does not end now, it will end when it has not been used for long. */
  #end(session: StoredSession): void {
    const ending = settledWithin(deleteSession(this.#options.http, this.#resumed(session)))
    const all = (this.#ending ??= new Set())
    all.add(ending)
    void ending.then(() => all.delete(ending))
  }
}

type OpenedByHandshake = Extract<HandshakeOutcome, { kind: 'opened' }> & {
  /** The session was there before: other processes may have used its small request ids. */
  readonly isTakenOver?: boolean
}

async function settledWithin(promise: Promise<unknown>, ms: number = END_MS): Promise<void> {
  let timer: NodeJS.Timeout | undefined
  const late = new Promise<void>((resolve) => {
    timer = setTimeout(resolve, ms).unref()
  })
  await Promise.race([promise.catch(() => {}), late])
  clearTimeout(timer)
}

/** Whether `initialize` in a stored session was refused because of that session. */
function refusesSession(outcome: HandshakeOutcome): boolean {
  if (outcome.kind === 'answered') return true
  if (outcome.kind === 'opened' || outcome.refusal === undefined) return false
  const { status, text } = outcome.refusal
  return status === 400 || lossVerdict({ status, ...evidenceFrom(text) }) !== 'not-lost'
}

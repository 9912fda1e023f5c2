import { FailureStreak, removeFrom, untilAborted } from '@x/internal'
import type { HttpClient } from '../http/http-client.ts'
import { isRequest, isResponse, versionOf } from '../json-rpc.ts'
import type {
  JsonRpcMessage,
  JsonRpcNotification,
  JsonRpcRequest,
  JsonRpcResponse,
  RequestId,
} from '../json-rpc.ts'
import { initializeParamsHash } from '../legacy/handshake.ts'
import { LegacyProtocol } from '../legacy/legacy-protocol.ts'
import type { LegacyProtocolOptions, Router } from '../legacy/legacy-protocol.ts'
import { toIdentity } from '../modern/modern-post.ts'
import { ModernProtocol } from '../modern/modern-protocol.ts'
import type { ModernProtocolOptions } from '../modern/modern-protocol.ts'
import { Passthrough } from '../modern/passthrough.ts'
import type { SessionKeeper } from '../session-keeper.ts'
import {
  LEGACY_VERSIONS,
  MODERN_VERSIONS,
  modernEvidence,
  shortSessionId,
  toInitializeResult,
} from '../session-record.ts'
import {
  errorAnswer,
  refusedSessionError,
  toTransportError,
  TransportError,
} from '../transport-error.ts'
import type { CallOptions, EraOption, PassthroughOptions } from '../transport-options.ts'
import { detectEra } from './probe.ts'

export interface EraRouterOptions extends LegacyProtocolOptions {
  readonly era: EraOption
}

/** A legacy server may support both eras later. Checking again costs one request. */
const LEGACY_VERDICT_MS = 24 * 60 * 60 * 1000

/** A negotiation of the era, with the parameters of the client's `initialize`. */
interface Opening {
  readonly request: JsonRpcRequest
  /** Aborts when the answer is not needed any more. */
  readonly signal: AbortSignal
  /** The transport repeats the complete handshake of the client. */
  readonly isRepeated: boolean
  /** Nothing that is known of the server is used: neither its era nor its session. */
  readonly isFresh: boolean
}

/**
 * Negotiates the era with the client's `initialize` (2026-07-28, basic/versioning), and passes every later message
 * to the protocol object for the server. The session record stores the era.
 */
export class EraRouter implements Router {
  readonly http: HttpClient
  readonly keeper: SessionKeeper
  readonly legacy: LegacyProtocol
  readonly streak: FailureStreak = new FailureStreak()
  readonly #options: EraRouterOptions
  /** Set while the server is a modern one. */
  #modern: ModernProtocol | undefined
  /** `#modern`, and the protocol objects from before a change of the era whose calls wait for their answers. */
  readonly #protocols: ModernProtocol[] = []
  /** The client's last `initialize`. After it, the transport chooses the era. */
  #request: JsonRpcRequest | undefined
  #negotiating: { readonly id: RequestId; readonly controller: AbortController } | undefined
  #changing: Promise<void> | undefined
  #changeSignal: AbortController | undefined
  #testing: Promise<void> | undefined
  readonly #closing = new AbortController()
  /** Set by the first request of a client that speaks the stateless revision. */
  #passthrough: Passthrough | undefined

  constructor(options: EraRouterOptions) {
    this.#options = options
    this.http = options.http
    this.keeper = options.keeper
    this.legacy = new LegacyProtocol(options, this)
  }

  /** True if the session or the modern server is known from the record, without a request. */
  get isResumed(): boolean {
    return this.#modern?.isResumed ?? this.legacy.session?.isResumed ?? false
  }

  /** The stateless revision in use, by the transport or by the client. Undefined for other servers. */
  get modernVersion(): string | undefined {
    if (this.#modern !== undefined) return this.#modern.identity.protocolVersion
    return this.#request === undefined ? this.#passthrough?.version : undefined
  }

  /** The protocol object for the server, while it is a modern one. */
  get modern(): ModernProtocol | undefined {
    return this.#modern
  }

  send(message: JsonRpcMessage, options: PassthroughOptions): Promise<void> {
    if (isRequest(message)) {
      if (versionOf(message) !== undefined) {
        this.#passthrough ??= new Passthrough(this.#options)
        this.#passthrough.send(message, options)
        return Promise.resolve()
      }
      if (message.method === 'initialize') return this.#initialize(message)
    } else if (this.modernVersion !== undefined && this.#modern === undefined) {
      return Promise.resolve() // in the stateless revision, a client sends only requests
    } else if (isResponse(message)) {
      const isInput = this.#protocols.some(({ inputs }) => inputs.take(message))
      return isInput ? Promise.resolve() : this.legacy.send(message, options)
    } else if (message.method === 'notifications/cancelled') {
      return this.#cancel(message)
    }
    return (this.#modern ?? this.legacy).send(message, options)
  }

  sendAgain(message: JsonRpcRequest, options: CallOptions): Promise<void> {
    return this.#modern === undefined
      ? this.legacy.start(message, options)
      : this.#modern.send(message, options)
  }

  /**
   * Answers all requests in flight, and terminates the session.
   *
   * @throws TransportError if a session may still exist on the server.
   */
  async terminate(): Promise<void> {
    for (const protocol of this.#protocols) protocol.terminate()
    // A stored session is not used while the server is a modern one.
    const hasSession = this.#modern === undefined || this.legacy.session !== undefined
    if (hasSession) await this.legacy.terminate()
  }

  /** Answers all requests in flight before it returns. */
  async close(): Promise<void> {
    const negotiating = this.#negotiating
    this.#negotiating = undefined
    negotiating?.controller.abort()
    this.#changeSignal?.abort()
    this.#closing.abort()
    if (negotiating !== undefined) {
      const closed = this.http.closed('The transport was closed')
      this.#options.deliver(errorAnswer(negotiating.id, closed))
    }
    this.#passthrough?.close()
    for (const protocol of this.#protocols.splice(0)) protocol.close()
    await this.legacy.close()
  }

  test(): Promise<void> {
    return (this.#testing ??= this.http
      .asOwner(() => this.#test())
      .finally(() => {
        this.#testing = undefined
      }))
  }

  async #test(): Promise<void> {
    const { signal } = this.#closing
    try {
      const isProven = await (this.#modern ?? this.legacy).isProven(signal)
      if (!isProven) await this.#changeEra(this.#modern, signal, true)
      this.streak.end()
    } catch {
      // The next failure leads here again.
    }
  }

  /**
   * Replaces the current session by another one. Changes the era if the server has changed it. With `isFresh`, starts
   * from nothing, and keeps what is known of the server until that has succeeded.
   */
  async replaceSession(signal: AbortSignal, isFresh: boolean): Promise<void> {
    const { session } = this.legacy
    if (isFresh || this.#modern !== undefined || session === undefined) {
      return this.#changeEra(this.#modern, signal, isFresh)
    }
    await this.legacy.replacementOf(session, { signal })
  }

  /** A server with sessions refused `initialize`, because it is a modern one now. */
  changeToStateless(signal: AbortSignal): Promise<void> {
    return this.#changeEra(undefined, signal)
  }

  /**
   * The request may belong to the era before. A protocol object ignores unknown ids. A request for a server with
   * sessions may still wait for the store, and may then be sent to a modern one.
   */
  async #cancel(message: JsonRpcNotification): Promise<void> {
    if (this.#negotiating !== undefined && message.params?.['requestId'] === this.#negotiating.id) {
      this.#negotiating.controller.abort()
      this.#negotiating = undefined
    }
    await Promise.all([
      this.#cancelStarted(message),
      this.legacy.load().then(() => this.#cancelStarted(message)),
    ])
  }

  #cancelStarted(message: JsonRpcNotification): Promise<void> {
    for (const protocol of this.#protocols) protocol.notify(message)
    return this.legacy.cancel(message)
  }

  async #initialize(request: JsonRpcRequest): Promise<void> {
    this.#request = request
    this.#negotiating?.controller.abort()
    const negotiating = { id: request.id, controller: new AbortController() }
    const { signal } = negotiating.controller
    this.#negotiating = negotiating
    // The client starts again: its earlier calls end.
    this.#modern = undefined
    for (const protocol of this.#protocols.splice(0)) protocol.close()
    await this.legacy.load()
    const opening = { request, signal, isRepeated: false, isFresh: false }
    const answer = await this.#negotiate(opening).catch((error: unknown) =>
      errorAnswer(request.id, toTransportError(error)),
    )
    if (this.#negotiating !== negotiating || answer === undefined) return
    this.#negotiating = undefined
    this.#options.deliver(answer)
  }

  /**
   * Negotiates again, once for all calls that detected the change of the era.
   *
   * @throws TransportError if no session could be opened
   */
  #changeEra(
    from: ModernProtocol | undefined,
    signal?: AbortSignal,
    isFresh = false,
  ): Promise<void> {
    if (this.#modern !== from) return Promise.resolve() // already changed
    const { http } = this.#options
    return (this.#changing ??= http
      .asOwner(() => this.#negotiateAgain(signal, isFresh))
      .finally(() => {
        this.#changing = undefined
      }))
  }

  async #negotiateAgain(outer: AbortSignal | undefined, isFresh: boolean): Promise<void> {
    const { keeper, http, onReplaced } = this.#options
    const { session } = this.legacy
    const before = this.#modern
    const oldEpoch = before === undefined ? (session?.epoch ?? 0) : (keeper.record?.epoch ?? 0)
    const request = this.#request
    if (request === undefined) throw http.closed('There is no initialize to repeat')
    const { signal: own } = (this.#changeSignal = new AbortController())
    const signal = outer === undefined ? own : AbortSignal.any([own, outer])
    await this.legacy.load(true)
    const negotiating = this.#negotiate({ request, signal, isRepeated: true, isFresh })
    const answer = await untilAborted(negotiating, signal).catch((error: unknown) => {
      if (!signal.aborted) throw error
    })
    if (!answer || signal.aborted) throw http.closed('The transport was closed')
    if ('error' in answer) throw refusedSessionError(answer, http.url.display)
    if (this.#modern === before) this.#modern = undefined
    if (isFresh && session !== undefined) this.legacy.retire(session)
    void before?.replaced().then(() => removeFrom(this.#protocols, before))
    this.#modern?.notify({ jsonrpc: '2.0', method: 'notifications/initialized' })
    const now = this.#modern === undefined ? this.legacy.session : undefined
    onReplaced?.({
      oldEpoch,
      newEpoch: now?.epoch ?? keeper.record?.epoch ?? 0,
      oldSessionId: before === undefined && session?.id ? shortSessionId(session.id) : undefined,
      newSessionId: now?.id === undefined ? undefined : shortSessionId(now.id),
    })
  }

  /**
   * Detects the era, and opens the session of a legacy server. Returns the answer to `initialize`; undefined if it was
   * cancelled. Call it after the store was read.
   */
  async #negotiate(opening: Opening): Promise<JsonRpcResponse | undefined> {
    const { era, http, keeper, timeouts } = this.#options
    const { request, signal, isRepeated, isFresh } = opening
    const only = (offered: readonly string[]): JsonRpcResponse => {
      const message = `${http.url.display} offers only ${offered.join(', ')}; the option era: '${era}' allows only ${SPOKEN[era].join(', ')}`
      return errorAnswer(request.id, http.error('REJECTED', message))
    }
    if (signal.aborted) return undefined
    // A client that speaks both eras sends `initialize` only after it has detected a legacy server.
    const isTakenForLegacy = !isRepeated && this.#passthrough !== undefined
    if (era !== 'legacy' && !isTakenForLegacy && !isFresh) {
      const known = this.#resumeModern(request)
      if (known !== undefined) return known
    }
    const isLegacyFirst =
      era === 'legacy' ||
      era === 'legacy-first' ||
      isTakenForLegacy ||
      (!isFresh && this.#isKnownLegacy())
    let refused: JsonRpcResponse | undefined
    if (isLegacyFirst && era !== 'modern') {
      refused = await this.#openLegacy(opening)
      if (refused === undefined || 'result' in refused) return refused
      const offered = modernEvidence(refused)
      if (era === 'legacy') return offered === undefined ? refused : only(offered)
      // A server that was replaced by a stateless one may refuse `initialize` in any way.
      const isPresumed = isFresh || (era === 'auto' && !isTakenForLegacy && !isRepeated)
      if (offered === undefined && !(isPresumed && isByServer(refused))) return refused
    }
    const verdict = await detectEra({ http, request, probeMs: timeouts.probeMs, signal })
    if (signal.aborted) return undefined
    switch (verdict.kind) {
      case 'modern': {
        const { version, discovered } = verdict
        keeper.checkedEra('modern')
        const record = await keeper.next({
          protocolVersion: version,
          discoverResult: discovered,
          initializeParamsHash: initializeParamsHash(request),
        })
        await keeper.opened(record)
        if (signal.aborted) return undefined
        return this.#useModern(request, version, {
          discovered,
          isResumed: false,
          toolHeaders: undefined,
        })
      }
      case 'legacy': {
        const { evidence, offered } = verdict
        // A server that did not answer the probe has not shown its era.
        const { status = 500 } = evidence ?? { status: 0 }
        if (era === 'modern' && evidence !== undefined && status >= 500) {
          return errorAnswer(request.id, evidence)
        }
        if (era === 'modern') return only(offered ?? ['revisions with sessions'])
        if (refused !== undefined) return refused
        keeper.checkedEra('legacy')
        const answer = await this.#openLegacy(opening)
        if (answer === undefined || 'result' in answer) return answer
        // Signs of a modern server: its first error explains more than the second.
        const isAnswered = status >= 500 && isByServer(answer)
        if (evidence !== undefined && !isAnswered) return errorAnswer(request.id, evidence)
        return offered === undefined ? answer : only(offered)
      }
      case 'incompatible':
        return only(verdict.offered)
      case 'error':
      case 'later':
      case 'again': {
        const failed = errorAnswer(request.id, verdict.error)
        // The server may refuse only the probe.
        if (!isFresh || era === 'modern' || refused !== undefined) return failed
        const answer = await this.#openLegacy(opening)
        return answer === undefined || 'result' in answer ? answer : failed
      }
    }
  }

  /** Returns the answer of a server with sessions; undefined if the client cancelled the request. */
  async #openLegacy(opening: Opening): Promise<JsonRpcResponse | undefined> {
    const { request, isRepeated, signal } = opening
    const answer = isRepeated
      ? await this.legacy.repeatHandshake(request, opening)
      : await this.legacy.initialize(request)
    return signal.aborted ? undefined : answer
  }

  /** True if there is a stored session, or a recent detection of a legacy server. */
  #isKnownLegacy(): boolean {
    if (this.legacy.hasStoredSession) return true
    const { record } = this.#options.keeper
    if (record?.era !== 'legacy') return false
    return Date.now() - Date.parse(record.eraCheckedAt) < LEGACY_VERDICT_MS
  }

  /** Uses the stored modern server, if it was stored for a client like this one. */
  #resumeModern(request: JsonRpcRequest): JsonRpcResponse | undefined {
    const { record } = this.#options.keeper
    if (record?.era !== 'modern') return undefined
    const { protocolVersion: version = '', discoverResult: discovered, toolHeaders } = record
    const isFitting =
      MODERN_VERSIONS.includes(version) &&
      record.initializeParamsHash === initializeParamsHash(request)
    if (discovered === undefined || !isFitting) return undefined
    return this.#useModern(request, version, { discovered, isResumed: true, toolHeaders })
  }

  #useModern(
    request: JsonRpcRequest,
    version: string,
    server: Pick<ModernProtocolOptions, 'discovered' | 'isResumed' | 'toolHeaders'>,
  ): JsonRpcResponse {
    const { http, onReplaced } = this.#options
    const protocol: ModernProtocol = new ModernProtocol({
      ...this.#options,
      ...server,
      identity: toIdentity(request, version),
      recovery: onReplaced && {
        replace: () => this.#changeEra(protocol),
        sendAgain: (message, options) => this.sendAgain(message, options),
        streak: this.streak,
        test: () => this.test(),
      },
    })
    this.#modern = protocol
    this.#protocols.push(protocol)
    const asked = request.params?.['protocolVersion']
    const result = toInitializeResult(server.discovered, {
      protocolVersion: typeof asked === 'string' ? asked : '2025-11-25',
      host: new URL(http.url.display).host,
    })
    return { jsonrpc: '2.0', id: request.id, result }
  }
}

/** Returns whether the error of `initialize` comes from the server, with any status but those for credentials. */
function isByServer(refused: JsonRpcResponse): boolean {
  const data = 'error' in refused ? refused.error.data : undefined
  if (!TransportError.is(data)) return true
  return data.code !== 'UNAUTHORIZED' && data.status !== undefined
}

/** Revisions that the transport may use. */
const SPOKEN: Readonly<Record<EraOption, readonly string[]>> = {
  auto: [...MODERN_VERSIONS, ...LEGACY_VERSIONS],
  'legacy-first': [...MODERN_VERSIONS, ...LEGACY_VERSIONS],
  legacy: LEGACY_VERSIONS,
  modern: MODERN_VERSIONS,
}

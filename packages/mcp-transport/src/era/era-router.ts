import { setTimeout as sleep } from 'node:timers/promises'
import { sessionChannel } from '../diagnostics.ts'
import type { SessionEvent } from '../diagnostics.ts'
import type { HttpClient } from '../http/http-client.ts'
import { isRequest, isResponse } from '../json-rpc.ts'
import type { JsonRpcMessage, JsonRpcRequest, JsonRpcResponse, RequestId } from '../json-rpc.ts'
import { errorAnswer } from '../error-answer.ts'
import type { LegacyWire } from '../legacy/legacy-wire.ts'
import { initializeParamsHash } from '../legacy/handshake.ts'
import { identityFrom, isModernRequest } from '../modern/meta.ts'
import type { ModernWire, ModernWireOptions } from '../modern/modern-wire.ts'
import { INVALID_PARAMS, localError } from '../modern/local-error.ts'
import { Passthrough } from '../modern/passthrough.ts'
import type { PassthroughOptions } from '../modern/passthrough.ts'
import { takeInputInstructions } from '../modern/surfaced-input.ts'
import type { SessionKeeper } from '../session-keeper.ts'
import type { SessionRecord } from '../session-record.ts'
import { TransportError, transportErrorFrom } from '../transport-error.ts'
import type { EraOption } from '../transport-options.ts'
import { initializeResultFrom } from './discover-result.ts'
import type { DiscoverResult } from './discover-result.ts'
import { modernEvidence, noSuchServer, onlyOtherVersions } from './era-error.ts'
import { probe } from './probe.ts'
import { probeDelayMs } from './probe-delay.ts'
import { probeVerdict } from './probe-verdict.ts'
import type { ProbeVerdict } from './probe-verdict.ts'
import { MODERN_VERSIONS } from './versions.ts'

export interface EraRouterOptions {
  readonly era: EraOption
  readonly http: HttpClient
  readonly keeper: SessionKeeper
  readonly legacy: LegacyWire
  /** Makes the wire of a server that turned out to be modern. */
  readonly createModern: (
    options: Pick<
      ModernWireOptions,
      'identity' | 'serverCapabilities' | 'toolHeaders' | 'onLegacyAnswer'
    >,
  ) => ModernWire
  /** Limit for one probe, in milliseconds. */
  readonly probeMs: number
  readonly deliver: (message: JsonRpcMessage) => void
  readonly now?: () => number
}

/** A server that was legacy may be both by now; asking again costs one request. */
const LEGACY_VERDICT_MS = 24 * 60 * 60 * 1000
const PROBE_RETRIES = 2

/**
 * Finds out with the client's `initialize` which kind of server it is, and hands every later message to
 * the wire that speaks to it (2026-07-28, basic/versioning). The verdict is kept in the session record.
 */
export class EraRouter {
  readonly #options: EraRouterOptions
  readonly #legacy: LegacyWire
  #modern: ModernWire | undefined
  /** For a client that speaks the modern wire by itself, from its first request on. */
  #passthrough: Passthrough | undefined
  #isResumed = false
  /** The client has sent `initialize`: it leaves the choice of the wire to us. */
  #isBridging = false
  #negotiating: { readonly id: RequestId; readonly controller: AbortController } | undefined

  constructor(options: EraRouterOptions) {
    this.#options = options
    this.#legacy = options.legacy
  }

  /** Whether the modern server was known from the record, and not asked. */
  get isResumed(): boolean {
    return this.#isResumed
  }

  /** The stateless revision on the wire, if that is what is spoken: by us, or by the client itself. */
  get modernVersion(): string | undefined {
    if (this.#modern !== undefined) return this.#modern.identity.protocolVersion
    return this.#isBridging ? undefined : this.#passthrough?.version
  }

  /** Reads the store. No request is made. */
  load(): Promise<void> {
    return this.#legacy.load()
  }

  send(message: JsonRpcMessage, options: PassthroughOptions): Promise<void> {
    if (isRequest(message)) {
      // A client that speaks the modern wire by itself needs no bridge.
      if (isModernRequest(message)) {
        this.#passthrough ??= new Passthrough(this.#options)
        this.#passthrough.send(message, options)
        return Promise.resolve()
      }
      if (message.method === 'initialize') return this.#initialize(message)
    } else if (this.modernVersion !== undefined && this.#modern === undefined) {
      return Promise.resolve() // nothing but requests goes over the wire that this client speaks
    } else if (!isResponse(message) && message.method === 'notifications/cancelled') {
      const id = message.params?.['requestId']
      if (this.#negotiating !== undefined && id === this.#negotiating.id) {
        this.#negotiating.controller.abort()
        this.#negotiating = undefined
      }
    }
    if (this.#modern !== undefined) return this.#modern.send(message, options)
    return this.#sendLegacy(message, options)
  }

  /** What a request says to this transport about inputs means nothing to a server with sessions. */
  #sendLegacy(message: JsonRpcMessage, options: PassthroughOptions): Promise<void> {
    if (!isRequest(message)) return this.#legacy.send(message, options)
    const { request, instructions } = takeInputInstructions(message)
    if (instructions.answers === undefined) return this.#legacy.send(request, options)
    const text = `${message.method} cannot be continued: that needs a server of 2026-07-28`
    this.#options.deliver(localError(message.id, INVALID_PARAMS, text))
    return Promise.resolve()
  }

  /** @throws TransportError if there is a session that may still be on the server. */
  terminate(): Promise<void> {
    return (this.#modern ?? this.#legacy).terminate()
  }

  /** All requests in flight are answered when it returns. */
  async close(): Promise<void> {
    const negotiating = this.#negotiating
    this.#negotiating = undefined
    negotiating?.controller.abort()
    if (negotiating !== undefined) {
      const url = this.#options.http.url.display
      const error = new TransportError('CLOSED', 'The transport was closed', { url })
      this.#options.deliver(errorAnswer(negotiating.id, error))
    }
    this.#passthrough?.close()
    const modern = this.#modern?.close()
    await this.#legacy.close()
    await modern
  }

  async #initialize(request: JsonRpcRequest): Promise<void> {
    this.#isBridging = true
    this.#negotiating?.controller.abort()
    const negotiating = { id: request.id, controller: new AbortController() }
    this.#negotiating = negotiating
    // The client begins anew: what it had on another wire is over.
    const before = this.#modern
    this.#modern = undefined
    this.#isResumed = false
    await before?.close()
    await this.load()
    const answer = await this.#negotiate(request, negotiating.controller.signal).catch(
      (error: unknown) => errorAnswer(request.id, transportErrorFrom(error)),
    )
    if (this.#negotiating !== negotiating || answer === undefined) return
    this.#negotiating = undefined
    this.#options.deliver(answer)
  }

  async #negotiate(
    request: JsonRpcRequest,
    signal: AbortSignal,
  ): Promise<JsonRpcResponse | undefined> {
    const { era, keeper, http } = this.#options
    const { record } = keeper
    if (signal.aborted) return undefined
    if (era === 'legacy') return this.#legacyOnly(request)
    // A client that knows both kinds and sends `initialize` all the same has asked the server itself.
    const isDecided = this.#passthrough?.version !== undefined
    const known =
      record?.era === 'modern' && !isDecided ? this.#resumeModern(request, record) : undefined
    if (known !== undefined) return known
    const isLegacyFirst = era === 'legacy-first' || isDecided || this.#isKnownLegacy(record)
    if (era === 'modern' || !isLegacyFirst) return this.#probe(request, signal)
    const answer = await this.#legacy.initialize(request)
    if (answer === undefined || 'result' in answer) return answer
    if (modernEvidence(answer) === undefined) return noSuchServer(answer, http.url.display)
    return this.#probe(request, signal, answer)
  }

  /** A session of a legacy server, or a verdict that is not too old. */
  #isKnownLegacy(record: SessionRecord | undefined): boolean {
    if (this.#legacy.hasStoredSession) return true
    if (record?.era !== 'legacy') return false
    const { now = Date.now } = this.#options
    return now() - Date.parse(record.eraCheckedAt) < LEGACY_VERDICT_MS
  }

  /** `refused` is what the server said to `initialize`, if it was asked that before. */
  async #probe(
    request: JsonRpcRequest,
    signal: AbortSignal,
    refused?: JsonRpcResponse,
  ): Promise<JsonRpcResponse | undefined> {
    const { id } = request
    const { era, http } = this.#options
    const { display } = http.url
    const verdict = await this.#verdict(request, signal)
    if (signal.aborted) return undefined
    switch (verdict.kind) {
      case 'modern':
        return this.#openModern(request, verdict, signal)
      case 'legacy': {
        const { evidence, offered } = verdict
        if (era === 'modern') {
          return errorAnswer(
            id,
            onlyOtherVersions(display, offered ?? ['revisions with sessions'], era),
          )
        }
        if (refused !== undefined) return refused
        this.#options.keeper.checkedEra('legacy')
        const answer = await this.#legacy.initialize(request)
        if (answer === undefined || 'result' in answer) return answer
        // There were signs of a modern server: its first objection tells more than the second.
        if (evidence !== undefined) return errorAnswer(id, evidence)
        if (offered !== undefined) return errorAnswer(id, onlyOtherVersions(display, offered, era))
        return noSuchServer(answer, display)
      }
      case 'incompatible':
        return errorAnswer(id, onlyOtherVersions(display, verdict.offered, era))
      case 'error':
      case 'later':
      case 'again':
        return errorAnswer(id, verdict.error)
    }
  }

  async #verdict(request: JsonRpcRequest, signal: AbortSignal): Promise<ProbeVerdict> {
    const { http, probeMs } = this.#options
    const { lingering } = http
    let version = MODERN_VERSIONS[0] ?? ''
    let isSecond = false
    for (let retries = 0; ;) {
      const identity = identityFrom(request, version)
      const verdict = probeVerdict(await probe({ http, identity, probeMs, signal, lingering }))
      if (verdict.kind === 'again' && !isSecond) {
        isSecond = true
        version = verdict.version
      } else if (verdict.kind === 'later' && retries < PROBE_RETRIES && !signal.aborted) {
        const ms = probeDelayMs(retries++, verdict.error.retryAfterMs)
        await sleep(ms, undefined, { signal, ref: false }).catch(() => {}) // the next probe tells
      } else {
        return verdict
      }
    }
  }

  async #openModern(
    request: JsonRpcRequest,
    { version, result }: { version: string; result: DiscoverResult },
    signal: AbortSignal,
  ): Promise<JsonRpcResponse | undefined> {
    const { keeper } = this.#options
    keeper.checkedEra('modern')
    await keeper.opened({
      protocolVersion: version,
      discoverResult: result,
      initializeParamsHash: initializeParamsHash(request),
    })
    if (signal.aborted) return undefined
    return this.#useModern(request, version, { discovered: result })
  }

  /** The stored answer to `server/discover`, if it was given to a client like this one. */
  #resumeModern(request: JsonRpcRequest, record: SessionRecord): JsonRpcResponse | undefined {
    const { protocolVersion = '', discoverResult, toolHeaders } = record
    const fits =
      discoverResult !== undefined &&
      MODERN_VERSIONS.includes(protocolVersion) &&
      record.initializeParamsHash === initializeParamsHash(request)
    if (!fits) return undefined
    this.#isResumed = true
    return this.#useModern(request, protocolVersion, { discovered: discoverResult, toolHeaders })
  }

  #useModern(
    request: JsonRpcRequest,
    version: string,
    {
      discovered,
      toolHeaders,
    }: Pick<ModernWireOptions, 'toolHeaders'> & { discovered: DiscoverResult },
  ): JsonRpcResponse {
    this.#modern = this.#options.createModern({
      identity: identityFrom(request, version),
      serverCapabilities: discovered.capabilities,
      toolHeaders,
      // What is stored of the server is forgotten: the next `initialize` asks it anew.
      onLegacyAnswer: () => void this.#options.keeper.lost(undefined),
    })
    const event: SessionEvent = {
      type: this.#isResumed ? 'resumed' : 'opened',
      url: this.#options.http.url.display,
      era: 'modern',
      epoch: this.#options.keeper.record?.epoch ?? 0,
    }
    sessionChannel.publish(event)
    const asked = request.params?.['protocolVersion']
    const { host } = new URL(this.#options.http.url.display)
    const result = initializeResultFrom(discovered, {
      protocolVersion: typeof asked === 'string' ? asked : '2025-11-25',
      host,
    })
    return { jsonrpc: '2.0', id: request.id, result }
  }

  async #legacyOnly(request: JsonRpcRequest): Promise<JsonRpcResponse | undefined> {
    const { http, era } = this.#options
    const { display } = http.url
    const answer = await this.#legacy.initialize(request)
    if (answer === undefined || 'result' in answer) return answer
    const offered = modernEvidence(answer)
    if (offered !== undefined)
      return errorAnswer(request.id, onlyOtherVersions(display, offered, era))
    return noSuchServer(answer, display)
  }
}

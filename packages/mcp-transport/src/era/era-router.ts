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
import { Passthrough } from '../modern/passthrough.ts'
import type { PassthroughOptions } from '../modern/passthrough.ts'
import type { SessionKeeper } from '../session-keeper.ts'
import type { SessionRecord } from '../session-record.ts'
import type { EraOption } from '../transport-options.ts'
import { initializeResultFrom } from './discover-result.ts'
import type { DiscoverResult } from './discover-result.ts'
import { modernEvidence, noSuchServer, onlyOtherVersions } from './era-error.ts'
import { probe } from './probe.ts'
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
    options: Pick<ModernWireOptions, 'identity' | 'serverCapabilities' | 'toolHeaders'>,
  ) => ModernWire
  /** Limit for one probe, in milliseconds. */
  readonly probeMs: number
  readonly deliver: (message: JsonRpcMessage) => void
  readonly now?: () => number
}

/** A server that was legacy may be both by now; asking again costs one request. */
const LEGACY_VERDICT_MS = 24 * 60 * 60 * 1000
const PROBE_RETRIES = 2
const PROBE_RETRY_MS = 500
const PROBE_RETRY_MAX_MS = 10_000

/**
 * Finds out with the client's `initialize` which kind of server it is, and hands every later message to
 * the wire that speaks to it (2026-07-28, basic/versioning). The verdict is kept in the session record.
 */
export class EraRouter {
  readonly #options: EraRouterOptions
  readonly #legacy: LegacyWire
  readonly #passthrough: Passthrough
  #modern: ModernWire | undefined
  #isResumed = false
  #negotiating: { readonly id: RequestId; readonly controller: AbortController } | undefined

  constructor(options: EraRouterOptions) {
    const { http, deliver, legacy } = options
    this.#options = options
    this.#legacy = legacy
    this.#passthrough = new Passthrough({ http, deliver })
  }

  /** Whether the modern server was known from the record, and not asked. */
  get isResumed(): boolean {
    return this.#isResumed
  }

  get modern(): ModernWire | undefined {
    return this.#modern
  }

  /** Reads the store. No request is made. */
  load(): Promise<void> {
    return this.#legacy.load()
  }

  async send(message: JsonRpcMessage, options: PassthroughOptions): Promise<void> {
    if (isRequest(message)) {
      // A client that speaks the modern wire by itself needs no bridge.
      if (isModernRequest(message)) return this.#passthrough.send(message, options)
      if (message.method === 'initialize') return this.#initialize(message)
    } else if (!isResponse(message) && message.method === 'notifications/cancelled') {
      const id = message.params?.['requestId']
      if (this.#negotiating !== undefined && id === this.#negotiating.id) {
        this.#negotiating.controller.abort()
        this.#negotiating = undefined
      }
    }
    const wire = this.#modern ?? this.#legacy
    return wire.send(message, options)
  }

  /** @throws TransportError if there is a session that may still be on the server. */
  terminate(): Promise<void> {
    return (this.#modern ?? this.#legacy).terminate()
  }

  async close(): Promise<void> {
    this.#negotiating?.controller.abort()
    this.#negotiating = undefined
    this.#passthrough.close()
    const modern = this.#modern?.close()
    await this.#legacy.close()
    await modern
  }

  async #initialize(request: JsonRpcRequest): Promise<void> {
    const negotiating = { id: request.id, controller: new AbortController() }
    this.#negotiating = negotiating
    await this.load()
    const answer = await this.#negotiate(request, negotiating.controller.signal)
    if (this.#negotiating !== negotiating || answer === undefined) return
    this.#negotiating = undefined
    this.#options.deliver(answer)
  }

  async #negotiate(
    request: JsonRpcRequest,
    signal: AbortSignal,
  ): Promise<JsonRpcResponse | undefined> {
    const { era, keeper } = this.#options
    const { record } = keeper
    if (era === 'legacy') return this.#legacyOnly(request)
    const known = record?.era === 'modern' ? this.#resumeModern(request, record) : undefined
    if (known !== undefined) return known
    if (era !== 'modern' && this.#isKnownLegacy(record)) return this.#legacy.initialize(request)
    if (era !== 'legacy-first') return this.#probe(request, signal)
    const answer = await this.#legacy.initialize(request)
    if (answer === undefined || modernEvidence(answer) === undefined) return answer
    return this.#probe(request, signal)
  }

  /** A session of a legacy server, or a verdict that is not too old. */
  #isKnownLegacy(record: SessionRecord | undefined): boolean {
    if (this.#legacy.hasStoredSession) return true
    if (record?.era !== 'legacy') return false
    const { now = Date.now } = this.#options
    return now() - Date.parse(record.eraCheckedAt) < LEGACY_VERDICT_MS
  }

  async #probe(request: JsonRpcRequest, signal: AbortSignal): Promise<JsonRpcResponse | undefined> {
    const { id } = request
    const { era, http } = this.#options
    const verdict = await this.#verdict(request, signal)
    switch (verdict.kind) {
      case 'modern':
        return this.#openModern(request, verdict)
      case 'legacy': {
        if (era === 'modern') {
          return errorAnswer(id, onlyOtherVersions(http.url.display, ['revisions with sessions']))
        }
        this.#options.keeper.checkedEra('legacy')
        const answer = await this.#legacy.initialize(request)
        if (answer === undefined || 'result' in answer) return answer
        // There were signs of a modern server: its first objection tells more than the second.
        if (verdict.evidence !== undefined) return errorAnswer(id, verdict.evidence)
        return noSuchServer(answer, http.url.display)
      }
      case 'incompatible':
        return errorAnswer(id, onlyOtherVersions(http.url.display, verdict.offered))
      case 'error':
      case 'later':
        return errorAnswer(id, verdict.error)
      case 'again':
        throw new TypeError('A probe is repeated once only')
    }
  }

  async #verdict(request: JsonRpcRequest, signal: AbortSignal): Promise<ProbeVerdict> {
    const { http, probeMs } = this.#options
    let version = MODERN_VERSIONS[0] ?? ''
    let isSecond = false
    for (let retries = 0; ;) {
      const identity = identityFrom(request, version)
      const verdict = probeVerdict(await probe({ http, identity, probeMs, signal }))
      if (verdict.kind === 'again') {
        if (isSecond) return { kind: 'incompatible', offered: [verdict.version] }
        isSecond = true
        version = verdict.version
      } else if (verdict.kind === 'later' && retries < PROBE_RETRIES && !signal.aborted) {
        const asked = verdict.error.retryAfterMs ?? PROBE_RETRY_MS * 2 ** retries
        retries++
        const ms = Math.min(asked, PROBE_RETRY_MAX_MS)
        await sleep(ms, undefined, { signal, ref: false }).catch(() => {}) // the next probe tells
      } else {
        return verdict
      }
    }
  }

  async #openModern(
    request: JsonRpcRequest,
    { version, result }: { version: string; result: DiscoverResult },
  ): Promise<JsonRpcResponse> {
    const { keeper } = this.#options
    keeper.checkedEra('modern')
    await keeper.opened({
      protocolVersion: version,
      discoverResult: result,
      initializeParamsHash: initializeParamsHash(request),
    })
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
    const { display } = this.#options.http.url
    const answer = await this.#legacy.initialize(request)
    if (answer === undefined || 'result' in answer) return answer
    const offered = modernEvidence(answer)
    if (offered !== undefined) return errorAnswer(request.id, onlyOtherVersions(display, offered))
    return noSuchServer(answer, display)
  }
}

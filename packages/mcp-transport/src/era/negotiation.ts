import { setTimeout as sleep } from 'node:timers/promises'
import type { HttpClient } from '../http/http-client.ts'
import type { JsonRpcRequest, JsonRpcResponse } from '../json-rpc.ts'
import { initializeParamsHash } from '../legacy/handshake.ts'
import type { LegacyProtocol } from '../legacy/legacy-protocol.ts'
import { toIdentity } from '../modern/modern-post.ts'
import type { SessionKeeper } from '../session-keeper.ts'
import { modernEvidence, MODERN_VERSIONS, LEGACY_VERSIONS } from '../session-record.ts'
import type { ToolHeaderMap, DiscoverResult } from '../session-record.ts'
import { errorAnswer, TransportError } from '../transport-error.ts'
import type { EraOption } from '../transport-options.ts'
import { probe, getProbeDelayMs, probeVerdict } from './probe.ts'
import type { ProbeVerdict } from './probe.ts'

export interface NegotiationOptions {
  readonly era: EraOption
  readonly http: HttpClient
  readonly keeper: SessionKeeper
  readonly legacy: LegacyProtocol
  /** Time limit of one probe, in milliseconds. */
  readonly probeMs: number
  readonly now?: (() => number) | undefined
}

/** Describes one negotiation. */
export interface NegotiationSubject {
  /** The client's `initialize`. Its parameters identify the client. */
  readonly request: JsonRpcRequest
  /** Aborts when the client abandons the request. */
  readonly signal: AbortSignal
  /** The client speaks both eras and has detected a legacy server. */
  readonly isTakenForLegacy: boolean
  /**
   * Set if the transport repeats the complete handshake of the client. `refused` is the error with which the server
   * has just answered `initialize`.
   */
  readonly repeated?: { readonly refused: JsonRpcResponse | undefined } | undefined
}

export type Negotiated =
  /** The answer for the client: of a server with sessions, or a failure. */
  | { readonly kind: 'answered'; readonly answer: JsonRpcResponse }
  | ModernServer
  | { readonly kind: 'abandoned' }

/** A server of the stateless revision. */
export interface ModernServer {
  readonly kind: 'modern'
  readonly version: string
  readonly discovered: DiscoverResult
  /** Known from the record, without a request. */
  readonly isResumed: boolean
  readonly toolHeaders?: ToolHeaderMap | undefined
}

/** A legacy server may support both eras later. Checking again costs one request. */
const LEGACY_VERDICT_MS = 24 * 60 * 60 * 1000

const ABANDONED: Negotiated = { kind: 'abandoned' }

/**
 * Detects the era of a server with the client's `initialize` (2026-07-28, basic/versioning), and opens the
 * session of a legacy server. The session record stores the era.
 */
export class Negotiation {
  readonly #options: NegotiationOptions
  readonly #subject: NegotiationSubject

  constructor(options: NegotiationOptions, subject: NegotiationSubject) {
    this.#options = options
    this.#subject = subject
  }

  /** Call it once, after the store was read. */
  async run(): Promise<Negotiated> {
    const { era } = this.#options
    const { signal, isTakenForLegacy } = this.#subject
    if (signal.aborted) return ABANDONED
    if (era === 'legacy') return this.#legacyOnly()
    const known = isTakenForLegacy ? undefined : this.#knownModern()
    if (known !== undefined) return known
    const isLegacyFirst = era === 'legacy-first' || isTakenForLegacy || this.#isKnownLegacy()
    return era === 'modern' || !isLegacyFirst ? this.#probe() : this.#legacyFirst()
  }

  async #legacyOnly(): Promise<Negotiated> {
    const answer = await this.#initialize()
    if (answer === undefined || 'result' in answer) return answeredWith(answer)
    const offered = modernEvidence(answer)
    return offered === undefined ? this.#explainNoServer(answer) : this.#only(offered)
  }

  async #legacyFirst(): Promise<Negotiated> {
    const answer = await this.#initialize()
    if (answer === undefined || 'result' in answer) return answeredWith(answer)
    return modernEvidence(answer) === undefined
      ? this.#explainNoServer(answer)
      : this.#probe(answer)
  }

  /** `refused` is the server's error to `initialize`, if it was sent before. */
  async #probe(refused?: JsonRpcResponse): Promise<Negotiated> {
    const { era, http, probeMs } = this.#options
    const { request, signal } = this.#subject
    const verdict = await askEra({ http, request, probeMs, signal })
    if (signal.aborted) return ABANDONED
    switch (verdict.kind) {
      case 'modern':
        return this.#foundModern(verdict)
      case 'legacy': {
        const { evidence, offered } = verdict
        if (era === 'modern') return this.#only(offered ?? ['revisions with sessions'])
        if (refused !== undefined) return answeredWith(refused)
        this.#options.keeper.checkedEra('legacy')
        const answer = await this.#initialize()
        if (answer === undefined || 'result' in answer) return answeredWith(answer)
        // Signs of a modern server: its first error explains more than the second.
        if (evidence !== undefined) return answeredWith(errorAnswer(request.id, evidence))
        return offered === undefined ? this.#explainNoServer(answer) : this.#only(offered)
      }
      case 'incompatible':
        return this.#only(verdict.offered)
      case 'error':
      case 'later':
      case 'again':
        return answeredWith(errorAnswer(request.id, verdict.error))
    }
  }

  async #foundModern(found: { version: string; result: DiscoverResult }): Promise<Negotiated> {
    const { keeper } = this.#options
    const { request, signal } = this.#subject
    const { version, result: discovered } = found
    keeper.checkedEra('modern')
    const record = await keeper.next({
      protocolVersion: version,
      discoverResult: discovered,
      initializeParamsHash: initializeParamsHash(request),
    })
    await keeper.opened(record)
    return signal.aborted ? ABANDONED : { kind: 'modern', version, discovered, isResumed: false }
  }

  /** Returns the stored modern server, if it was stored for a client like this one. */
  #knownModern(): ModernServer | undefined {
    const { record } = this.#options.keeper
    if (record?.era !== 'modern') return undefined
    const { protocolVersion: version = '', discoverResult: discovered, toolHeaders } = record
    const fits =
      discovered !== undefined &&
      MODERN_VERSIONS.includes(version) &&
      record.initializeParamsHash === initializeParamsHash(this.#subject.request)
    return fits ? { kind: 'modern', version, discovered, isResumed: true, toolHeaders } : undefined
  }

  /** True if there is a stored session, or a recent detection of a legacy server. */
  #isKnownLegacy(): boolean {
    const { legacy, keeper, now = Date.now } = this.#options
    if (legacy.hasStoredSession) return true
    if (keeper.record?.era !== 'legacy') return false
    return now() - Date.parse(keeper.record.eraCheckedAt) < LEGACY_VERDICT_MS
  }

  /** Returns the answer of a server with sessions; undefined if the client abandoned the request. */
  async #initialize(): Promise<JsonRpcResponse | undefined> {
    const { legacy } = this.#options
    const { request, signal, repeated } = this.#subject
    if (repeated === undefined) return legacy.initialize(request)
    return repeated.refused ?? legacy.repeatHandshake(request, signal)
  }

  #only(offered: readonly string[]): Negotiated {
    const { http, era } = this.#options
    const error = otherVersionsError(http.url.display, offered, era)
    return answeredWith(errorAnswer(this.#subject.request.id, error))
  }

  #explainNoServer(answer: JsonRpcResponse): Negotiated {
    return answeredWith(explainNoServer(answer, this.#options.http.url.display))
  }
}

function answeredWith(answer: JsonRpcResponse | undefined): Negotiated {
  return answer === undefined ? ABANDONED : { kind: 'answered', answer }
}

interface AskEraOptions {
  readonly http: HttpClient
  /** The client's `initialize`. Its parameters identify the client. */
  readonly request: JsonRpcRequest
  /** Time limit of one probe, in milliseconds. */
  readonly probeMs: number
  readonly signal: AbortSignal
}

const RETRIES = 2

/**
 * Probes a server until it shows its era: once more with another version if the server asks for it, and twice
 * more if the server is busy. Returns `again` or `later` if the server still asks for more.
 */
async function askEra(options: AskEraOptions): Promise<ProbeVerdict> {
  const { http, request, probeMs, signal } = options
  let version = MODERN_VERSIONS[0] ?? ''
  let isSecond = false
  for (let retries = 0; ;) {
    const identity = toIdentity(request, version)
    const verdict = probeVerdict(await probe({ http, identity, probeMs, signal }))
    if (verdict.kind === 'again' && !isSecond) {
      isSecond = true
      version = verdict.version
    } else if (verdict.kind === 'later' && retries < RETRIES && !signal.aborted) {
      const ms = getProbeDelayMs(retries++, verdict.error.retryAfterMs)
      await sleep(ms, undefined, { signal, ref: false }).catch(() => {}) // the next probe fails if aborted
    } else {
      return verdict
    }
  }
}

/** The server supports only revisions that the transport may not use. */
export function otherVersionsError(
  url: string,
  offered: readonly string[],
  era: EraOption,
): TransportError {
  const spoken = SPOKEN[era].join(', ')
  const message = `${url} offers only ${offered.join(', ')}; the option era: '${era}' allows only ${spoken}`
  return new TransportError('REJECTED', message, { url })
}

const SPOKEN: Readonly<Record<EraOption, readonly string[]>> = {
  auto: [...MODERN_VERSIONS, ...LEGACY_VERSIONS],
  'legacy-first': [...MODERN_VERSIONS, ...LEGACY_VERSIONS],
  legacy: LEGACY_VERSIONS,
  modern: MODERN_VERSIONS,
}

/**
 * Adds an explanation to an answer that refuses both ways to connect: the URL may belong to a server of the
 * HTTP+SSE transport of 2024-11-05.
 */
export function explainNoServer(answer: JsonRpcResponse, url: string): JsonRpcResponse {
  if ('result' in answer || answer.id === undefined || answer.id === null) return answer
  const { data } = answer.error
  if (!TransportError.is(data) || data.serverError !== undefined) return answer
  if (data.status !== 400 && data.status !== 404 && data.status !== 405) return answer
  const message = `${url} refuses initialize (HTTP ${data.status}): it is not an MCP endpoint, or a server of the HTTP+SSE transport of 2024-11-05, which is not supported. Check the URL`
  return errorAnswer(
    answer.id,
    new TransportError(data.code, message, {
      status: data.status,
      url,
      bodyText: data.bodyText,
      cause: data,
    }),
  )
}

import { setTimeout as sleep } from 'node:timers/promises'
import type { HttpClient } from '../http/http-client.ts'
import type { JsonRpcRequest, JsonRpcResponse } from '../json-rpc.ts'
import { initializeParamsHash } from '../legacy/handshake.ts'
import type { LegacyProtocol } from '../legacy/legacy-protocol.ts'
import { toIdentity } from '../modern/modern-request.ts'
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
  /** Limit for one probe, in milliseconds. */
  readonly probeMs: number
  readonly now?: (() => number) | undefined
}

/** What a negotiation is about. */
export interface NegotiationSubject {
  /** The client's `initialize`. */
  readonly request: JsonRpcRequest
  /** Nobody waits any more. */
  readonly signal: AbortSignal
  /** The client knows both kinds of server, and has asked this one itself: it takes it for legacy. */
  readonly isTakenForLegacy: boolean
  /** The transport repeats the handshake, and no caller has a timer for it: `probeMs` limits `initialize` too. */
  readonly isRepeated?: boolean | undefined
}

export type Negotiated =
  /** The client's answer: that of a server with sessions, or the reason why there is none. */
  | { readonly kind: 'answered'; readonly answer: JsonRpcResponse }
  | ModernServer
  | { readonly kind: 'abandoned' }

/** A server of the stateless revision. */
export interface ModernServer {
  readonly kind: 'modern'
  readonly version: string
  readonly discovered: DiscoverResult
  /** It was known from the record, and not asked. */
  readonly isResumed: boolean
  readonly toolHeaders?: ToolHeaderMap | undefined
}

/** A server that was legacy may be both by now; asking again costs one request. */
const LEGACY_VERDICT_MS = 24 * 60 * 60 * 1000

const ABANDONED: Negotiated = { kind: 'abandoned' }

/**
 * Finds out with the client's `initialize` which kind of server it is (2026-07-28, basic/versioning), and
 * opens the session of a legacy one. The verdict is kept in the session record.
 */
export class Negotiation {
  readonly #options: NegotiationOptions
  readonly #subject: NegotiationSubject

  constructor(options: NegotiationOptions, subject: NegotiationSubject) {
    this.#options = options
    this.#subject = subject
  }

  /** Once. The store must have been read before. */
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

  /** `refused` is what the server said to `initialize`, if it was asked that before. */
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
        // There were signs of a modern server: its first objection tells more than the second.
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

  /** The stored answer to `server/discover`, if it was given to a client like this one. */
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

  /** A session of a legacy server, or a verdict that is not too old. */
  #isKnownLegacy(): boolean {
    const { legacy, keeper, now = Date.now } = this.#options
    if (legacy.hasStoredSession) return true
    if (keeper.record?.era !== 'legacy') return false
    return now() - Date.parse(keeper.record.eraCheckedAt) < LEGACY_VERDICT_MS
  }

  /** The answer of a server with sessions; none where the client gave up. */
  #initialize(): Promise<JsonRpcResponse | undefined> {
    const { legacy, probeMs } = this.#options
    const { request, isRepeated } = this.#subject
    return legacy.initialize(request, isRepeated ? probeMs : undefined)
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
  /** The client's `initialize`: it says who asks. */
  readonly request: JsonRpcRequest
  /** Limit for one probe, in milliseconds. */
  readonly probeMs: number
  readonly signal: AbortSignal
}

const RETRIES = 2

/**
 * Probes a server until its answer says of which era it is: once more at another version, if it wants
 * that, and twice more if it has no time now. `again` and `later` remain where it wants them without end.
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
      await sleep(ms, undefined, { signal, ref: false }).catch(() => {}) // the next probe tells
    } else {
      return verdict
    }
  }
}

/** The server speaks MCP, but no revision that this transport was allowed to speak. */
export function otherVersionsError(
  url: string,
  offered: readonly string[],
  era: EraOption,
): TransportError {
  const spoken = SPOKEN[era].join(', ')
  const message = `${url} offers only ${offered.join(', ')}; with the option era: '${era}' only ${spoken} can be spoken`
  return new TransportError('REJECTED', message, { url })
}

const SPOKEN: Readonly<Record<EraOption, readonly string[]>> = {
  auto: [...MODERN_VERSIONS, ...LEGACY_VERSIONS],
  'legacy-first': [...MODERN_VERSIONS, ...LEGACY_VERSIONS],
  legacy: LEGACY_VERSIONS,
  modern: MODERN_VERSIONS,
}

/**
 * Both ways to open a conversation were refused in the way of a server that knows neither: it may be one
 * of the HTTP+SSE transport of 2024-11-05. The answer, with that said.
 */
export function explainNoServer(answer: JsonRpcResponse, url: string): JsonRpcResponse {
  if ('result' in answer || answer.id === undefined || answer.id === null) return answer
  const { data } = answer.error
  if (!TransportError.is(data) || data.serverError !== undefined) return answer
  if (data.status !== 400 && data.status !== 404 && data.status !== 405) return answer
  const message = `${url} refuses initialize (HTTP ${data.status}): no MCP endpoint, or a server of the HTTP+SSE transport of 2024-11-05, which is not spoken here`
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

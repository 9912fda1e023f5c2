import type { ConnectionParts } from '../calls/connection-parts.ts'
import type { JsonRpcRequest } from '../json-rpc.ts'
import { initializeParamsHash } from '../legacy/handshake.ts'
import type { LegacyServer } from '../legacy/legacy-server.ts'
import type { OpenOptions, OpenOutcome } from '../legacy/session-opener.ts'
import type { DiscoveredServer } from '../modern/modern-server.ts'
import { LEGACY_VERSIONS, MODERN_VERSIONS, modernEvidence } from '../session-record.ts'
import type { InitializeResult } from '../session-record.ts'
import { TransportError } from '../transport-error.ts'
import type { OpeningError } from '../transport-error.ts'
import type { EraOption } from '../transport-options.ts'
import { detectEra } from './probe.ts'

/** A negotiation of the era, with the parameters of the client's `initialize`. */
export interface Opening {
  readonly request: JsonRpcRequest
  /** Aborts when the answer is not needed any more. */
  readonly signal: AbortSignal
  /** Set if the transport repeats the handshake of the client. `isFresh`: also the era of the server is detected again. */
  readonly repetition: Omit<OpenOptions, 'signal'> | undefined
  readonly era: EraOption
  /** The client speaks the stateless revision too. It sends `initialize` only to a server with sessions. */
  readonly isTakenForLegacy: boolean
}

export type Negotiated =
  /** The server speaks a stateless revision. */
  | ({ readonly kind: 'modern'; readonly version: string } & DiscoveredServer)
  /** A server with sessions has opened one, or has it open. */
  | { readonly kind: 'opened'; readonly result: InitializeResult }
  | { readonly kind: 'failed'; readonly error: OpeningError }
  | { readonly kind: 'cancelled' }

/** A legacy server may support both eras later. Checking again costs one request. */
const LEGACY_VERDICT_MS = 24 * 60 * 60 * 1000
/** The same for a server that did not answer the probe in time: it may have been slow once. */
const SILENT_VERDICT_MS = 60 * 60 * 1000

/**
 * Detects the era (2026-07-28, basic/versioning), and opens the session of a legacy server. The session record stores
 * the era. Call it after the store was read.
 */
export async function negotiate(
  parts: ConnectionParts,
  legacy: LegacyServer,
  opening: Opening,
): Promise<Negotiated> {
  const { http, keeper, timeouts } = parts
  const { request, signal, era, repetition, isTakenForLegacy } = opening
  const { isFresh = false, isReplacement = false } = repetition ?? {}
  const only = (offered: readonly string[]): Negotiated => {
    const message = `${http.url.display} offers only ${offered.join(', ')}; the option era: '${era}' allows only ${SPOKEN[era].join(', ')}`
    return failed(http.error('REJECTED', message))
  }
  if (signal.aborted) return CANCELLED
  if (era !== 'legacy' && !isTakenForLegacy && !isFresh) {
    const known = storedServer(parts, request)
    if (known !== undefined) return known
  }
  const isLegacyFirst =
    era === 'legacy' ||
    (era === 'legacy-first' && !isFresh) ||
    isTakenForLegacy ||
    isReplacement ||
    (!isFresh && isKnownLegacy(parts, legacy))
  let refused: OpeningError | undefined
  if (isLegacyFirst && era !== 'modern') {
    const opened = await openLegacy(legacy, opening)
    if (opened.kind !== 'failed') return opened
    refused = opened.error
    const offered = modernEvidence(refused)
    if (era === 'legacy') return offered === undefined ? opened : only(offered)
    // A server that was replaced by a stateless one may refuse `initialize` in any way.
    const isPresumed = isFresh || (era === 'auto' && !isTakenForLegacy && repetition === undefined)
    if (offered === undefined && !(isPresumed && isByServer(refused))) return opened
  }
  const verdict = await detectEra({ http, request, probeMs: timeouts.probeMs, signal })
  if (signal.aborted) return CANCELLED
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
      if (signal.aborted) return CANCELLED
      return { kind: 'modern', version, discovered, isResumed: false, toolHeaders: undefined }
    }
    case 'legacy': {
      const { evidence, offered } = verdict
      // A server that did not answer the probe has not shown its era.
      const { status = 500 } = evidence ?? { status: 0 }
      if (era === 'modern' && evidence !== undefined && status >= 500) {
        return failed(evidence)
      }
      if (era === 'modern') return only(offered ?? ['revisions with sessions'])
      const ageMs = evidence?.code === 'TIMEOUT' ? LEGACY_VERDICT_MS - SILENT_VERDICT_MS : 0
      if (refused === undefined) keeper.checkedEra('legacy', ageMs)
      const opened = refused === undefined ? await openLegacy(legacy, opening) : failed(refused)
      if (opened.kind !== 'failed') return opened
      // The server did not answer the probe in time, and its refusal shows that it may be a modern one.
      if (evidence?.code === 'TIMEOUT' && modernEvidence(opened.error) !== undefined) {
        const modern = await negotiate(parts, legacy, { ...opening, era: 'modern' })
        if (modern.kind !== 'failed') return modern
      }
      if (refused !== undefined) return opened
      // Signs of a modern server: its first error explains more than the second.
      const isAnswered = status >= 500 && isByServer(opened.error)
      if (evidence !== undefined && !isAnswered) return failed(evidence)
      return offered === undefined ? opened : only(offered)
    }
    case 'incompatible':
      return only(verdict.offered)
    case 'error':
    case 'later':
    case 'again': {
      // The server, or a proxy before it, may refuse only the probe (adcontextprotocol/adcp-client#2434). With a provider,
      // a second refusal could ask the user to sign in again.
      const { status } = verdict.error
      const isUnauthorized = (status === 401 || status === 403) && http.authorizer === undefined
      const mayBeLegacy = isFresh || isUnauthorized
      if (!mayBeLegacy || era === 'modern' || refused !== undefined) return failed(verdict.error)
      const opened = await openLegacy(legacy, opening)
      return opened.kind === 'failed' ? failed(verdict.error) : opened
    }
  }
}

const CANCELLED = { kind: 'cancelled' } as const

const failed = (error: OpeningError): Negotiated => ({ kind: 'failed', error })

async function openLegacy(
  legacy: LegacyServer,
  { request, repetition, signal }: Opening,
): Promise<OpenOutcome | typeof CANCELLED> {
  const outcome =
    repetition === undefined
      ? await legacy.open(request, signal)
      : await legacy.repeatHandshake(request, { signal, ...repetition })
  return outcome === undefined || signal.aborted ? CANCELLED : outcome
}

/** True if there is a stored session, or a recent detection of a legacy server. */
function isKnownLegacy({ keeper: { record } }: ConnectionParts, legacy: LegacyServer): boolean {
  if (legacy.hasStoredSession) return true
  if (record?.era !== 'legacy') return false
  return Date.now() - Date.parse(record.eraCheckedAt) < LEGACY_VERDICT_MS
}

/** Returns the stored modern server, if it was stored for a client like this one. */
function storedServer(
  { keeper: { record } }: ConnectionParts,
  request: JsonRpcRequest,
): Negotiated | undefined {
  if (record?.era !== 'modern') return undefined
  const { protocolVersion: version = '', discoverResult: discovered, toolHeaders } = record
  const isFitting =
    MODERN_VERSIONS.includes(version) &&
    record.initializeParamsHash === initializeParamsHash(request)
  if (discovered === undefined || !isFitting) return undefined
  return { kind: 'modern', version, discovered, isResumed: true, toolHeaders }
}

/** Returns whether the error of `initialize` comes from the server, with any status but those for credentials. */
function isByServer(error: OpeningError): boolean {
  if (!TransportError.is(error)) return true
  return error.code !== 'UNAUTHORIZED' && error.status !== undefined
}

/** Revisions that the transport may use. */
const SPOKEN: Readonly<Record<EraOption, readonly string[]>> = {
  auto: [...MODERN_VERSIONS, ...LEGACY_VERSIONS],
  'legacy-first': [...MODERN_VERSIONS, ...LEGACY_VERSIONS],
  legacy: LEGACY_VERSIONS,
  modern: MODERN_VERSIONS,
}

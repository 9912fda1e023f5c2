import { setTimeout as sleep } from 'node:timers/promises'
import { isRecord } from '@x/internal'
import { retryAfterMs, sayDelay } from '../headers.ts'
import type { ResponseHeaders } from '../headers.ts'
import { isTemporary } from '../http/follow-stream.ts'
import type { HttpClient } from '../http/http-client.ts'
import type { JsonRpcRequest } from '../json-rpc.ts'
import { discardAssignedSession } from '../legacy/one-way.ts'
import { modernPost, toIdentity, withIdentity } from '../modern/modern-post.ts'
import type { PostOutcome } from '../modern/modern-post.ts'
import {
  commonVersion,
  hasLegacyVersion,
  HEADER_MISMATCH,
  isDiscoverResult,
  MISSING_CAPABILITY,
  MODERN_VERSIONS,
  UNSUPPORTED_VERSION,
} from '../session-record.ts'
import type { DiscoverResult } from '../session-record.ts'
import { TransportError } from '../transport-error.ts'
import type { ServerError } from '../transport-error.ts'

export type ProbeVerdict =
  | { readonly kind: 'modern'; readonly version: string; readonly discovered: DiscoverResult }
  | {
      readonly kind: 'legacy'
      /** A sign of a modern server. It becomes the error if `initialize` fails too. */
      readonly evidence: TransportError | undefined
      /** The offered versions, if the server named them. */
      readonly offered: readonly string[] | undefined
    }
  /** Probe once more with this version. `error` is the response to the first probe. */
  | { readonly kind: 'again'; readonly version: string; readonly error: TransportError }
  | { readonly kind: 'later'; readonly error: TransportError }
  | { readonly kind: 'error'; readonly error: TransportError }
  /** The server offers only versions that the transport does not support. */
  | { readonly kind: 'incompatible'; readonly offered: readonly string[] }

export interface ProbeOptions {
  readonly http: HttpClient
  /** The client's `initialize`. Its parameters identify the client. */
  readonly request: JsonRpcRequest
  /** Time limit of one probe, in milliseconds. */
  readonly probeMs: number
  readonly signal: AbortSignal
}

const RETRIES = 2

/**
 * Probes a server of unknown era with `server/discover` until it shows its era: once more with another version if
 * the server asks for it, and twice more if the server is busy. Returns `again` or `later` if the server still asks
 * for more, or for a delay of more than 10 s.
 */
export async function detectEra(options: ProbeOptions): Promise<ProbeVerdict> {
  const { http, signal } = options
  let version = MODERN_VERSIONS[0] ?? ''
  let isSecond = false
  for (let retries = 0; ;) {
    const outcome = await probe(options, version)
    const verdict = probeVerdict(outcome, http.url.display)
    const delayMs =
      verdict.kind === 'later' && retries < RETRIES
        ? getProbeDelayMs(retries, verdict.error.retryAfterMs)
        : undefined
    if (verdict.kind !== 'modern') discardAssignedSession(http, outcome.headers)
    if (verdict.kind === 'again' && !isSecond) {
      isSecond = true
      version = verdict.version
    } else if (delayMs !== undefined && !signal.aborted) {
      retries++
      await sleep(delayMs, undefined, { signal, ref: false }).catch(() => {}) // the next probe fails if aborted
    } else {
      // Servers that fail at an unknown method answer it with 500 (csharp-sdk #1765).
      const isInternal = verdict.kind === 'later' && verdict.error.status === 500
      return isInternal ? { ...LEGACY, evidence: verdict.error } : verdict
    }
  }
}

function probe(options: ProbeOptions, version: string): Promise<PostOutcome> {
  const { http, request, probeMs, signal } = options
  const params = withIdentity({}, toIdentity(request, version))
  const discover = { jsonrpc: '2.0', id: 'discover', method: 'server/discover', params } as const
  const onLateHead = (headers: ResponseHeaders): void => discardAssignedSession(http, headers)
  return modernPost(http, discover, { signal, limitMs: probeMs, onLateHead })
}

const LEGACY = { kind: 'legacy', evidence: undefined, offered: undefined } as const

/**
 * Derives the era from the result of a probe (2026-07-28, basic/versioning and
 * basic/transports/streamable-http, "Backward Compatibility"). A server is legacy unless the result clearly
 * shows a modern one: responses differ widely, and some gateways drop probes.
 */
export function probeVerdict(outcome: PostOutcome, url: string): ProbeVerdict {
  if (outcome.kind !== 'answered') {
    const { error } = outcome
    const { code, status } = error
    // Some servers with sessions never answer an unknown method (rust-sdk #1142, #1149).
    if (outcome.kind === 'failed' && code === 'TIMEOUT' && status === undefined) {
      const message = `${error.message} to server/discover. If the server has sessions, set era: 'legacy'`
      return { ...LEGACY, evidence: error.with({ message }) }
    }
    const isCut = outcome.kind === 'failed' && (code === 'OUTCOME_UNKNOWN' || code === 'TIMEOUT')
    return status === undefined || isCut ? { kind: 'error', error } : refusedVerdict(status, error)
  }
  const { answer, status, headers } = outcome
  if ('result' in answer && isDiscoverResult(answer.result)) {
    const { supportedVersions: offered } = answer.result
    const version = commonVersion(offered)
    if (version === undefined) return { ...LEGACY, offered }
    return { kind: 'modern', version, discovered: answer.result }
  }
  const serverError = 'error' in answer ? answer.error : undefined
  const said = serverError?.message ?? 'a response that is not a DiscoverResult'
  const delayMs = retryAfterMs(headers)
  const message = `${url} answered a probe with: ${said}${sayDelay(delayMs)}`
  const options = { url, status, serverError, retryAfterMs: delayMs }
  return refusedVerdict(status, new TransportError('REJECTED', message, options), serverError)
}

function refusedVerdict(
  status: number,
  error: TransportError,
  serverError?: ServerError,
): ProbeVerdict {
  // A refusal of the credentials says nothing about the era.
  if (status === 401 || status === 403) return { kind: 'error', error }
  const code = serverError?.code
  if (code === UNSUPPORTED_VERSION) return verdictOfVersions(serverError?.data, error)
  if (code === HEADER_MISMATCH || code === MISSING_CAPABILITY) {
    return { ...LEGACY, evidence: error }
  }
  return isTemporary(status) ? { kind: 'later', error } : LEGACY
}

/** Judges the versions that a server offers in its error. */
function verdictOfVersions(data: unknown, error: TransportError): ProbeVerdict {
  const supported = isRecord(data) ? data['supported'] : undefined
  if (!Array.isArray(supported)) return LEGACY
  const offered = supported.filter((version) => typeof version === 'string')
  const version = commonVersion(offered)
  if (version !== undefined) return { kind: 'again', version, error }
  if (offered.length === 0 || hasLegacyVersion(offered)) {
    return { kind: 'legacy', evidence: error, offered }
  }
  return { kind: 'incompatible', offered }
}

const FIRST_MS = 500
const MAX_MS = 10_000

/**
 * Returns the delay before the next probe, in milliseconds: `Retry-After` of the server. Undefined if that is longer than
 * this function may wait: then the caller decides.
 *
 * @param retries Number of earlier retries
 */
export function getProbeDelayMs(retries: number, askedMs: number | undefined): number | undefined {
  const delayMs = askedMs ?? FIRST_MS * 2 ** retries
  return delayMs > MAX_MS ? undefined : delayMs
}

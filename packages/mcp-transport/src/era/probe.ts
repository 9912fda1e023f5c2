import { isRecord } from '@x/internal'
import { retryAfterMs } from '../headers.ts'
import type { Exchange } from '../http/exchange.ts'
import type { HttpClient } from '../http/http-client.ts'
import { endAssignedSession } from '../legacy/one-way.ts'
import { modernPost, withIdentity, modernHeaders } from '../modern/modern-post.ts'
import type { PostOutcome, ClientIdentity } from '../modern/modern-post.ts'
import {
  isDiscoverResult,
  commonVersion,
  hasLegacyVersion,
  UNSUPPORTED_VERSION,
} from '../session-record.ts'
import type { DiscoverResult } from '../session-record.ts'
import { closedError, TransportError } from '../transport-error.ts'
import type { ServerError } from '../transport-error.ts'

export interface ProbeOptions {
  readonly http: HttpClient
  readonly identity: ClientIdentity
  /** Time limit of the whole probe, in milliseconds. */
  readonly probeMs: number
  readonly signal: AbortSignal
}

/** Sends `server/discover` to a server of unknown era. */
export async function probe(options: ProbeOptions): Promise<ProbeOutcome> {
  const { http, identity, probeMs, signal } = options
  const request = {
    jsonrpc: '2.0',
    id: 'discover',
    method: 'server/discover',
    params: withIdentity({}, identity),
  } as const
  const closing = new AbortController()
  const url = http.url.display
  const startTimer = (): NodeJS.Timeout => setTimeout(() => closing.abort(), probeMs).unref()
  let timer = startTimer()
  const ends = AbortSignal.any([signal, closing.signal])
  let exchange: Exchange | undefined
  const stop = (): void =>
    exchange?.abort(
      signal.aborted
        ? closedError('The client abandoned initialize', url)
        : new TransportError('TIMEOUT', `${url} did not answer a probe in ${probeMs} ms`, { url }),
    )
  ends.addEventListener('abort', stop, { once: true })
  try {
    const outcome = await modernPost({
      http,
      request,
      headers: modernHeaders(request, identity.protocolVersion),
      headersMs: 0,
      onMessage: () => {},
      onExchange: (started) => {
        exchange = started
        return !ends.aborted
      },
      onPause: (isPaused) => {
        clearTimeout(timer)
        if (!isPaused) timer = startTimer()
      },
    })
    const said = toProbeOutcome(outcome, url)
    if (said.kind !== 'discovered') endAssignedSession(http, outcome.headers)
    return said
  } finally {
    clearTimeout(timer)
    ends.removeEventListener('abort', stop)
  }
}

function toProbeOutcome(outcome: PostOutcome, url: string): ProbeOutcome {
  if (outcome.kind === 'failed') {
    const { error, isWhole } = outcome
    const { status } = error
    const isCut = isWhole !== true && (error.code === 'OUTCOME_UNKNOWN' || error.code === 'TIMEOUT')
    return status === undefined || isCut
      ? { kind: 'failed', error }
      : { kind: 'refused', status, error }
  }
  const { answer, status, headers } = outcome
  if ('result' in answer && isDiscoverResult(answer.result)) {
    return { kind: 'discovered', result: answer.result }
  }
  const serverError = 'error' in answer ? answer.error : undefined
  const said = serverError?.message ?? 'a response that is not a DiscoverResult'
  const error = new TransportError('REJECTED', `${url} answered a probe with: ${said}`, {
    url,
    status,
    serverError,
    retryAfterMs: retryAfterMs(headers),
  })
  return { kind: 'refused', status, error, serverError }
}

/** Result of `server/discover`. */
export type ProbeOutcome =
  | { readonly kind: 'discovered'; readonly result: DiscoverResult }
  /** A JSON-RPC error of any HTTP status, an HTTP error, or a 2xx without a usable body. */
  | {
      readonly kind: 'refused'
      readonly status: number
      readonly error: TransportError
      readonly serverError?: ServerError | undefined
    }
  /** No response. */
  | { readonly kind: 'failed'; readonly error: TransportError }

export type ProbeVerdict =
  | { readonly kind: 'modern'; readonly version: string; readonly result: DiscoverResult }
  | {
      readonly kind: 'legacy'
      /** A sign of a modern server. It becomes the error if `initialize` fails too. */
      readonly evidence?: TransportError | undefined
      /** The offered versions, if the server named them. */
      readonly offered?: readonly string[] | undefined
    }
  /** Probe once more with this version. `error` is the response to the first probe. */
  | { readonly kind: 'again'; readonly version: string; readonly error: TransportError }
  | { readonly kind: 'later'; readonly error: TransportError }
  | { readonly kind: 'error'; readonly error: TransportError }
  /** The server offers only versions that the transport does not support. */
  | { readonly kind: 'incompatible'; readonly offered: readonly string[] }

const HEADER_MISMATCH = -32020
const MISSING_CAPABILITY = -32021

/**
 * Derives the era from the result of a probe (2026-07-28, basic/versioning and
 * basic/transports/streamable-http, "Backward Compatibility"). A server is legacy unless the result clearly
 * shows a modern one: responses differ widely, and some gateways drop probes.
 */
export function probeVerdict(outcome: ProbeOutcome): ProbeVerdict {
  switch (outcome.kind) {
    case 'discovered': {
      const offered = outcome.result.supportedVersions
      const version = commonVersion(offered)
      if (version !== undefined) return { kind: 'modern', version, result: outcome.result }
      return { kind: 'legacy', offered }
    }
    case 'failed':
      return { kind: 'error', error: outcome.error }
    case 'refused':
      return refusedVerdict(outcome)
  }
}

function refusedVerdict(outcome: Extract<ProbeOutcome, { kind: 'refused' }>): ProbeVerdict {
  const { status, error, serverError } = outcome
  // A refusal of the credentials says nothing about the era.
  if (status === 401 || status === 403) return { kind: 'error', error }
  const code = serverError?.code
  if (serverError !== undefined && code === UNSUPPORTED_VERSION) {
    return versionVerdict(serverError, error)
  }
  if (code === HEADER_MISMATCH || code === MISSING_CAPABILITY) {
    return { kind: 'legacy', evidence: error }
  }
  const isPassing = status === 408 || status === 425 || status === 429
  return status >= 500 || isPassing ? { kind: 'later', error } : { kind: 'legacy' }
}

function versionVerdict({ data }: ServerError, error: TransportError): ProbeVerdict {
  const offered = isRecord(data) && Array.isArray(data['supported']) ? data['supported'] : undefined
  if (offered === undefined) return { kind: 'legacy' }
  const versions = offered.filter((version) => typeof version === 'string')
  const version = commonVersion(versions)
  if (version !== undefined) return { kind: 'again', version, error }
  if (versions.length === 0 || hasLegacyVersion(versions)) {
    return { kind: 'legacy', evidence: error, offered: versions }
  }
  return { kind: 'incompatible', offered: versions }
}

const FIRST_MS = 500
const MAX_MS = 10_000

/**
 * Returns the delay before the next probe, in milliseconds: `Retry-After` of the server, up to a maximum.
 *
 * @param retries Number of earlier retries
 */
export function getProbeDelayMs(retries: number, askedMs: number | undefined): number {
  return Math.min(askedMs ?? FIRST_MS * 2 ** retries, MAX_MS)
}

import { isRecord } from '@x/internal'
import type { ServerError, TransportError } from '../transport-error.ts'
import type { DiscoverResult } from './discover-result.ts'
import { commonVersion, hasLegacyVersion, UNSUPPORTED_VERSION } from './versions.ts'

/** How a server answered to `server/discover`. */
export type ProbeOutcome =
  | { readonly kind: 'discovered'; readonly result: DiscoverResult }
  /** No DiscoverResult: a JSON-RPC error of any HTTP status, an HTTP error, or a 2xx without a usable body. */
  | {
      readonly kind: 'refused'
      readonly status: number
      readonly error: TransportError
      readonly serverError?: ServerError | undefined
    }
  /** No response at all. */
  | { readonly kind: 'failed'; readonly error: TransportError }

export type ProbeVerdict =
  | { readonly kind: 'modern'; readonly version: string; readonly result: DiscoverResult }
  | {
      readonly kind: 'legacy'
      /** A sign of the contrary: if `initialize` fails too, this is the error. */
      readonly evidence?: TransportError | undefined
      /** The versions that it offers, where it said them. */
      readonly offered?: readonly string[] | undefined
    }
  /** To be asked once more, at this version; `error` is what it said to the first one. */
  | { readonly kind: 'again'; readonly version: string; readonly error: TransportError }
  | { readonly kind: 'later'; readonly error: TransportError }
  | { readonly kind: 'error'; readonly error: TransportError }
  /** Speaks other versions than we do; `offered` says which. */
  | { readonly kind: 'incompatible'; readonly offered: readonly string[] }

const HEADER_MISMATCH = -32020
const MISSING_CAPABILITY = -32021

/**
 * What the answer to a probe says about the server (2026-07-28, basic/versioning and
 * basic/transports/streamable-http, "Backward Compatibility"). Everything that is not plainly modern is
 * legacy: servers of both kinds answer in many ways, and gateways swallow probes.
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
  // Credentials first: what stands in such a body says nothing about the era.
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

import { TransportError } from './transport-error.ts'
import type { RequestOutcome } from './transport-error.ts'

/**
 * `CLOSED`: this side has closed the transport, ended the session or given up the request.
 *
 * @param url Without query
 */
export function closedError(
  why: string,
  url: string,
  outcome: RequestOutcome = 'unknown',
): TransportError {
  return new TransportError('CLOSED', why, { url, outcome })
}

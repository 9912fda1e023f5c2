import type { HttpAnswer } from '../../internal/exchange.ts'
import { RPC, rpcErrorResponse } from '../rpc-error.ts'
import type { Admission } from '../replicas/shared-sessions.ts'

const INVALID_REQUEST = -32_600
/** Until some session may have ended. */
const FULL_MS = 60_000

export function tooMany(how: Exclude<Admission, 'ok'>): HttpAnswer {
  return how === 'too many'
    ? tryLater(503, 'There are too many sessions', FULL_MS)
    : tryLater(429, 'The caller has too many sessions', FULL_MS)
}

/** Clients begin anew on this answer, and on no other. */
export function noSession(): HttpAnswer {
  return refused(404, RPC.sessionNotFound, 'Session not found')
}

export function refused(status: number, code: number, message: string): HttpAnswer {
  return { response: rpcErrorResponse(status, { code, message }) }
}

export function tryLater(status: number, message: string, waitMs: number): HttpAnswer {
  const headers = { 'retry-after': String(Math.ceil(waitMs / 1000)) }
  return { response: rpcErrorResponse(status, { code: RPC.refused, message }, headers) }
}

/** Which of two requests an answer, or a cancellation, belongs to could not be told. */
export function idInUse(): HttpAnswer {
  const message = 'Invalid Request: a request with this id is under way in the session'
  return refused(400, INVALID_REQUEST, message)
}

export function unknownEvent(): HttpAnswer {
  return refused(400, RPC.refused, 'The event named by Last-Event-ID is not known (any more)')
}

/**
 * Its client has all of a stream that has ended. An empty stream would be taken for a break, and asked for again;
 * 405 is the one other answer that the specification allows, and clients stop at it without a word.
 */
export function streamOver(): HttpAnswer {
  const error = { code: RPC.refused, message: 'There is no more of this stream' }
  return { response: rpcErrorResponse(405, error, { allow: 'POST, DELETE' }) }
}

/** A stream that ends without a word, for a call that had begun: an error would say that it had not. */
export function silentEnd(): Response {
  return new Response('', { headers: { 'content-type': 'text/event-stream' } })
}

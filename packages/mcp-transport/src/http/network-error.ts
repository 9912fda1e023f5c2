import { TransportError } from '../transport-error.ts'
import { wasUnsent } from './unsent-request.ts'

export interface NetworkErrorContext {
  /** Endpoint without query. */
  readonly url: string
  /** Whether undici had begun to write the request: before that, nothing can have been executed. */
  readonly started: boolean
  readonly status?: number | undefined
}

/** What a failure below HTTP means, said once, at the edge where it comes in. */
export function networkErrorFrom(error: unknown, context: NetworkErrorContext): TransportError {
  if (TransportError.is(error)) return error
  const { url, started, status } = context
  const cause = firstCause(error)
  const options = { cause: error, url, status }
  const code = codeOf(cause)
  if (code === 'UND_ERR_HEADERS_TIMEOUT') {
    return new TransportError('TIMEOUT', `${url} sent no answer in time`, options)
  }
  if (code === 'UND_ERR_BODY_TIMEOUT') {
    return new TransportError('TIMEOUT', `${url} went silent in the middle of an answer`, options)
  }
  if (code === 'UND_ERR_CLOSED' || code === 'UND_ERR_DESTROYED') {
    return new TransportError('CLOSED', 'The dispatcher of this transport was closed', {
      ...options,
      outcome: started ? 'unknown' : 'not-executed',
    })
  }
  if (code === 'UND_ERR_INVALID_ARG') {
    const message = `The request to ${url} cannot be sent: ${textOf(cause)}`
    return new TransportError('CONFIG', message, options)
  }
  if (!started) {
    return new TransportError('UNREACHABLE', `No connection to ${url}: ${textOf(cause)}`, options)
  }
  if (wasUnsent(cause)) {
    const message = `The connection to ${url} broke before the whole request was sent: ${textOf(cause)}`
    return new TransportError('UNREACHABLE', message, options)
  }
  return new TransportError(
    'OUTCOME_UNKNOWN',
    `The connection to ${url} broke before the answer was complete: ${textOf(cause)}`,
    options,
  )
}

/** A failed dual-stack connect is an `AggregateError` with an empty message: the story is inside. */
function firstCause(error: unknown): unknown {
  if (error instanceof AggregateError && error.errors.length > 0) return firstCause(error.errors[0])
  return error
}

function codeOf(error: unknown): string | undefined {
  const code: unknown = error instanceof Error && 'code' in error ? error.code : undefined
  return typeof code === 'string' ? code : undefined
}

function textOf(error: unknown): string {
  const text = error instanceof Error ? error.message : String(error)
  return text === '' ? (codeOf(error) ?? 'unknown reason') : text
}

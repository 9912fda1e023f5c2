import { headerValue } from '../http/response-headers.ts'
import { evidenceFrom, lossVerdict } from '../legacy/session-loss.ts'
import type { ErrorId } from '../legacy/session-loss.ts'
import { MODERN_CODES } from './versions.ts'
import type { PostOutcome } from '../modern/modern-post.ts'

/** What servers with sessions answer to a request without one; in 2026-07-28 it has no meaning. */
const NO_SESSION = -32000

/**
 * Whether the answer to a modern request looks like one of a server with sessions (2026-07-28,
 * basic/versioning). Such servers refuse with 400 and speak of a session that nobody mentioned, or assign a
 * session to a request that asked for none. A modern server has no sessions to speak of.
 */
export function saysLegacy(outcome: PostOutcome): boolean {
  const said = refusalFrom(outcome)
  if (said === undefined) return false
  const { status, code, text } = said
  const isJudged = status < 500 && status !== 401 && status !== 403 && status !== 429
  if (!isJudged || (code !== undefined && MODERN_CODES.includes(code))) return false
  if (
    outcome.headers !== undefined &&
    headerValue(outcome.headers, 'mcp-session-id') !== undefined
  ) {
    return true
  }
  if (status < 400) return false
  if (status === 400 && code === NO_SESSION) return true
  return lossVerdict({ status: 400, code, text }) !== 'not-lost' // 400: the text alone decides
}

/** Whether a server with sessions gave this answer before it dispatched the request. */
export function isBeforeDispatch(outcome: PostOutcome): boolean {
  const said = refusalFrom(outcome)
  if (said === undefined) return false
  const { status, code, errorId } = said
  // A dispatched request is answered with its own id.
  if (status === 400 && code !== undefined) return errorId === 'none'
  return lossVerdict(said) === 'lost'
}

interface SaidRefusal {
  readonly status: number
  readonly code?: number | undefined
  readonly text: string
  readonly errorId: ErrorId
}

function refusalFrom(outcome: PostOutcome): SaidRefusal | undefined {
  const { errorId = 'own' } = outcome
  if (outcome.kind === 'answered') {
    if ('result' in outcome.answer) return undefined
    const { code, message } = outcome.answer.error
    return { status: outcome.status, code, text: message, errorId }
  }
  const { status, bodyText = '' } = outcome.error
  // The text of the error may be cut, so it does not tell whose id the whole body carries.
  return status === undefined ? undefined : { status, ...evidenceFrom(bodyText), errorId }
}

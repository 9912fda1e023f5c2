import { evidenceFrom, lossVerdict } from '../legacy/session-loss.ts'
import { MODERN_CODES } from './versions.ts'
import type { PostOutcome } from '../modern/modern-post.ts'

/** What servers with sessions answer to a request without one; in 2026-07-28 it has no meaning. */
const NO_SESSION = -32000

/**
 * Whether the answer to a modern request is one that only a server with sessions gives: then what is
 * stored about the server is out of date (2026-07-28, basic/versioning). Such servers refuse with 400, and
 * speak of a session that nobody mentioned; a modern one has none to speak of.
 */
export function saysLegacy(outcome: PostOutcome): boolean {
  const said = refusalOf(outcome)
  if (said === undefined) return false
  const { status, code, text } = said
  const isJudged =
    status >= 400 && status < 500 && status !== 401 && status !== 403 && status !== 429
  if (!isJudged || (code !== undefined && MODERN_CODES.includes(code))) return false
  if (status === 400 && code === NO_SESSION) return true
  return lossVerdict({ status: 400, code, text }) !== 'not-lost' // 400: the text alone decides
}

interface SaidRefusal {
  readonly status: number
  readonly code?: number | undefined
  readonly text: string
}

function refusalOf(outcome: PostOutcome): SaidRefusal | undefined {
  if (outcome.kind === 'answered') {
    if ('result' in outcome.answer) return undefined
    const { code, message } = outcome.answer.error
    return { status: outcome.status, code, text: message }
  }
  const { status, bodyText } = outcome.error
  return status === undefined ? undefined : { status, ...evidenceFrom(bodyText ?? '') }
}

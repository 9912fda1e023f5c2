import type { BearerChallenge } from './discovery/challenge.ts'
import { sameScopes } from './scopes.ts'

/** `renew`: another token; `step-up`: one with more scopes. */
export type AuthAttempt = 'renew' | 'step-up'

/** The suite's limit, and more than any honest server needs. */
const MAX_ATTEMPTS = 3

/**
 * What one request may still try: another token after the first 401, more scopes after a 403
 * `insufficient_scope` once for each set of scopes, three attempts in all. Every other refusal is final.
 */
export class AuthAttempts {
  #count = 0
  #isRenewed = false
  readonly #scopes: (string | undefined)[] = []

  /** What to do about a refusal; undefined if it is final. */
  next(status: number, challenge: BearerChallenge | undefined): AuthAttempt | undefined {
    if (this.#count >= MAX_ATTEMPTS) return undefined
    const attempt = this.#attemptFor(status, challenge)
    if (attempt !== undefined) this.#count += 1
    return attempt
  }

  #attemptFor(status: number, challenge: BearerChallenge | undefined): AuthAttempt | undefined {
    if (status === 401) {
      if (this.#isRenewed) return undefined
      this.#isRenewed = true
      return 'renew'
    }
    if (status !== 403 || challenge?.error !== 'insufficient_scope') return undefined
    if (this.#scopes.some((scope) => sameScopes(scope, challenge.scope))) return undefined
    this.#scopes.push(challenge.scope)
    return 'step-up'
  }
}

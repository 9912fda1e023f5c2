/**
 * Whose session it is, beside the server's. Every store key, pool key and cache key holds what of it is
 * set; a session is never used in another scope.
 */
export interface SessionScope {
  /** Whoever the credentials speak for: a stable name, never a token, so that a rotated token keeps its session. */
  readonly principal?: string | undefined
  /** A LangGraph thread. */
  readonly thread?: string | undefined
  /** One root agent invocation. */
  readonly run?: string | undefined
}

const NO_SCOPE: SessionScope = {}
/** What every call has that has no scope. */
const NO_SCOPE_KEY = '[null,null,null]'

/** Equal for equal scopes only, whatever characters are in them. Not made to be taken apart again. */
export function scopeKey({ principal, thread, run }: SessionScope = NO_SCOPE): string {
  if (principal === undefined && thread === undefined && run === undefined) return NO_SCOPE_KEY
  return JSON.stringify([principal ?? null, thread ?? null, run ?? null])
}

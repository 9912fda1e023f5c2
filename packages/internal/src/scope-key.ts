/** The owner of a session, as `SessionScope` of the client describes it. */
interface Scope {
  readonly principal?: string | undefined
  readonly thread?: string | undefined
  readonly run?: string | undefined
}

/** Key of a scope without an owner, which most calls have. */
const NO_OWNER = JSON.stringify([null, null, null])

/** Returns equal keys for equal scopes only. A field that is undefined counts as absent. The format may change. */
export function scopeKey({ principal, thread, run }: Scope = {}): string {
  if (principal === undefined && thread === undefined && run === undefined) return NO_OWNER
  return JSON.stringify([principal ?? null, thread ?? null, run ?? null])
}

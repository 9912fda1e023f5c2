import type { SessionReplaced } from '../catalogue/tool-source.ts'

interface Replacement extends SessionReplaced {
  /** How many there were in this scope. */
  readonly count: number
}

/**
 * Tells each caller once that the server's state it had built on is gone. Callers that share a session are
 * told one by one; one that comes later had nothing to lose.
 */
export class SessionContinuity {
  readonly #max: number
  readonly #last = new Map<string, Replacement>()
  /** How many replacements a caller knows of. */
  readonly #known = new Map<string, number>()

  /** Of at most `max` scopes and callers anything is kept. */
  constructor(max: number) {
    this.#max = max
  }

  replaced(scope: string, { epoch, reason }: SessionReplaced): void {
    const count = this.#countOf(scope) + 1
    put(this.#last, { key: scope, value: { epoch, reason, count }, max: this.#max })
  }

  /**
   * At the start of a call. What it returns is asked at the end: the news of the caller, if there is any.
   * `scope` is one line.
   */
  startOf(scope: string, caller: string): () => SessionReplaced | undefined {
    const key = `${scope}\n${caller}`
    const before = this.#known.get(key) ?? this.#countOf(scope)
    return () => {
      const last = this.#last.get(scope)
      const known = Math.max(this.#known.get(key) ?? before, before)
      put(this.#known, { key, value: last?.count ?? known, max: this.#max })
      if (last === undefined || last.count <= before) return undefined
      return { epoch: last.epoch, reason: last.reason }
    }
  }

  #countOf(scope: string): number {
    return this.#last.get(scope)?.count ?? 0
  }
}

/** The one that was put longest ago makes room. */
function put<Value>(
  map: Map<string, Value>,
  { key, value, max }: { readonly key: string; readonly value: Value; readonly max: number },
): void {
  map.delete(key)
  map.set(key, value)
  for (const oldest of map.keys()) {
    if (map.size <= max) return
    map.delete(oldest)
  }
}

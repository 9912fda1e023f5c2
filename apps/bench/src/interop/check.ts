/** Something that has to work between a package of ours and one of others. */
export interface Check {
  /** Who with whom. */
  readonly group: string
  readonly name: string
  /** How long it may be silent; beyond that it hangs. @default 10_000 */
  readonly ms?: number
  /** Rejects unless it works. */
  readonly run: () => Promise<void>
}

export interface CheckOutcome {
  readonly group: string
  readonly name: string
  readonly ok: boolean
  readonly ms: number
  /** Why not, in one line. */
  readonly reason?: string
}

/** Longer than most checks take. */
const CHECK_MS = 10_000

export async function outcomeOf({ group, name, ms = CHECK_MS, run }: Check): Promise<CheckOutcome> {
  const startedAt = performance.now()
  const since = (): number => Math.round(performance.now() - startedAt)
  try {
    await within(ms, run())
    return { group, name, ok: true, ms: since() }
  } catch (error) {
    const text = error instanceof Error ? error.message : String(error)
    return { group, name, ok: false, ms: since(), reason: text.split('\n')[0] ?? '' }
  }
}

/** @throws Error if it takes longer. */
export async function within<T>(ms: number, work: Promise<T>): Promise<T> {
  const late = Promise.withResolvers<never>()
  const timer = setTimeout(() => late.reject(new Error(`nothing for ${ms} ms`)), ms)
  try {
    return await Promise.race([work, late.promise])
  } finally {
    clearTimeout(timer)
  }
}

/** @throws Error that says what was seen. */
export function expectThat(isSo: boolean, otherwise: string): asserts isSo {
  if (!isSo) throw new Error(otherwise)
}

/** One thing that has to work between a package of ours and one of others. */
export interface Check {
  readonly group: string
  readonly name: string
  /** Time limit, which ends what hangs. @default 60_000 */
  readonly ms?: number
  /** Rejects unless it works. */
  readonly run: () => Promise<void>
}

export interface CheckOutcome {
  readonly group: string
  readonly name: string
  readonly ok: boolean
  readonly ms: number
  /** First line of the error. */
  readonly reason: string | undefined
}

export async function outcomeOf(check: Check): Promise<CheckOutcome> {
  const { group, name, ms: limitMs = 60_000, run } = check
  const startedAt = performance.now()
  const late = Promise.withResolvers<never>()
  const timer = setTimeout(() => late.reject(new Error(`no result in ${limitMs} ms`)), limitMs)
  const outcome = (): { group: string; name: string; ms: number } => ({
    group,
    name,
    ms: Math.round(performance.now() - startedAt),
  })
  try {
    await Promise.race([run(), late.promise])
    return { ...outcome(), ok: true, reason: undefined }
  } catch (error) {
    const text = error instanceof Error ? error.message : String(error)
    return { ...outcome(), ok: false, reason: text.split('\n')[0] ?? '' }
  } finally {
    clearTimeout(timer)
  }
}

/** @throws Error with `message`. */
export function expectThat(condition: boolean, message: string): asserts condition {
  if (!condition) throw new Error(message)
}

/** @throws Error unless `text` contains `part`. */
export function expectContains(text: string, part: string): void {
  const shown = text.length > 300 ? `${text.slice(0, 300)} …` : text
  expectThat(text.includes(part), `expected "${part}", got ${shown}`)
}

/** A number that was measured, and how it stands to another one of the same run. */
export interface Figure {
  readonly name: string
  readonly unit: string
  /** Median of the repeats. */
  readonly value: number
  readonly min: number
  readonly max: number
  /** Wall time in the same unit, where `value` is CPU time: median. */
  readonly wall?: number | undefined
  /** Name of the figure that `ratio` compares this one with. */
  readonly ratioTo?: string | undefined
  /** Median of the ratios of each round, so that a slow stretch of the machine hits both sides. */
  readonly ratio?: number | undefined
  /** What is aimed at; a bar that is missed is told, and is no failure. */
  readonly bar?: string | undefined
  readonly isMet?: boolean | undefined
}

/** A limit for a ratio, or for a value that stands alone. */
export type Bar = { readonly atMost: number } | { readonly atLeast: number }

export function barText(bar: Bar): string {
  return 'atMost' in bar ? `≤ ${bar.atMost}` : `≥ ${bar.atLeast}`
}

export function isMet(bar: Bar, value: number): boolean {
  return 'atMost' in bar ? value <= bar.atMost : value >= bar.atLeast
}

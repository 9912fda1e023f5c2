import { barText, isMet } from '../bench/figure.ts'
import type { Bar, Figure } from '../bench/figure.ts'
import { median, ratios } from '../bench/statistics.ts'

export interface Measured {
  readonly name: string
  readonly unit: string
  /** One of each round. */
  readonly values: readonly number[]
}

/** A figure that stands alone, with a bar for its value if there is one. */
export function plainFigure({ name, unit, values }: Measured, bar?: Bar): Figure {
  const value = median(values)
  const figure = { name, unit, value, min: Math.min(...values), max: Math.max(...values) }
  return bar === undefined ? figure : { ...figure, bar: barText(bar), isMet: isMet(bar, value) }
}

/** One that is compared with another, round by round, with a bar for the ratio if there is one. */
export function comparedFigure(measured: Measured, other: Measured, bar?: Bar): Figure {
  const ratio = median(ratios(measured.values, other.values))
  const figure = { ...plainFigure(measured), ratioTo: other.name, ratio }
  return bar === undefined ? figure : { ...figure, bar: barText(bar), isMet: isMet(bar, ratio) }
}

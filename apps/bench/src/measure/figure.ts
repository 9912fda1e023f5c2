/** A measured number, and its ratio to another one of the same run. */
export interface Figure {
  readonly name: string
  readonly unit: string
  /** Median of the rounds. */
  readonly value: number
  readonly min: number
  readonly max: number
  /** Name of the figure that `ratio` compares this one with. */
  readonly ratioTo: string | undefined
  /** Median of the ratios of each round, so that a slow moment of the machine changes both sides. */
  readonly ratio: number | undefined
  /** Limit of the ratio, or of the value of a figure without one. A missed bar is shown, and is not a failure. */
  readonly bar: string | undefined
  readonly isMet: boolean | undefined
}

export type Bar = { readonly atMost: number } | { readonly atLeast: number }

/** Values of one figure, one for each round. */
export interface Measured {
  readonly name: string
  readonly unit: string
  readonly values: readonly number[]
}

export interface BenchOptions {
  /** Interleaved rounds of each measurement. */
  readonly rounds: number
  /** Folder for CPU profiles of our own code. */
  readonly profileTo: string | undefined
  /** Called with what is being measured. */
  readonly progress: (text: string) => void
}

export interface BenchResult {
  readonly figures: readonly Figure[]
  /** Reasons why figures are left out or mean nothing. */
  readonly invalid: readonly string[]
}

export type Bench = (options: BenchOptions) => Promise<BenchResult>

/** A figure, with a bar for its value if there is one. */
export function plainFigure({ name, unit, values }: Measured, bar?: Bar): Figure {
  const value = median(values)
  const figure = { name, unit, value, min: Math.min(...values), max: Math.max(...values) }
  return { ...figure, ratioTo: undefined, ratio: undefined, ...judged(bar, value) }
}

/** A figure that is compared with another one, with a bar for the ratio if there is one. */
export function comparedFigure(measured: Measured, other: Measured, bar?: Bar): Figure {
  const ratio = median(measured.values.map((value, at) => value / (other.values[at] ?? Number.NaN)))
  const compared = { ...plainFigure(measured), ratioTo: other.name, ratio }
  return { ...compared, ...judged(bar, ratio) }
}

function judged(bar: Bar | undefined, value: number): Pick<Figure, 'bar' | 'isMet'> {
  if (bar === undefined) return { bar: undefined, isMet: undefined }
  if ('atMost' in bar) return { bar: `≤ ${bar.atMost}`, isMet: value <= bar.atMost }
  return { bar: `≥ ${bar.atLeast}`, isMet: value >= bar.atLeast }
}

/** @throws RangeError for no values. */
export function median(values: readonly number[]): number {
  const sorted = values.toSorted((a, b) => a - b)
  const upper = sorted[Math.floor(sorted.length / 2)]
  const lower = sorted[Math.ceil(sorted.length / 2) - 1]
  if (upper === undefined || lower === undefined) throw new RangeError('A median needs a value')
  return (lower + upper) / 2
}

const HEAD = ['figure', 'value', 'min', 'max', 'unit', 'compared with', 'ratio', 'bar', '']

/** The figures as a table, one on each line. */
export function table(figures: readonly Figure[]): string {
  const rows = [HEAD, ...figures.map(cellsOf)]
  const widths = HEAD.map((_, column) => Math.max(...rows.map((row) => row[column]?.length ?? 0)))
  return rows
    .map((row) => row.map((cell, column) => cell.padEnd(widths[column] ?? 0)).join('  '))
    .map((line) => line.trimEnd())
    .join('\n')
}

function cellsOf(figure: Figure): readonly string[] {
  const { name, value, min, max, unit, ratioTo = '', ratio, bar = '', isMet } = figure
  return [
    name,
    rounded(value),
    rounded(min),
    rounded(max),
    unit,
    ratioTo,
    ratio?.toFixed(2) ?? '',
    bar,
    isMet === undefined ? '' : isMet ? 'met' : 'NOT MET',
  ]
}

function rounded(value: number): string {
  return Math.abs(value) >= 100 ? value.toFixed(0) : String(Number(value.toPrecision(3)))
}

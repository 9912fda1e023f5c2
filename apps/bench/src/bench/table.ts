import type { Figure } from './figure.ts'

const HEAD = ['figure', 'value', 'min', 'max', 'unit', 'wall', 'compared with', 'ratio', 'bar', '']

/** The figures for people, one a line. */
export function table(figures: readonly Figure[]): string {
  const rows = [HEAD, ...figures.map(rowFrom)]
  const widths = HEAD.map((_, column) => Math.max(...rows.map((row) => row[column]?.length ?? 0)))
  return rows
    .map((row) =>
      row
        .map((cell, column) => cell.padEnd(widths[column] ?? 0))
        .join('  ')
        .trimEnd(),
    )
    .join('\n')
}

function rowFrom(figure: Figure): readonly string[] {
  const { name, value, min, max, unit, wall, ratioTo = '', ratio, bar = '', isMet } = figure
  return [
    name,
    rounded(value),
    rounded(min),
    rounded(max),
    unit,
    wall === undefined ? '' : rounded(wall),
    ratioTo,
    ratio === undefined ? '' : ratio.toFixed(2),
    bar,
    isMet === undefined ? '' : isMet ? 'met' : 'NOT MET',
  ]
}

function rounded(value: number): string {
  return Math.abs(value) >= 100 ? value.toFixed(0) : String(Number(value.toPrecision(3)))
}

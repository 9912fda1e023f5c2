/** @throws RangeError for no values. */
export function median(values: readonly number[]): number {
  const sorted = values.toSorted((a, b) => a - b)
  const upper = sorted[Math.floor(sorted.length / 2)]
  const lower = sorted[Math.ceil(sorted.length / 2) - 1]
  if (upper === undefined || lower === undefined) throw new RangeError('A median needs a value')
  return (lower + upper) / 2
}

/** How far the values are apart, as a part of the smallest: 0.25 is a quarter. */
export function movement(values: readonly number[]): number {
  const smallest = Math.min(...values)
  return (Math.max(...values) - smallest) / smallest
}

/** Value by value: `values[i] / others[i]`. */
export function ratios(values: readonly number[], others: readonly number[]): readonly number[] {
  return values.map((value, index) => value / (others[index] ?? Number.NaN))
}

/**
 * The smallest value that so much of all is not above: `percentile(values, 0.99)` is p99.
 *
 * @throws RangeError for no values, or a `part` outside of 0 … 1.
 */
export function percentile(values: Float64Array, part: number): number {
  const sorted = values.toSorted()
  const value =
    part < 0 || part > 1 ? undefined : sorted[Math.max(0, Math.ceil(part * sorted.length) - 1)]
  if (value === undefined) throw new RangeError('A percentile needs values, and a part from 0 to 1')
  return value
}

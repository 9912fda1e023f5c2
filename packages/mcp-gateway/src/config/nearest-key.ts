/** The key that was probably meant; `undefined` if none is near. */
export function nearestKey(key: string, known: readonly string[]): string | undefined {
  const wanted = key.toLowerCase().replaceAll(/[-_]/g, '')
  const near = known
    .map((each) => ({ each, distance: editDistance(wanted, each.toLowerCase()) }))
    .filter(({ each, distance }) => distance <= Math.max(1, Math.floor(each.length / 3)))
  return near.toSorted((a, b) => a.distance - b.distance)[0]?.each
}

/** How many letters have to be put in, left out, replaced or swapped with their neighbour. */
export function editDistance(a: string, b: string): number {
  let [before, last]: [number[], number[]] = [[], [...Array(b.length + 1).keys()]]
  for (let i = 1; i <= a.length; i++) {
    const row = [i]
    for (let j = 1; j <= b.length; j++) {
      const cost = a[i - 1] === b[j - 1] ? 0 : 1
      const isSwapped = i > 1 && j > 1 && a[i - 1] === b[j - 2] && a[i - 2] === b[j - 1]
      row.push(
        Math.min(
          at(last, j) + 1,
          at(row, j - 1) + 1,
          at(last, j - 1) + cost,
          isSwapped ? at(before, j - 2) + 1 : Infinity,
        ),
      )
    }
    ;[before, last] = [last, row]
  }
  return last[b.length] ?? 0
}

function at(row: readonly number[], index: number): number {
  return row[index] ?? Infinity
}

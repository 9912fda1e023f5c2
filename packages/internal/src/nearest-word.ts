/** Returns the known word that was probably meant, or `undefined` if none is near. */
export function nearestWord(word: string, known: readonly string[]): string | undefined {
  const wanted = normalized(word)
  const near = known
    .map((each) => ({ each, distance: editDistance(wanted, normalized(each)) }))
    .filter(
      ({ each, distance }) =>
        distance <= Math.max(1, Math.floor(each.length / 3)) || isStart(wanted, each),
    )
  return near.toSorted((a, b) => a.distance - b.distance)[0]?.each
}

/** Returns the three known words that are most like a word, also if none is near. */
export function nearestWords(word: string, known: readonly string[]): readonly string[] {
  const wanted = normalized(word)
  return known
    .map((each) => ({ each, distance: editDistance(wanted, normalized(each)) / each.length }))
    .toSorted((a, b) => a.distance - b.distance)
    .slice(0, 3)
    .map(({ each }) => each)
}

/** `folder` stands for `folderPath`. */
function isStart(wanted: string, each: string): boolean {
  return wanted.length >= 4 && normalized(each).startsWith(wanted)
}

/** Longer words are cut: the time that a comparison takes grows with the product of the lengths. */
const MAX_COMPARED = 64

function normalized(word: string): string {
  return word.slice(0, MAX_COMPARED).toLowerCase().replaceAll(/[-_]/g, '')
}

/** Returns how many letters have to be inserted, removed, replaced or swapped with their neighbour. */
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

import { compareText } from './name-plan.ts'

const MAX_COMPARED = 64

/** Those of `names` that are most like `name`, the nearest first: what a caller may have meant. */
export function nearestNames(name: string, names: readonly string[], count = 3): readonly string[] {
  const wanted = name.slice(0, MAX_COMPARED)
  return names
    .map((each) => ({ each, distance: distanceOf(wanted, each.slice(0, MAX_COMPARED)) }))
    .toSorted((a, b) => a.distance - b.distance || compareText(a.each, b.each))
    .slice(0, count)
    .map(({ each }) => each)
}

/** How many characters are to be inserted, removed or replaced (Levenshtein). */
function distanceOf(a: string, b: string): number {
  let row = Array.from({ length: b.length + 1 }, (_, index) => index)
  for (let i = 0; i < a.length; i++) {
    const next = [i + 1]
    for (let j = 0; j < b.length; j++) {
      const replaced = (row[j] ?? 0) + (a[i] === b[j] ? 0 : 1)
      next.push(Math.min(replaced, (row[j + 1] ?? 0) + 1, (next[j] ?? 0) + 1))
    }
    row = next
  }
  return row[b.length] ?? 0
}

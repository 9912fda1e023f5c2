import { editDistance } from '@x/internal'

import { compareText } from '../agents/agent.ts'

const MAX_COMPARED = 64

/** Returns the `count` names that are most like `name`, the nearest first: what a caller may have meant. */
export function nearestNames(name: string, names: readonly string[], count = 3): readonly string[] {
  const wanted = name.slice(0, MAX_COMPARED)
  return names
    .map((each) => ({ each, distance: editDistance(wanted, each.slice(0, MAX_COMPARED)) }))
    .toSorted((a, b) => a.distance - b.distance || compareText(a.each, b.each))
    .slice(0, count)
    .map(({ each }) => each)
}

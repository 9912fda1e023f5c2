import { isDeepStrictEqual } from 'node:util'

export type Figure = string | number | boolean

/** One step of the story: what was measured, and whether it is what it must be. */
export interface StepResult {
  readonly name: string
  readonly ok: boolean
  readonly figures: Readonly<Record<string, Figure>>
  /** What differs, in words. */
  readonly wrong: readonly string[]
}

/** Compares measured figures with what they must be. A figure that is only told has no expectation. */
export function checkStep(
  name: string,
  figures: Readonly<Record<string, Figure>>,
  expected: Readonly<Record<string, Figure>>,
): StepResult {
  const wrong = Object.entries(expected)
    .filter(([key, value]) => !isDeepStrictEqual(figures[key], value))
    .map(([key, value]) => `${key} is ${String(figures[key])} and must be ${String(value)}`)
  return { name, ok: wrong.length === 0, figures, wrong }
}

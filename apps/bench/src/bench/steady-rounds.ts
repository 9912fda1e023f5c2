import { median } from './statistics.ts'

/**
 * Takes rounds until enough of them are steady: those in which `control` is no further from its median,
 * as a part of that, than `within`. A machine that others use as well has bad moments, and they end; one
 * that stays busy gives fewer rounds than were wanted, after twice as many attempts.
 */
export async function steadyRounds<T>(
  take: (attempt: number) => Promise<T>,
  { wanted, within, control }: SteadyOptions<T>,
): Promise<readonly T[]> {
  const taken: T[] = []
  let steady: readonly T[] = []
  while (steady.length < wanted && taken.length < 2 * wanted) {
    taken.push(await take(taken.length + 1))
    // Of all rounds, also those that were left out before: the first ones may have been the odd ones.
    steady = steadyOf(taken, { within, control })
  }
  return steady
}

/** Those rounds in which `control` is no further from its median, as a part of that, than `within`. */
export function steadyOf<T>(
  rounds: readonly T[],
  { within, control }: Omit<SteadyOptions<T>, 'wanted'>,
): readonly T[] {
  const middle = median(rounds.map(control))
  return rounds.filter((round) => Math.abs(control(round) - middle) <= within * middle)
}

interface SteadyOptions<T> {
  /** How many steady rounds. */
  readonly wanted: number
  readonly within: number
  /** What the control cost in a round. */
  readonly control: (round: T) => number
}

import { median } from './figure.ts'
import type { BenchOptions, BenchResult, Figure } from './figure.ts'

/** Largest distance of the control of a round from its median, as a part of the median. */
const MAX_DRIFT = 0.25
/** With fewer rounds, a median says nothing. */
export const MIN_ROUNDS = 5

/** Costs of all contenders in one round. */
export type Round<Name extends string, Cost> = Readonly<Record<Name, Cost>>

/** A comparison of contenders that take turns: A B C A B C … */
export interface Comparison<Name extends string, Cost> {
  /** Text that says what the figure measures. */
  readonly label: string
  readonly names: readonly Name[]
  /** Turns of each contender in one round. With short turns, a slow moment affects all contenders. @default 1 */
  readonly turns?: number
  /** Adds the costs of several turns. Needed if there are several. */
  readonly sum?: (costs: readonly Cost[]) => Cost
  readonly measure: (name: Name) => Promise<Cost>
  /** The cost that shows how steady the machine was in a round. */
  readonly control: (round: Round<Name, Cost>) => number
  readonly figures: (rounds: readonly Round<Name, Cost>[]) => readonly Figure[]
}

/** Measures the contenders in turns. Without {@link MIN_ROUNDS} steady rounds, the figures are left out. */
export async function compareInTurns<Name extends string, Cost>(
  comparison: Comparison<Name, Cost>,
  { rounds, progress }: Pick<BenchOptions, 'rounds' | 'progress'>,
): Promise<BenchResult> {
  const { label, names, turns = 1, sum, measure, control, figures } = comparison
  const steady = await steadyRounds(
    async (attempt) => {
      progress(`${label}: round ${attempt}`)
      const costs = new Map<Name, Cost[]>(names.map((name) => [name, []]))
      for (let turn = 0; turn < turns; turn += 1) {
        for (const name of names) costs.get(name)?.push(await measure(name))
      }
      const entries = Array.from(costs, ([name, all]) => [name, sum?.(all) ?? all.at(-1)])
      return Object.fromEntries(entries) as Round<Name, Cost>
    },
    { wanted: rounds, control },
  )
  if (steady.length >= MIN_ROUNDS) return { figures: figures(steady), invalid: [] }
  return { figures: [], invalid: [`only ${steady.length} rounds of ${label} had a steady control`] }
}

/**
 * Takes rounds until enough of them are steady, or twice as many as wanted were taken. A round is steady
 * when its control is close to the median of all rounds, because other programs share the machine.
 */
export async function steadyRounds<T>(
  take: (attempt: number) => Promise<T>,
  { wanted, control }: { readonly wanted: number; readonly control: (round: T) => number },
): Promise<readonly T[]> {
  const taken: T[] = []
  let steady: readonly T[] = []
  while (steady.length < wanted && taken.length < 2 * wanted) {
    taken.push(await take(taken.length + 1))
    // Looks at all rounds again: the first ones may have been the unusual ones.
    const middle = median(taken.map(control))
    steady = taken.filter((round) => Math.abs(control(round) - middle) <= MAX_DRIFT * middle)
  }
  return steady
}

/** Results of several parts as one. */
export function joined(results: readonly BenchResult[]): BenchResult {
  return {
    figures: results.flatMap(({ figures }) => figures),
    invalid: results.flatMap(({ invalid }) => invalid),
  }
}

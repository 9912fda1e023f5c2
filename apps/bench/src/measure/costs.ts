import { comparedFigure, plainFigure } from './figure.ts'
import type { Bar, BenchOptions, BenchResult, Measured } from './figure.ts'
import { compareInTurns } from './rounds.ts'

/** Cost of a number of requests. */
export interface Cost {
  readonly times: number
  /** CPU time of the process that is measured. */
  readonly cpuUs: number
  readonly wallUs: number
}

const KINDS = {
  rate: { unit: 'requests per second', value: ({ times, wallUs }) => (times * 1e6) / wallUs },
  cpu: { unit: 'µs CPU per request', value: ({ times, cpuUs }) => cpuUs / times },
} satisfies Record<string, { unit: string; value: (cost: Cost) => number }>

/** A figure of one contender; the contender whose same figure it is compared with; and the bar of their ratio. */
export type Row<Name extends string> = readonly [
  name: Name,
  kind: keyof typeof KINDS,
  to?: Name,
  bar?: Bar,
]

export interface CostComparison<Name extends string> {
  /** First part of the names of the figures. */
  readonly label: string
  readonly contenders: Readonly<Record<Name, Contender>>
  /** The contender whose CPU time shows how steady the machine was. */
  readonly control: NoInfer<Name>
  /** Turns of each contender in one round. */
  readonly turns: number
  readonly rows: readonly Row<NoInfer<Name>>[]
}

interface Contender {
  /** Requests in one turn, and before the first round. */
  readonly times: number
  readonly warmUp: number
  readonly measure: (times: number) => Promise<Cost>
}

/** Measures the contenders in turns, after a warm-up. */
export async function compareCosts<Name extends string>(
  { label, contenders, control, turns, rows }: CostComparison<Name>,
  options: BenchOptions,
): Promise<BenchResult> {
  const names = Object.keys(contenders) as Name[]
  for (const name of names) {
    options.progress(`${label}: warm-up of ${name}`)
    await contenders[name].measure(contenders[name].warmUp)
  }
  const comparison = {
    label,
    names,
    turns,
    sum: summed,
    measure: (name: Name) => contenders[name].measure(contenders[name].times),
    control: (round: Readonly<Record<Name, Cost>>) => KINDS.cpu.value(round[control]),
    figures: (rounds: readonly Readonly<Record<Name, Cost>>[]) =>
      rows.map(([name, kind, to, bar]) => {
        const measured = (one: Name): Measured => ({
          name: `${label}/${one}/${kind}`,
          unit: KINDS[kind].unit,
          values: rounds.map((round) => KINDS[kind].value(round[one])),
        })
        if (to === undefined) return plainFigure(measured(name))
        return comparedFigure(measured(name), measured(to), bar)
      }),
  }
  return await compareInTurns(comparison, options)
}

/** Cost of several turns. */
function summed(costs: readonly Cost[]): Cost {
  const sumOf = (part: (cost: Cost) => number): number =>
    costs.reduce((sum, cost) => sum + part(cost), 0)
  return {
    times: sumOf(({ times }) => times),
    cpuUs: sumOf(({ cpuUs }) => cpuUs),
    wallUs: sumOf(({ wallUs }) => wallUs),
  }
}

import type { Bar, Figure } from '../bench/figure.ts'
import { median } from '../bench/statistics.ts'
import { comparedFigure, plainFigure } from '../client/figure-of.ts'
import type { Measured } from '../client/figure-of.ts'
import type { ContenderName } from './contender.ts'
import type { Cost } from './cost.ts'
import type { Workload } from './workloads.ts'

/** What the same number of requests cost everybody. */
export type Round = ReadonlyMap<ContenderName, Cost>

/** What is told of a server; the README says what each means. */
export type Kind = 'rate' | 'cpu' | 'p99' | 'busy'

/** Requests per second, as a part of the control's. */
const RATE_BARS: Readonly<Record<Workload['method'], number>> = { GET: 0.35, PUT: 0.25 }

/** @throws Error for one that took no part. */
export function costIn(round: Round, name: ContenderName): Cost {
  const cost = round.get(name)
  if (cost === undefined) throw new Error(`${name} took no part in a round`)
  return cost
}

/**
 * Rates, CPU time and p99 of everybody, and how the service stands to the control. The same bar for the rate
 * and for the CPU time, which other programs disturb less; none for `full`, which waits for the disk.
 */
export function figuresOf(
  { name, method }: Workload,
  rounds: readonly Round[],
  kinds: readonly Kind[],
): readonly Figure[] {
  const measured = (who: ContenderName, what: Kind): Measured => ({
    name: `${name}/${who}/${what}`,
    unit: UNITS[what],
    values: rounds.map((round) => VALUES[what](costIn(round, who))),
  })
  const others = [...(rounds[0]?.keys() ?? [])].filter((who) => who !== 'control')
  const bars: Readonly<Partial<Record<Kind, Bar>>> = {
    rate: { atLeast: RATE_BARS[method] },
    cpu: { atMost: Number((1 / RATE_BARS[method]).toFixed(2)) },
  }
  return kinds.flatMap((what) => [
    plainFigure(measured('control', what)),
    ...others.map((who) =>
      comparedFigure(
        measured(who, what),
        measured('control', what),
        who === 'sqlite-normal' ? bars[what] : undefined,
      ),
    ),
  ])
}

/** Why the rates say nothing about the servers: it was the load that was busier than the fastest of them. */
export function limitOf({ name }: Workload, rounds: readonly Round[]): readonly string[] {
  const costs = rounds.map((round) => costIn(round, 'control'))
  const server = median(costs.map(({ cpuUs, wallUs }) => cpuUs / wallUs))
  const load = median(costs.map(({ loadCpuUs, wallUs }) => loadCpuUs / wallUs))
  return load > server ? [`in ${name} the load was busier than the server`] : []
}

const UNITS: Readonly<Record<Kind, string>> = {
  rate: 'requests per second',
  cpu: 'µs CPU per request',
  p99: 'ms',
  busy: 'of a core',
}

const VALUES: Readonly<Record<Kind, (cost: Cost) => number>> = {
  rate: ({ times, wallUs }) => (times * 1_000_000) / wallUs,
  cpu: ({ times, cpuUs }) => cpuUs / times,
  p99: ({ p99Us }) => p99Us / 1000,
  busy: ({ cpuUs, wallUs }) => cpuUs / wallUs,
}

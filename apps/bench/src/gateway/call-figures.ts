import type { Bar, Figure } from '../bench/figure.ts'
import { comparedFigure, plainFigure } from '../client/figure-of.ts'
import type { Measured } from '../client/figure-of.ts'
import type { Cost } from '../debugstate/cost.ts'
import type { ContenderName } from './contender-name.ts'
import type { Era } from './protocol.ts'

/** What the same number of calls cost everybody. */
export type Round = ReadonlyMap<ContenderName, Cost>

/** How the CPU time of one stands to that of another. */
interface Comparison {
  readonly to: ContenderName
  readonly bar?: Bar | undefined
}

const COMPARED: Readonly<Record<Era, Readonly<Partial<Record<ContenderName, Comparison>>>>> = {
  modern: {
    gateway: { to: 'sdk-v2', bar: { atMost: 1.15 } },
    'gateway-open': { to: 'sdk-v2' },
    'gateway-200': { to: 'gateway', bar: { atMost: 1.1 } },
    'sdk-v2-200': { to: 'sdk-v2' },
    'sdk-v2-low': { to: 'sdk-v2' },
    mastra: { to: 'gateway', bar: { atLeast: 1 } },
  },
  legacy: {
    gateway: { to: 'sdk-v2', bar: { atMost: 1.2 } },
    'gateway-open': { to: 'sdk-v2' },
    'gateway-plain': { to: 'fastmcp' },
    'gateway-later': { to: 'sdk-v2-later', bar: { atMost: 1.2 } },
    'sdk-v2-resumable': { to: 'sdk-v2' },
    'sdk-v1': { to: 'sdk-v2' },
    fastmcp: { to: 'gateway', bar: { atLeast: 1 } },
    'fastmcp-later': { to: 'gateway-later' },
  },
}

/** CPU time of everybody first, then how many calls a second that was, and how long the slowest took. */
export function figuresOf(era: Era, rounds: readonly Round[]): readonly Figure[] {
  const names = [...(rounds[0]?.keys() ?? [])]
  const measured = (who: ContenderName, kind: Kind): Measured => ({
    name: `${era}/${who}/${kind}`,
    unit: UNITS[kind],
    values: rounds.map((round) => VALUES[kind](costIn(round, who))),
  })
  const cpu = names.map((name) => {
    const compared = COMPARED[era][name]
    if (compared === undefined) return plainFigure(measured(name, 'cpu'))
    return comparedFigure(measured(name, 'cpu'), measured(compared.to, 'cpu'), compared.bar)
  })
  const others = (['rate', 'p99'] as const).flatMap((kind) =>
    names.map((name) => plainFigure(measured(name, kind))),
  )
  return [...cpu, ...others]
}

/** @throws Error for one that took no part */
function costIn(round: Round, name: ContenderName): Cost {
  const cost = round.get(name)
  if (cost === undefined) throw new Error(`${name} took no part in a round`)
  return cost
}

type Kind = 'cpu' | 'rate' | 'p99'

const UNITS: Readonly<Record<Kind, string>> = {
  cpu: 'µs CPU per call',
  rate: 'calls per second',
  p99: 'ms',
}

const VALUES: Readonly<Record<Kind, (cost: Cost) => number>> = {
  cpu: ({ times, cpuUs }) => cpuUs / times,
  rate: ({ times, wallUs }) => (times * 1_000_000) / wallUs,
  p99: ({ p99Us }) => p99Us / 1000,
}

import { median } from './figure.ts'
import type { Measured } from './figure.ts'
import type { Round } from './rounds.ts'

/** Cost of a number of requests to a server. */
export interface ServerCost {
  readonly times: number
  /** CPU time of the server. */
  readonly cpuUs: number
  readonly wallUs: number
  readonly p99Us: number
  /** CPU time of the process that made the load. */
  readonly loadCpuUs: number
}

/** Cost of several turns: sums, and the median of their p99. */
export function summed(costs: readonly ServerCost[]): ServerCost {
  const sumOf = (part: (cost: ServerCost) => number): number =>
    costs.reduce((sum, cost) => sum + part(cost), 0)
  return {
    times: sumOf(({ times }) => times),
    cpuUs: sumOf(({ cpuUs }) => cpuUs),
    wallUs: sumOf(({ wallUs }) => wallUs),
    p99Us: median(costs.map(({ p99Us }) => p99Us)),
    loadCpuUs: sumOf(({ loadCpuUs }) => loadCpuUs),
  }
}

const KINDS = {
  rate: { unit: 'requests per second', value: ({ times, wallUs }) => (times * 1e6) / wallUs },
  cpu: { unit: 'µs CPU per request', value: ({ times, cpuUs }) => cpuUs / times },
  p99: { unit: 'ms', value: ({ p99Us }) => p99Us / 1000 },
} satisfies Record<string, { unit: string; value: (cost: ServerCost) => number }>

export type Kind = keyof typeof KINDS

/** One kind of figure of one server: `<prefix>/<server>/<kind>`. */
export function measuredOf<Name extends string>(
  prefix: string,
  rounds: readonly Round<Name, ServerCost>[],
): (name: Name, kind: Kind) => Measured {
  return (name, kind) => ({
    name: `${prefix}/${name}/${kind}`,
    unit: KINDS[kind].unit,
    values: rounds.map((round) => KINDS[kind].value(round[name])),
  })
}

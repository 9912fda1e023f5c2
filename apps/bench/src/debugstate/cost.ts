import { median } from '../bench/statistics.ts'

/** What a number of requests cost. */
export interface Cost {
  readonly times: number
  /** CPU time of the server. */
  readonly cpuUs: number
  readonly wallUs: number
  readonly p99Us: number
  /** CPU time of the process that made the load. */
  readonly loadCpuUs: number
}

/** Several turns as one: sums, and the median of their p99. */
export function summed(costs: readonly Cost[]): Cost {
  const sumOf = (part: (cost: Cost) => number): number =>
    costs.reduce((sum, cost) => sum + part(cost), 0)
  return {
    times: sumOf(({ times }) => times),
    cpuUs: sumOf(({ cpuUs }) => cpuUs),
    wallUs: sumOf(({ wallUs }) => wallUs),
    p99Us: median(costs.map(({ p99Us }) => p99Us)),
    loadCpuUs: sumOf(({ loadCpuUs }) => loadCpuUs),
  }
}

import { seededRandom } from '@x/mcp-testing'

/** Report of one seed of a scenario. */
export interface ScenarioReport {
  readonly name: string
  readonly ok: boolean
  readonly seed: number
  readonly ms: number
  /** The checks that failed. */
  readonly error?: string
  /** The command that repeats the seed. */
  readonly repeat: string
  /** The figures, as one line. */
  readonly summary: string
  readonly figures: object
}

/** Returns a whole number from 0 to less than `limit`. */
export type UpTo = (limit: number) => number

export function upToFrom(seed: number): UpTo {
  const random = seededRandom(seed)
  return (limit) => Math.floor(random() * limit)
}

import { authorization } from './authorization.ts'
import { basics } from './basics.ts'
import { headers } from './headers.ts'
import { input } from './input.ts'
import type { Behaviour } from './run.ts'
import { streams } from './streams.ts'

const BEHAVIOURS: ReadonlyMap<string, Behaviour> = new Map([
  ...Object.entries(basics),
  ...Object.entries(input),
  ...Object.entries(headers),
  ...Object.entries(streams),
])

/** How the client acts in this scenario; undefined for one that we do not know. */
export function behaviourOf(scenario: string): Behaviour | undefined {
  return BEHAVIOURS.get(scenario) ?? (scenario.startsWith('auth/') ? authorization : undefined)
}

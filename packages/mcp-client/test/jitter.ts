import { setImmediate } from 'node:timers/promises'

/** Gives way to what else is going on, for a few turns of the event loop. */
export async function jitter(random: () => number, most = 6): Promise<void> {
  for (let turns = Math.floor(random() * (most + 1)); turns > 0; turns--) await setImmediate()
}

import { setImmediate } from 'node:timers/promises'

/** Waits a few turns of the event loop, so that other code runs. */
export async function jitter(random: () => number, most = 6): Promise<void> {
  for (let turns = Math.floor(random() * (most + 1)); turns > 0; turns--) await setImmediate()
}

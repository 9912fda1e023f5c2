import { settled } from './manual-clock.ts'

/** Waits for a random number of turns of the event loop, from 0 to `most`. */
export async function turns(random: () => number, most: number): Promise<void> {
  for (let left = Math.floor(random() * (most + 1)); left > 0; left--) await settled()
}

export function oneOf<Choice>(random: () => number, choices: readonly Choice[]): Choice {
  const choice = choices[Math.floor(random() * choices.length)]
  if (choice === undefined) throw new RangeError('There is nothing to choose from')
  return choice
}

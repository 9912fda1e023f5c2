import { expect, test } from 'vitest'
import { recoveryDelayMs, systemTiming } from './retry-timing.ts'

test.each([
  [0, 0, 0],
  [1, 0, 0],
  [2, 50, 100],
  [3, 100, 200],
  [7, 1600, 3200],
  [8, 2500, 5000],
  [5000, 2500, 5000],
])('after %i losses in a row: %i to %i ms', (losses, least, most) => {
  const delay = (random: number): number =>
    recoveryDelayMs(losses, { ...systemTiming, random: () => random })
  expect([delay(0), delay(1)]).toEqual([least, most])
})

import { expect, test } from 'vitest'

import { systemClock } from './clock.ts'

test('waits for a time that is too long for a timer, and does not call back at once', async () => {
  let isOver = false
  const undo = [3_000_000_000, Number.POSITIVE_INFINITY].map((ms) => {
    return systemClock.after(ms, () => (isOver = true))
  })
  await new Promise<void>((resolve) => void systemClock.after(5, resolve))
  for (const each of undo) each()
  expect(isOver).toBe(false)
})

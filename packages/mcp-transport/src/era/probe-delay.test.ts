import { expect, test } from 'vitest'
import { probeDelayMs } from './probe-delay.ts'

test.each<[string, [number, number | undefined], number]>([
  ['nothing asked for, the first time', [0, undefined], 500],
  ['nothing asked for, the second time', [1, undefined], 1000],
  ['what the server asked for', [0, 3000], 3000],
  ['… also if that is at once', [1, 0], 0],
  ['… but not for an hour', [0, 3_600_000], 10_000],
])('%s', (_name, [retries, askedMs], ms) => {
  expect(probeDelayMs(retries, askedMs)).toBe(ms)
})

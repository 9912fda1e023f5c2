import { expect, test } from 'vitest'
import { keepAliveFor, learnKeepAlive } from './keep-alive.ts'

test.each([
  ['nothing', [], 4000],
  ['one closing, which may be a restart', [2000], 4000],
  ['two closings after different times', [2000, 900], 4000],
  ['two closings after nearly the same time', [2000, 2100], 1500],
  ['closings soon after a request', [400, 400, 400], 4000],
  ['closings after more than the default', [60_000, 60_000], 4000],
  ['a server that closes earlier than it did', [2000, 2000, 1000, 1000], 750],
])('the limit is learned from %s', (name, closedAfter, limit) => {
  const origin = `http://${name.replaceAll(' ', '-')}.test`
  for (const ms of closedAfter) learnKeepAlive(origin, ms)
  expect(keepAliveFor(origin, 4000)).toBe(limit)
  expect(keepAliveFor('http://another.test', 4000)).toBe(4000)
})

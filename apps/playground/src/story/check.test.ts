import { expect, test } from 'vitest'
import { checkStep } from './check.ts'

test('figures that are as they must be', () => {
  expect(checkStep('call', { POSTs: 1, ms: 3 }, { POSTs: 1 })).toMatchObject({
    ok: true,
    wrong: [],
  })
})

test('a wrong or missing figure is told in words', () => {
  const { ok, wrong } = checkStep('call', { POSTs: 2 }, { POSTs: 1, counter: 3 })
  expect(ok).toBe(false)
  expect(wrong).toEqual(['POSTs is 2 and must be 1', 'counter is undefined and must be 3'])
})

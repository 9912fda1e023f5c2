import { expect, test } from 'vitest'

import { nearestNames } from './nearest-names.ts'

test('finds what was meant', () => {
  const names = ['weather_get', 'weather_set', 'news_list', 'support']
  expect(nearestNames('wether_get', names)).toEqual(['weather_get', 'weather_set', 'news_list'])
  expect(nearestNames('x', [])).toEqual([])
})

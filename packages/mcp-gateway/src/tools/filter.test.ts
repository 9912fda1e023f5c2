import { expect, test } from 'vitest'
import type { ToolSettings } from '../options.ts'
import { createToolFilter } from './filter.ts'

type GivenFilter = Partial<Pick<ToolSettings, 'include' | 'exclude'>>

const filterOf = (given: GivenFilter) => createToolFilter({ include: [], exclude: [], ...given })

const names = ['Weather', 'Get Forecast', 'weather_get_forecast']

test.each([
  ['nothing configured', {}, true],
  ['1. exactly excluded', { exclude: ['Weather'], include: ['Weather'] }, false],
  ['2. exactly included', { exclude: ['weather_*'], include: ['weather_get_forecast'] }, true],
  ['3. excluded by a glob', { exclude: ['Wea*'], include: ['Wea*'] }, false],
  ['4. included by a glob', { include: ['*_get_*'] }, true],
  ['5. not included', { include: ['news'] }, false],
  ['5. not excluded', { exclude: ['news'] }, true],
  ['the name of the skill', { exclude: ['Get Forecast'] }, false],
  ['text is compared as a whole', { exclude: ['weather'] }, true],
  ['and with case', { exclude: ['WEATHER'] }, true],
  ['globs are compared as a whole', { exclude: ['eather*'] }, true],
  ['and with case, too', { exclude: ['WEA*'] }, true],
  ['a glob in the middle', { exclude: ['weather_*_forecast'] }, false],
  ['a glob at the start', { exclude: ['*_forecast'] }, false],
  ['every name', { exclude: ['*'] }, false],
  ['several stars', { exclude: ['w*get*cast'] }, false],
  ['texts in the wrong order', { exclude: ['*cast*get*'] }, true],
  ['start and end do not share characters', { exclude: ['weather_get_*get_forecast'] }, true],
  ['other signs are text', { exclude: ['Get?Forecast', 'W[e]ather'] }, true],
])('%s', (_what, options, allowed) => {
  expect(filterOf(options).allows(names)).toBe(allowed)
})

test('compares brackets and dots as text', () => {
  const filter = filterOf({ exclude: ['Weather (beta)', 'v1.x*'] })
  expect(filter.allows(['Weather (beta)'])).toBe(false)
  expect(filter.allows(['v1.x2'])).toBe(false)
  expect(filter.allows(['v1-x2'])).toBe(true)
})

test('refuses a pattern that is too long, with its path', () => {
  const wrong = expect.objectContaining({ code: 'CONFIG', path: 'tools.include[1]' })
  expect(() => filterOf({ include: ['ok', 'x'.repeat(257)] })).toThrow(wrong)
})

test.each(['^(a+)+$', '^weather_', '_forecast$', '.*get.*', '.+', String.raw`a\.b`])(
  'refuses the regular expression %s, and says what to write',
  (pattern) => {
    expect(() => filterOf({ exclude: [pattern] })).toThrow(
      /tools\.exclude\[0\] is a regular expression .* write "weather_\*"/,
    )
  },
)

test('matches a name of an agent that would hold up a regular expression', () => {
  const filter = filterOf({ exclude: [`${'*a'.repeat(127)}*b`] })
  expect(filter.allows(['a'.repeat(100_000)])).toBe(true)
  expect(filter.allows([`${'a'.repeat(100_000)}b`])).toBe(false)
})

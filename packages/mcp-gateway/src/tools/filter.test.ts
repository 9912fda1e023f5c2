import { expect, test } from 'vitest'
import type { ToolSettings } from '../options.ts'
import { createToolFilter } from './plan.ts'

type GivenFilter = Partial<Pick<ToolSettings, 'include' | 'exclude'>>

const filterOf = (given: GivenFilter) => createToolFilter({ include: [], exclude: [], ...given })

const names = ['Weather', 'Get Forecast', 'weather_get_forecast']

test.each([
  ['nothing configured', {}, true],
  ['1. exactly excluded', { exclude: ['Weather'], include: ['Weather'] }, false],
  ['2. exactly included', { exclude: ['^weather_'], include: ['weather_get_forecast'] }, true],
  ['3. excluded by expression', { exclude: ['^Wea'], include: ['^Wea'] }, false],
  ['4. included by expression', { include: ['_get_.*'] }, true],
  ['5. not included', { include: ['news'] }, false],
  ['5. not excluded', { exclude: ['news'] }, true],
  ['the name of the skill', { exclude: ['Get Forecast'] }, false],
  ['text is compared as a whole', { exclude: ['weather'] }, true],
  ['and with case', { exclude: ['WEATHER'] }, true],
  ['expressions are searched for', { exclude: ['fore.ast'] }, false],
  ['and with case, too', { exclude: ['FORE.AST'] }, true],
])('%s', (_what, options, allowed) => {
  expect(filterOf(options).allows(names)).toBe(allowed)
})

test('compares an invalid expression as text, with a warning', () => {
  const filter = filterOf({ exclude: ['weather(', '[unclosed'] })
  expect(filter.allows(['weather('])).toBe(false)
  expect(filter.allows(['weather'])).toBe(true)
  expect(filter.warnings).toHaveLength(2)
  expect(filter.warnings[0]).toContain('tools.exclude[0]')
})

test('refuses a pattern that is too long, with its path', () => {
  const wrong = expect.objectContaining({ code: 'CONFIG', path: 'tools.include[1]' })
  expect(() => filterOf({ include: ['ok', 'x'.repeat(257)] })).toThrow(wrong)
})

test('takes any regular expression of the operator', () => {
  expect(filterOf({ include: ['^(a+)+$'] }).allows(['aaa'])).toBe(true)
})

test('matches 256 characters of a name only', () => {
  const long = `${'a'.repeat(300)}!`
  expect(filterOf({ exclude: ['!$'] }).allows([long])).toBe(true)
})

test('searches for an expression with or without .* around it', () => {
  const filter = filterOf({ include: ['.*get.*cast.*'] })
  expect(filter.allows(['weather_get_forecast_now'])).toBe(true)
  expect(filter.allows(['weather_set_forecast'])).toBe(false)
  expect(filterOf({ include: ['.*'] }).allows(['anything'])).toBe(true)
  expect(filterOf({ include: [String.raw`x\.*`] }).allows(['x...'])).toBe(true)
})

import * as fc from 'fast-check'
import { expect, test } from 'vitest'

import { sanitizeName, splitCamelCase } from './sanitize-name.ts'

test.each([
  ['weather_agent_get_forecast', 'weather_agent_get_forecast'],
  ['WeatherAgent', 'weatheragent'], // 1. lower-case
  ['Weather Agent-Get\tForecast', 'weather_agent_get_forecast'], // 2. spaces and hyphens
  ['wea/ther.a(g)e:nt!', 'weatheragent'], // 3. all else goes
  ['a - - _b', 'a_b'], // 4. runs
  ['__weather__', 'weather'], // 5. ends
  ['3d printer', 'tool_3d_printer'], // 6. digits first
  ['', 'unnamed_tool'], // 7. nothing left
  ['天気', 'unnamed_tool'],
  ['---', 'unnamed_tool'],
  ['Müller', 'mller'],
])('%j becomes %j', (text, name) => {
  expect(sanitizeName(text)).toBe(name)
})

test('a name stays what it is', () => {
  fc.assert(
    fc.property(fc.string({ unit: 'grapheme' }), (text) => {
      const name = sanitizeName(text)
      expect(name).toMatch(/^[a-z][a-z0-9_]*$/)
      expect(sanitizeName(name)).toBe(name)
    }),
  )
})

test.each([
  ['WeatherAgent', 'Weather_Agent'],
  ['HTTPServer2Go', 'HTTP_Server2_Go'],
  ['already_split', 'already_split'],
])('%j is split to %j', (text, split) => {
  expect(splitCamelCase(text)).toBe(split)
})

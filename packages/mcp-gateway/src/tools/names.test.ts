import * as fc from 'fast-check'
import { describe, expect, test } from 'vitest'

import { type NameCandidate, planNames, sanitizeName, suffixedName } from './names.ts'

function candidate(agentId: string, skillName: string, over: Partial<NameCandidate> = {}) {
  const skillId = skillName || agentId
  return { agentId, agentName: agentId, skillId, skillName, override: undefined, ...over }
}

function namesOf(candidates: readonly NameCandidate[]): readonly string[] {
  return planNames(candidates).names.map(({ name }) => name)
}

describe('a name', () => {
  test('is made of agent and skill', () => {
    expect(namesOf([candidate('Weather Agent', 'Get-Forecast')])).toEqual([
      'weather_agent_get_forecast',
    ])
  })

  test('of an agent without skills is the name of the agent', () => {
    expect(namesOf([candidate('support', '')])).toEqual(['support'])
  })

  test('in another script has digits of the id', () => {
    expect(namesOf([candidate('天気', '予報')])).toEqual(['agent_bc79d8_skill_ab7dfa'])
    expect(namesOf([candidate('天気', 'forecast')])).toEqual(['agent_bc79d8_forecast'])
  })

  test('that is too long loses characters of the agent first, and stays unique', () => {
    const long = 'a_very_long_name_of_an_agent_from_far_away'
    const [one, two] = namesOf([
      candidate(long, 'find_the_answer_to_a_question'),
      candidate(long, 'find_the_answer_to_a_questiom'),
    ])
    expect(one).toMatch(/^a_very_long_[a-z_]*find_the_answer_to_a_question_[0-9a-f]{6}$/)
    expect(one).toHaveLength(48)
    expect(two).not.toBe(one)
  })

  test('keeps eight characters of the agent, and then loses characters of the skill', () => {
    const [name] = namesOf([candidate('weather_agent', 's'.repeat(60))])
    expect(name).toMatch(/^weather_s{32}_[0-9a-f]{6}$/)
  })
})

describe('names that two skills want', () => {
  const same = [
    candidate('b', 'get', { agentName: 'weather' }),
    candidate('a', 'get', { agentName: 'weather' }),
  ]

  test('go to neither of them, and are reported', () => {
    const names = namesOf(same)
    expect(names).toEqual(same.map((each) => suffixedName(each)))
    expect(names[0]).not.toBe(names[1])
    expect(planNames(same).collisions).toEqual([
      { wanted: 'weather_get', skill: 'a/get', others: ['b/get'], given: names[1] },
      { wanted: 'weather_get', skill: 'b/get', others: ['a/get'], given: names[0] },
    ])
  })

  test('go to the skill that stays', () => {
    const [b, a] = same
    expect(namesOf([b!])).toEqual(['weather_get'])
    expect(namesOf([a!])).toEqual(['weather_get'])
  })

  test('do not depend on a third skill that wants the same name', () => {
    const third = candidate('0', 'get', { agentName: 'weather' })
    expect(namesOf([third, ...same]).slice(1)).toEqual(namesOf(same))
  })

  test('go to an override', () => {
    const other = candidate('z', 'other', { override: 'weather_get' })
    const names = namesOf([...same, other])
    expect(names).toEqual([...namesOf(same), 'weather_get'])
    expect(planNames([same[0]!, other]).collisions).toMatchObject([
      { wanted: 'weather_get', skill: 'b/get', others: ['z/other'] },
    ])
  })

  test('go to none of two overrides', () => {
    const names = namesOf(same.map((each) => ({ ...each, override: 'forecast' })))
    expect(names).toEqual(namesOf(same))
  })

  test('do not go to an agent that is named after the tool of another', () => {
    const taken = suffixedName(same[0]!)
    const thief = candidate('thief', '', { agentName: taken })
    const names = namesOf([...same, thief])
    expect(new Set(names).size).toBe(3)
    expect(names).not.toContain(taken)
    expect(names[0]).toBe(suffixedName(same[0]!, 7))
  })

  test('differ even where six digits are the same', () => {
    const [one, two] = twinsBySuffix()
    const names = namesOf([candidate('0', 'x', { agentName: 'n', skillName: 'x' }), one, two])
    expect(new Set(names).size).toBe(3)
  })
})

const anyCandidates = fc
  .array(
    fc.record({
      agentId: fc.string({ minLength: 1, maxLength: 5 }),
      agentName: fc.oneof(
        fc.constantFrom('weather', 'Weather', 'weather agent', '天気', ''),
        fc.string({ unit: 'grapheme', maxLength: 80 }),
      ),
      skillId: fc.string({ minLength: 1, maxLength: 5 }),
      skillName: fc.oneof(fc.constantFrom('get', 'GET', '', 'x'.repeat(60)), fc.string()),
      override: fc.constant(undefined),
    }),
    { maxLength: 30 },
  )
  .map((all) => [
    ...new Map(all.map((each) => [JSON.stringify([each.agentId, each.skillId]), each])).values(),
  ])

test('gives any agents unique names that all providers accept', () => {
  fc.assert(
    fc.property(anyCandidates, (candidates) => {
      const names = namesOf(candidates)
      expect(new Set(names).size).toBe(candidates.length)
      for (const name of names) expect(name).toMatch(/^[a-z0-9_]{1,48}$/)
    }),
  )
})

test('gives the same names for any order of the agents', () => {
  const shuffled = anyCandidates.chain((all) =>
    fc.tuple(fc.constant(all), fc.shuffledSubarray(all, { minLength: all.length })),
  )
  fc.assert(
    fc.property(shuffled, ([candidates, other]) => {
      const inOrder = (names: readonly { name: string }[]) =>
        names.map(({ name }) => name).toSorted()
      const one = planNames(candidates)
      const two = planNames(other)
      expect(inOrder(two.names)).toEqual(inOrder(one.names))
      expect(two.collisions).toEqual(one.collisions)
    }),
  )
})

test('gives a new agent no name that another agent had', () => {
  const twoGroups = fc.tuple(anyCandidates, fc.array(fc.boolean(), { minLength: 30 }))
  fc.assert(
    fc.property(twoGroups, ([all, early]) => {
      const first = all.filter((_, index) => early[index])
      const before = new Map(namesOf(first).map((name, index) => [name, first[index]]))
      const after = namesOf(all)
      for (const [index, name] of after.entries()) {
        expect([undefined, all[index]]).toContain(before.get(name))
      }
    }),
  )
})

function twinsBySuffix(): readonly [NameCandidate, NameCandidate] {
  const seen = new Map<string, NameCandidate>()
  for (let index = 1; ; index++) {
    const one = candidate(`id${index}`, 'x', { agentName: 'n' })
    const name = suffixedName(one)
    const twin = seen.get(name)
    if (twin !== undefined) return [twin, one]
    seen.set(name, one)
  }
}

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

test('does not change a sanitized name', () => {
  fc.assert(
    fc.property(fc.string({ unit: 'grapheme' }), (text) => {
      const name = sanitizeName(text)
      expect(name).toMatch(/^[a-z][a-z0-9_]*$/)
      expect(sanitizeName(name)).toBe(name)
    }),
  )
})

import { DEFAULTS } from '../../test/settings.ts'
import * as fc from 'fast-check'
import { describe, expect, test } from 'vitest'

import { type NameCandidate, type NamePlanOptions, planNames } from './name-plan.ts'
import { nameShapeFrom } from './name-shape.ts'
import { suffixedNameOf } from './skill-name.ts'

const shape = nameShapeFrom(DEFAULTS.tools.names)

function candidate(agentId: string, skillName: string, over: Partial<NameCandidate> = {}) {
  return { agentId, agentName: agentId, skillId: skillName || agentId, skillName, ...over }
}

function namesOf(
  candidates: readonly NameCandidate[],
  options: Partial<NamePlanOptions> = {},
): readonly string[] {
  return planNames(candidates, { shape, ...options }).names.map(({ name }) => name)
}

describe('a name', () => {
  test('is made of agent and skill', () => {
    expect(namesOf([candidate('Weather Agent', 'Get-Forecast')])).toEqual([
      'weather_agent_get_forecast',
    ])
  })

  test('of an agent without skills is its own', () => {
    expect(namesOf([candidate('support', '')])).toEqual(['support'])
    const onlySkill = nameShapeFrom({ ...DEFAULTS.tools.names, pattern: '{skill}' })
    expect(namesOf([candidate('support', '')], { shape: onlySkill })).toEqual(['support'])
  })

  test('in another script has digits of the id instead', () => {
    expect(namesOf([candidate('天気', '予報')])).toEqual(['agent_bc79d8_skill_ab7dfa'])
    expect(namesOf([candidate('天気', 'forecast')])).toEqual(['agent_bc79d8_forecast'])
  })

  test('is split where it is configured', () => {
    const split = nameShapeFrom({ ...DEFAULTS.tools.names, splitCamelCase: true })
    expect(namesOf([candidate('WeatherAgent', 'getForecast')], { shape: split })).toEqual([
      'weather_agent_get_forecast',
    ])
  })

  test('that is too long loses of the agent first, and still differs from its neighbour', () => {
    const long = 'a_very_long_name_of_an_agent_from_far_away'
    const [one, two] = namesOf([
      candidate(long, 'find_the_answer_to_a_question'),
      candidate(long, 'find_the_answer_to_a_questiom'),
    ])
    expect(one).toMatch(/^a_very_long_[a-z_]*find_the_answer_to_a_question_[0-9a-f]{6}$/)
    expect(one).toHaveLength(48)
    expect(two).not.toBe(one)
  })

  test('keeps eight characters of the agent, and then loses of the skill', () => {
    const [name] = namesOf([candidate('weather_agent', 's'.repeat(60))])
    expect(name).toMatch(/^weather_s{32}_[0-9a-f]{6}$/)
  })
})

describe('names that are wanted twice', () => {
  const same = [
    candidate('b', 'get', { agentName: 'weather' }),
    candidate('a', 'get', { agentName: 'weather' }),
  ]

  test('go to the smaller id, and the collision is told', () => {
    const plan = planNames(same, { shape })
    expect(plan.names.map(({ name }) => name)).toEqual([
      expect.stringMatching(/^weather_get_[0-9a-f]{6}$/),
      'weather_get',
    ])
    expect(plan.collisions).toEqual([
      { wanted: 'weather_get', owner: 'a/get', other: 'b/get', given: plan.names[0]?.name },
    ])
  })

  test('stay with whoever was announced', () => {
    const [b, a] = same
    const before = planNames([b!], { shape }).names
    expect(namesOf(same, { sticky: before })[0]).toBe('weather_get')
    // Also while it is away.
    expect(namesOf([a!], { sticky: before })).toEqual([
      expect.stringMatching(/^weather_get_[0-9a-f]{6}$/),
    ])
  })

  test('do not change when one of them leaves', () => {
    const both = planNames(same, { shape }).names
    expect(namesOf([same[0]!], { sticky: both })).toEqual([both[0]?.name])
    expect(namesOf([same[1]!], { sticky: both })).toEqual([both[1]?.name])
  })

  test('are free for an agent that renamed itself', () => {
    const before = planNames([same[0]!], { shape }).names
    const renamed = { ...same[0]!, agentName: 'climate' }
    expect(namesOf([renamed], { sticky: before })).toEqual(['climate_get'])
  })

  test('go to an override, even if they were announced', () => {
    const before = planNames([same[1]!], { shape }).names
    const other = candidate('z', 'other', { override: 'weather_get' })
    const names = namesOf([same[1]!, other], { sticky: before })
    expect(names).toEqual([expect.stringMatching(/^weather_get_[0-9a-f]{6}$/), 'weather_get'])
  })

  test('are never those of the gateway', () => {
    const names = namesOf([candidate('agents', 'list')], { reserved: ['agents_list'] })
    expect(names).toEqual([expect.stringMatching(/^agents_list_[0-9a-f]{6}$/)])
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
    }),
    { maxLength: 30 },
  )
  .map((all) => [
    ...new Map(all.map((each) => [JSON.stringify([each.agentId, each.skillId]), each])).values(),
  ])

test('any agents get names that all providers take, each its own', () => {
  fc.assert(
    fc.property(anyCandidates, (candidates) => {
      const names = namesOf(candidates)
      expect(new Set(names).size).toBe(candidates.length)
      for (const name of names) expect(name).toMatch(/^[a-z0-9_]{1,48}$/)
    }),
  )
})

test('in whatever order they come', () => {
  const shuffled = anyCandidates.chain((all) =>
    fc.tuple(fc.constant(all), fc.shuffledSubarray(all, { minLength: all.length })),
  )
  fc.assert(
    fc.property(shuffled, ([candidates, other]) => {
      const inOrder = (names: readonly { name: string }[]) =>
        names.map(({ name }) => name).toSorted()
      const one = planNames(candidates, { shape })
      const two = planNames(other, { shape })
      expect(inOrder(two.names)).toEqual(inOrder(one.names))
      expect(two.collisions).toEqual(one.collisions)
    }),
  )
})

test('and whoever joins or leaves later renames nobody', () => {
  const twoGroups = fc.tuple(anyCandidates, fc.array(fc.boolean(), { minLength: 30 }))
  fc.assert(
    fc.property(twoGroups, ([all, early]) => {
      const first = all.filter((_, index) => early[index])
      const before = planNames(first, { shape }).names
      const after = planNames(all, { shape, sticky: before }).names
      for (const name of before) expect(after).toContainEqual(name)
    }),
  )
})

function twinsBySuffix(): readonly [NameCandidate, NameCandidate] {
  const seen = new Map<string, NameCandidate>()
  for (let index = 1; ; index++) {
    const one = candidate(`id${index}`, 'x', { agentName: 'n' })
    const name = suffixedNameOf(one, shape)
    const twin = seen.get(name)
    if (twin !== undefined) return [twin, one]
    seen.set(name, one)
  }
}

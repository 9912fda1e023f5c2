import { describe, expect, test } from 'vitest'

import { planOptions } from '../../test/settings.ts'
import type { Skill } from '../agents/agent.ts'
import { ToolPlanner } from './plan.ts'
import {
  completeArgument,
  promptContentOf,
  promptDefinitionOf,
  type PlannedPrompt,
} from './prompts.ts'

function promptOf(example: string, over: Partial<Skill> = {}): PlannedPrompt {
  const skill = { id: 'do', name: 'do', description: '', examples: [example], ...over }
  const agent = { id: 'a', name: 'a', description: '', health: 'healthy', skills: [skill] } as const
  const [prompt] = new ToolPlanner(planOptions()).plan([agent]).prompts
  if (prompt === undefined) throw new Error('the plan has no prompt')
  return prompt
}

const textOf = (prompt: PlannedPrompt, args?: unknown): string => {
  const answer = promptContentOf(prompt, args)
  if (typeof answer === 'string') return `refused: ${answer}`
  const content = answer.messages[0]?.content
  return content?.type === 'text' ? content.text : ''
}

describe('a name in braces', () => {
  test('is a required argument, declared once and in the order of the text', () => {
    const { arguments: args } = promptDefinitionOf(promptOf('From {start} to {end}, not {start}'))
    expect(args).toEqual([
      { name: 'start', required: true },
      { name: 'end', required: true },
    ])
  })

  test('is replaced wherever it occurs, by exactly the given text', () => {
    const prompt = promptOf('{a} and {b} and {a}')
    expect(textOf(prompt, { a: '$& {b} $1', b: '{a}' })).toBe('$& {b} $1 and {a} and $& {b} $1')
  })

  test('has the description of the field with its name, and its choices as completions', () => {
    const city = { type: 'string', description: 'A city', enum: ['Paris', 'Prague', 'Rome'] }
    const inputSchema = { type: 'object', properties: { city } }
    const prompt = promptOf('Weather in {city}?', { inputSchema })
    expect(promptDefinitionOf(prompt).arguments).toEqual([
      { name: 'city', description: 'A city', required: true },
    ])
    expect(completeArgument(prompt, { name: 'city', value: 'p' })).toEqual({
      values: ['Paris', 'Prague'],
      total: 2,
      hasMore: false,
    })
    expect(completeArgument(prompt, { name: 'country', value: '' }).values).toEqual([])
    expect(textOf(prompt, { city: 'Oslo' })).toBe('Weather in Oslo?')
  })

  test('has at most 100 completions at a time', () => {
    const city = { enum: Array.from({ length: 150 }, (_, index) => `city ${index}`) }
    const prompt = promptOf('{city}', { inputSchema: { type: 'object', properties: { city } } })
    const { values, total, hasMore } = completeArgument(prompt, { name: 'city', value: '' })
    expect([values.length, total, hasMore]).toEqual([100, 150, true])
  })

  test('may be a name that every object has', () => {
    const prompt = promptOf('{constructor} {__proto__}')
    expect(textOf(prompt, {})).toContain('needs the argument "constructor"')
    const args: unknown = JSON.parse('{"constructor":"a","__proto__":"b"}')
    expect(textOf(prompt, args)).toBe('a b')
  })
})

test.each([
  'Send {"city": "Paris"}',
  'Fill {{city}} in',
  'Use {} and {1} and { city }',
  '{city',
  'const {a, b} = c',
])('leaves other braces as they are: %s', (example) => {
  const prompt = promptOf(example)
  expect(promptDefinitionOf(prompt)).not.toHaveProperty('arguments')
  expect(textOf(prompt)).toBe(example)
})

test.each([
  [undefined, 'needs the argument "city"'],
  [{}, 'needs the argument "city"'],
  [{ city: 1 }, 'needs the argument "city"'],
  [{ city: 'Rome', town: 'x' }, 'has no argument "town": it has city'],
  ['Rome', '"arguments" must be an object'],
])('refuses the arguments %j', (args, why) => {
  expect(textOf(promptOf('Weather in {city}?'), args)).toContain(`refused: `)
  expect(textOf(promptOf('Weather in {city}?'), args)).toContain(why)
})

describe('examples of an override', () => {
  const agent = { id: 'a', name: 'a', description: 'Helps', health: 'healthy' } as const
  const planWith = (examples: readonly string[]) =>
    new ToolPlanner(planOptions({ overrides: { a: { examples } } })).plan([
      { ...agent, skills: [] },
    ])

  test('replace the examples of the agent, in prompts and in the description', () => {
    const plan = planWith(['Weather in {city}?'])
    expect(plan.prompts).toMatchObject([{ arguments: [{ name: 'city' }] }])
    expect(plan.tools[0]?.definition.description).toContain('1. Weather in {city}?')
  })

  test.each(['{ci ty}', 'In { city }?', '{1st}', '{city} or {big city}'])(
    'are refused with words that are no name: %s',
    (example) => {
      expect(() => planWith(['Fine', example])).toThrow(
        /^tools\.overrides\["a"\]\.examples\[1\]: \{.*\} is not the name of an argument/,
      )
    },
  )

  test('may have JSON in braces', () => {
    expect(planWith(['{"a": [1, {}]} {{x y}}']).prompts).toHaveLength(1)
  })
})

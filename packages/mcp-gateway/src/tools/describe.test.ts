import { expect, test } from 'vitest'
import type { Skill } from '../agents/agent.ts'
import { descriptionOf } from './plan.ts'

const bare: Skill = { id: 's', name: 'S', description: '' }

test('contains the description, examples, modes and tags of the skill', () => {
  const skill: Skill = {
    ...bare,
    description: 'Tells the weather.',
    examples: ['In Paris?', 'Tomorrow?', 'Rain?', 'Snow?'],
    inputModes: ['text/plain'],
    outputModes: ['text/plain', 'image/png'],
    tags: ['weather', 'maps'],
  }
  expect(descriptionOf(skill)).toBe(
    `Tells the weather.

Examples:
1. In Paris?
2. Tomorrow?
3. Rain?

Input modes: text/plain | Output modes: text/plain, image/png

Tags: weather, maps`,
  )
})

test('has a text for a skill without a description', () => {
  expect(descriptionOf(bare)).toBe('No description available')
})

test('says how long files can be read, also after a long description', () => {
  const skill: Skill = { ...bare, description: 'x'.repeat(5000), outputModes: ['image/png'] }
  const text = descriptionOf(skill, 86_400_000)
  expect(text).toHaveLength(2048)
  expect(text.endsWith('…\n\nFiles it makes can be read for 24 hours.')).toBe(true)
  expect(descriptionOf(bare, 60_000)).not.toContain('Files')
})

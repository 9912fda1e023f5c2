import { expect, test } from 'vitest'
import { agentDefectOf } from './reported-agent.ts'

const agent = { id: 'a', name: 'A', description: '', skills: [], health: 'healthy' }
const skill = { id: 's', name: 'S', description: '' }

test('accepts an agent', () => {
  expect(agentDefectOf(agent)).toBeUndefined()
  expect(agentDefectOf({ ...agent, skills: [{ ...skill, tags: ['x'] }] })).toBeUndefined()
})

test.each([
  [undefined, 'it is not an object'],
  [{ ...agent, id: '' }, 'its id'],
  [{ ...agent, id: '\uD800' }, 'its id'],
  [{ ...agent, id: 'x'.repeat(513) }, 'its id'],
  [{ ...agent, name: 7 }, 'its name'],
  [{ ...agent, description: undefined }, 'its description'],
  [{ ...agent, health: 'well' }, 'its health'],
  [{ ...agent, skills: 'none' }, 'its skills'],
  [{ ...agent, skills: [skill, 7] }, 'its skill 2 cannot be used: it is not an object'],
  [{ ...agent, skills: [{ ...skill, id: '' }] }, 'its skill 1 cannot be used: its id'],
  [{ ...agent, skills: [{ ...skill, name: 1 }] }, 'its skill 1 cannot be used: its name'],
  [
    { ...agent, skills: [{ ...skill, description: 1 }] },
    'its skill 1 cannot be used: its description',
  ],
  [{ ...agent, skills: [{ ...skill, examples: [1] }] }, 'its examples are not a list of texts'],
  [{ ...agent, ui: { resourceUri: 'https://a.example', page: '' } }, 'its ui has no `resourceUri`'],
  [{ ...agent, ui: { resourceUri: 'ui://a' } }, 'its ui has no text `page`'],
  [
    { ...agent, skills: [{ ...skill, ui: 'ui://a' }] },
    'its skill 1 cannot be used: its ui is not a user interface',
  ],
  [{ ...agent, skills: [skill, skill] }, 'its skills have the same id twice'],
])('refuses %j as an agent', (value, defect) => {
  expect(agentDefectOf(value)).toContain(defect)
})

import { planOptions } from '../../test/settings.ts'
import { expect, test } from 'vitest'

import type { Agent } from '../agents/agent.ts'
import type { Principal } from '../internal/principal.ts'
import { promptContentOf } from './skill-prompts.ts'
import { ToolPlanner } from './tool-planner.ts'
import { listPrompts, listTools, nearestTools, nearestNames } from './visibility.ts'

function agentOf(id: string): Agent {
  const skill = { id: 'do', name: 'do', description: '', examples: [`Do it, ${id}`] }
  return { id, name: id, description: '', health: 'healthy', skills: [skill] }
}

function principalWith(...scopes: readonly string[]): Principal {
  return { id: 'p', scopes, isAnonymous: false, claims: {} }
}

const plan = new ToolPlanner(planOptions()).plan([agentOf('a'), agentOf('b')])
const onlyB = principalWith('agent:b:call')

test('a caller sees what its scopes allow', () => {
  expect(listTools(plan, onlyB).map(({ name }) => name)).toEqual(['b_do'])
  expect(listTools(plan, principalWith('*'))).toHaveLength(2)
  expect(listTools(plan, principalWith())).toEqual([])
  expect(nearestTools(plan, onlyB, 'a_do')).toEqual(['b_do'])
})

test('prompts, too', () => {
  expect(listPrompts(plan, onlyB)).toEqual([
    { name: 'b_do_example_1', title: 'Do it, b', description: 'Example for b: do' },
  ])
  expect(promptContentOf(plan.prompts[0]!)).toEqual({
    description: 'Example for a: do',
    messages: [{ role: 'user', content: { type: 'text', text: 'Do it, a' } }],
  })
})

test.each([
  ['off', ['a_do', 'b_do']],
  ['on', ['a_do', 'agent_call', 'agents_list', 'b_do']],
  ['only', ['agent_call', 'agents_list']],
] as const)('with meta-tools %s', (metaTools, names) => {
  const made = new ToolPlanner(planOptions({ metaTools })).plan([agentOf('a'), agentOf('b')])
  expect(listTools(made, principalWith('*')).map(({ name }) => name)).toEqual(names)
  expect(made.byName('a_do')).toBeDefined()
})

test('finds what was meant', () => {
  const names = ['weather_get', 'weather_set', 'news_list', 'support']
  expect(nearestNames('wether_get', names)).toEqual(['weather_get', 'weather_set', 'news_list'])
  expect(nearestNames('x', [])).toEqual([])
})

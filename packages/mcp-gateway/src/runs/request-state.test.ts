import { expect, test } from 'vitest'

import { RequestStates, parseClaim } from './request-state.ts'

const key = Buffer.from('k'.repeat(32))
const state = { runId: 'run_0123456789abcdef', round: 1, tool: 'support', args: 'hash' }
const binding = { method: 'tools/call', principal: 'ada' }

test('verifies a state for the same caller and method only, and if it is unchanged', async () => {
  const states = new RequestStates(key, 3_600_000)
  const text = await states.mint(state, binding)
  expect(await states.verify(text, binding)).toEqual(state)
  const forPrompts = { ...binding, method: 'prompts/get' }
  await expect(states.verify(text, forPrompts)).rejects.toThrow('bind')
  await expect(states.verify(`${text}x`, binding)).rejects.toThrow('mac')
  await expect(states.verify(text, { ...binding, principal: 'eve' })).rejects.toThrow('bind')
})

test.each([
  undefined,
  'run_0123456789abcdef',
  { run: 'run_0123456789abcdef' },
  { run: 'run_0123456789abcdef.1' },
  { run: 'x.1' },
  { runId: 1 },
])('does not take %j for the name of a run', (value) => {
  expect(parseClaim(value)).toBeUndefined()
})

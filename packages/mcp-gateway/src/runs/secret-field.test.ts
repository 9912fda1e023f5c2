import { runsOptions } from '../../test/settings.ts'
import { expect, test } from 'vitest'

import { requestOf, ScriptedSource, tool } from '../../test/scripted-source.ts'
import { MemoryGatewayStore } from '../store/memory-store.ts'
import { Runs } from './runs.ts'
import { asksForSecret } from './forms.ts'

const secret = { type: 'object', properties: { key: { type: 'string', format: 'password' } } }

test.each([
  [secret, true],
  [{ type: 'object', properties: { key: { type: 'string', writeOnly: true } } }, true],
  [{ type: 'array', items: { anyOf: [secret, { type: 'null' }] } }, true],
  [{ type: 'object', properties: { password: { type: 'string' } } }, false],
  [undefined, false],
])('%j asks for a secret: %s', (schema, expected) => {
  expect(asksForSecret(schema)).toBe(expected)
})

test('a run that asks for a secret ends, and the question is put to nobody', async () => {
  await using store = new MemoryGatewayStore()
  const questions = [{ id: 'q', message: 'Your key?', schema: secret }]
  const source = new ScriptedSource(() => [{ type: 'asked', questions, state: { thread: 't' } }])
  const runs = new Runs(runsOptions({ agents: source, values: store.values }))
  const outcome = await runs.call(tool, requestOf('Go', { canAsk: true }))
  expect(outcome).toMatchObject({
    result: { isError: true, _meta: { reason: 'agent_failed' } },
  })
  expect(JSON.stringify(outcome)).toContain('secret')
  expect(source.forgotten).toEqual([{ thread: 't' }])
  expect(await store.values.list('')).toEqual([])
  await runs.close()
})

import { expect, test } from 'vitest'

import {
  accepted,
  call,
  KEY,
  request,
  send,
  type Fetch,
  type Json,
  type Message,
} from './task-requests.ts'
import { twoReplicas } from './two-replicas.ts'

const cached = { tools: { overrides: { asking: { cacheTtlMs: 60_000 } } } }
const given = { 'io.github.x-mcp/idempotency-key': KEY }

/** Calls the agent that asks, without a task. */
function ask(gateway: Fetch, over: Json = {}): Promise<Message> {
  const params = { name: 'asking', arguments: { message: 'Hi' }, ...over }
  return send(gateway, request('tools/call', params, { extensions: {} }))
}

/** Calls the agent, and answers its questions. */
async function answered(gateway: Fetch, over: Json = {}): Promise<Message> {
  const { result } = await ask(gateway, over)
  const answer = accepted({ answer: 'the secret of Ada' })
  const inputResponses = { i0: answer, i1: answer }
  return ask(gateway, { ...over, requestState: result?.['requestState'], inputResponses })
}

test('caches no result that depends on the answers of a user', async () => {
  await using world = twoReplicas(cached)
  const { result } = await answered(world.a)
  expect(JSON.stringify(result?.['content'])).toContain('the secret of Ada')
  expect((await ask(world.b)).result).toMatchObject({ resultType: 'input_required' })
})

test('caches no result of an earlier call with the same key', async () => {
  await using world = twoReplicas(cached)
  await answered(world.a, { _meta: given })
  const { result: again } = await ask(world.a, { _meta: given })
  expect(JSON.stringify(again?.['content'])).toContain('the secret of Ada')
  expect((await ask(world.b)).result).toMatchObject({ resultType: 'input_required' })
})

test('serves a caller whose authenticator gives no claims', async () => {
  const ada = { id: 'ada', scopes: ['*'], isAnonymous: false }
  await using world = twoReplicas({
    auth: { authenticate: async () => ada as never },
    tools: { overrides: { echo: { cacheTtlMs: 60_000 } } },
  })
  const { result } = await call(world.a, 'echo', { extensions: {} })
  expect(JSON.stringify(result?.['content'])).toContain('Hi')
})

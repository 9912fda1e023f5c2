import { expect, test } from 'vitest'

import { AgentsAtHand, type Behaviour } from '../../test/agents-at-hand.ts'
import { ManualClock } from '../../test/manual-clock.ts'
import { modern } from '../../test/rpc-requests.ts'
import type { Message } from '../../test/wire-session.ts'
import { bearerAuth } from '../http/auth/bearer.ts'
import { createGateway } from '../gateway.ts'
import { MemoryGatewayStore } from '../store/memory-store.ts'

const asking: Behaviour = function* ask({ resume }) {
  const questions = ['a', 'b'].map((id) => ({ id, message: `${id}?` }))
  if (resume) yield { type: 'done', text: JSON.stringify(resume.answers) }
  else yield { type: 'asked', questions, state: {} }
}

const TOKENS = { ada: 'ada-has-a-token-of-her-own', bob: 'bob-has-a-token-of-his-own' }

interface Call {
  readonly name?: string
  readonly arguments?: object
  readonly token?: string
  readonly capabilities?: object
  readonly requestState?: unknown
  readonly inputResponses?: object
}

function serve(agents = new AgentsAtHand({ asking, other: asking })) {
  const clock = new ManualClock()
  const store = new MemoryGatewayStore({ now: () => clock.now() })
  const scopes = ['*']
  const auth = bearerAuth({
    ada: { token: TOKENS.ada, scopes },
    bob: { token: TOKENS.bob, scopes },
  })
  const gateway = createGateway({ sources: [agents], auth, clock, store })
  /** Sends one `tools/call` of revision 2026-07-28. */
  async function call(over: Call = {}): Promise<Message> {
    const { token = TOKENS.ada, capabilities = { elicitation: { form: {} } }, ...rest } = over
    const meta = { 'io.modelcontextprotocol/clientCapabilities': capabilities }
    const params = { name: 'asking', arguments: { message: 'Go' }, ...rest, _meta: meta }
    const request = modern('tools/call', params, { authorization: `Bearer ${token}` })
    return (await (await gateway.fetch(request)).json()) as Message
  }
  return {
    agents,
    clock,
    call,
    async [Symbol.asyncDispose]() {
      await gateway.close()
      await store.close()
    },
  }
}

const accepted = (answer: string) => ({ action: 'accept', content: { answer } })
const inputResponses = { i0: accepted('1'), i1: accepted('2') }

test('accepts a state of the same caller, tool and arguments only, and if it is unchanged', async () => {
  await using at = serve()
  const { result } = await at.call()
  expect(result).toMatchObject({ resultType: 'input_required' })
  expect(Object.keys(result?.['inputRequests'] ?? {})).toEqual(['i0', 'i1'])
  expect(result).not.toHaveProperty('ttlMs')
  const requestState = String(result?.['requestState'])
  const answer = { requestState, inputResponses }
  for (const spoilt of [
    { ...answer, requestState: `${requestState.slice(0, -4)}AAAA` },
    { ...answer, requestState: 'nonsense' },
    { ...answer, token: TOKENS.bob },
  ]) {
    expect((await at.call(spoilt)).error).toMatchObject({ code: -32602 })
  }
  const elsewhere = await at.call({ ...answer, name: 'other' })
  expect(elsewhere.result).toMatchObject({ isError: true, _meta: { reason: 'expired' } })
  const changed = await at.call({ ...answer, arguments: { message: 'Another' } })
  expect(changed.result).toMatchObject({ isError: true, _meta: { reason: 'invalid_arguments' } })
  expect(at.agents.calls).toHaveLength(1)

  const end = await at.call(answer)
  expect(end.result).toMatchObject({ content: [{ text: expect.stringContaining('"2"') }] })
  expect((await at.call(answer)).result).toEqual(end.result)
  const otherwise = await at.call({ ...answer, inputResponses: { i0: { action: 'decline' } } })
  expect(otherwise.result).toMatchObject({ _meta: { reason: 'already_answered' } })
  expect(at.agents.calls).toHaveLength(2)
})

test('returns the question as text to a client without forms, and `expired` to one that waited too long', async () => {
  await using at = serve()
  const { requestState } = (await at.call()).result ?? {}
  const told = await at.call({ requestState, capabilities: {} })
  expect(told.result).toMatchObject({ structuredContent: { status: 'needs_input' } })
  await at.clock.advance(3_600_001)
  const late = await at.call({ requestState, inputResponses })
  expect(late.result).toMatchObject({ isError: true, _meta: { reason: 'expired' } })
})

test('counts the rounds of a client that calls again with each answer', async () => {
  const agents = new AgentsAtHand({
    asking: () => [{ type: 'asked', questions: [{ id: 'a', message: 'a?' }], state: {} }],
  })
  await using at = serve(agents)
  let result = (await at.call()).result
  let rounds = 0
  while (result?.['resultType'] === 'input_required' && rounds < 30) {
    rounds += 1
    const requestState = String(result['requestState'])
    result = (await at.call({ requestState, inputResponses: { i0: accepted('1') } })).result
  }
  expect(rounds).toBe(8)
  expect(result).toMatchObject({ isError: true, _meta: { reason: 'too_many_questions' } })
})

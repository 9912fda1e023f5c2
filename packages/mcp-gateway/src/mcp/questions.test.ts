import {
  Client,
  StreamableHTTPClientTransport,
  type ClientContext,
  type ElicitRequest,
  type ElicitResult,
} from '@modelcontextprotocol/client'
import { expect, test } from 'vitest'

import { AgentsAtHand } from '../../test/agents-at-hand.ts'
import type { AgentCall } from '../agents/agent.ts'
import { Runtime } from '../gateway/runtime.ts'

type Answer = (
  request: ElicitRequest,
  context: ClientContext,
) => ElicitResult | Promise<ElicitResult>

/** Opens a session whose client answers questions with `answer`, and calls the only tool. */
async function callOf(agents: AgentsAtHand, answer: Answer, questionTimeoutMs = 300_000) {
  await using gateway = new Runtime({ sources: [agents], log: false }, { questionTimeoutMs })
  const { url } = await gateway.listen({ port: 0 })
  const capabilities = { elicitation: { form: {}, url: {} } }
  const client = new Client({ name: 'test', version: '1.0.0' }, { capabilities })
  client.setRequestHandler('elicitation/create', answer)
  await client.connect(new StreamableHTTPClientTransport(new URL(url)))
  const result = await client.callTool({ name: 'shop', arguments: { message: 'A shirt' } })
  await client.close()
  return result
}

const asked = (...messages: readonly string[]) => ({
  type: 'asked' as const,
  questions: messages.map((message) => ({ id: message, message })),
  state: { thread: 't' },
})

test('gives a URL elicitation the id that revisions with sessions require', async () => {
  const requests: unknown[] = []
  const agents = new AgentsAtHand({
    *shop({ resume }: AgentCall) {
      const question = { id: 'q', message: 'Pay', url: 'https://pay.example/' }
      if (resume === undefined) yield { type: 'asked', questions: [question], state: {} }
      else yield { type: 'done', text: 'Paid' }
    },
  })
  const result = await callOf(agents, (request) => {
    requests.push(request.params)
    return { action: 'accept' }
  })
  expect(requests).toMatchObject([
    {
      mode: 'url',
      url: 'https://pay.example/',
      elicitationId: expect.stringMatching(/^[\w-]{36}$/),
    },
  ])
  expect(result.content).toEqual([{ type: 'text', text: 'Paid' }])
})

test('stops an agent that asks again and again after 8 rounds', async () => {
  let rounds = 0
  const agents = new AgentsAtHand({ shop: () => [asked(`Round ${++rounds}?`)] })
  let answers = 0
  const result = await callOf(agents, () => {
    answers++
    return { action: 'accept', content: { answer: 'yes' } }
  })
  expect(answers).toBe(8)
  expect(result).toMatchObject({
    isError: true,
    content: [{ text: expect.stringContaining('more than 8 times') }],
  })
})

test('ends the round if one question times out, and withdraws the other question', async () => {
  const withdrawn: string[] = []
  const agents = new AgentsAtHand({ shop: () => [asked('Which size?', 'Which color?')] })
  const answer: Answer = ({ params }, { mcpReq }) =>
    new Promise((resolve) => {
      mcpReq.signal.addEventListener('abort', () => {
        withdrawn.push(params.message)
        resolve({ action: 'cancel' })
      })
    })
  const result = await callOf(agents, answer, 50)
  expect(result).toMatchObject({ isError: true, _meta: { reason: 'expired' } })
  expect(withdrawn.toSorted()).toEqual(['Which color?', 'Which size?'])
})

import { Client } from '@modelcontextprotocol/client'
import { InMemoryTransport, isInputRequiredResult, Server } from '@modelcontextprotocol/server'
import type { ServerContext } from '@modelcontextprotocol/server'
import { expect, test } from 'vitest'

import { requestOf, ScriptedSource, tool } from '../../../test/scripted-source.ts'
import { MemoryGatewayStore } from '../../store/memory-gateway-store.ts'
import { Runs } from '../runs.ts'
import { inputRequiredResult } from './input-required.ts'
import { createRequestStates, resumeClaimFrom, type RequestState } from './request-state.ts'

const key = 'k'.repeat(32)
const state = { runId: 'run_0123456789abcdef', round: 1, tool: 'support', args: 'hash' }

function contextOf(method: string): ServerContext {
  return { mcpReq: { method } } as unknown as ServerContext
}

test('a state is of use for the same caller and method only, and cannot be changed', async () => {
  let principal = 'ada'
  const states = createRequestStates({ key, principalOf: () => principal })
  const sealed = await states.mint(state, contextOf('tools/call'))
  expect(await states.verify(sealed, contextOf('tools/call'))).toEqual(state)
  await expect(states.verify(sealed, contextOf('prompts/get'))).rejects.toThrow('bind')
  await expect(states.verify(`${sealed}x`, contextOf('tools/call'))).rejects.toThrow('mac')
  principal = 'eve'
  await expect(states.verify(sealed, contextOf('tools/call'))).rejects.toThrow('bind')
})

test.each([
  undefined,
  'run_0123456789abcdef',
  { run: 'run_0123456789abcdef' },
  { run: 'run_0123456789abcdef.1' },
  { run: 'x.1' },
  { runId: 1 },
])('%j names no run that waits', (value) => {
  expect(resumeClaimFrom(value)).toBeUndefined()
})

test('a legacy client is asked by the SDK, with the same handler, and its answer goes on with the run', async () => {
  await using store = new MemoryGatewayStore()
  const source = new ScriptedSource(({ resume }) => {
    return resume === undefined
      ? [{ type: 'asked', questions: [{ id: 'q', message: 'Which size?' }], state: {} }]
      : [{ type: 'done', text: JSON.stringify(resume.answers) }]
  })
  const runs = new Runs({ agents: source, values: store.values })
  const states = createRequestStates({ key, principalOf: () => 'ada' })
  const server = new Server(
    { name: 'gateway', version: '1.0.0' },
    {
      capabilities: { tools: {} },
      requestState: { verify: (sealed, context) => states.verify(sealed, context) },
    },
  )
  server.setRequestHandler('tools/call', async (_, context) => {
    const sealed = context.mcpReq.requestState<RequestState>()
    const responses = context.mcpReq.inputResponses ?? {}
    const outcome = await runs.call(
      tool,
      requestOf('Order', {
        canAsk: true,
        signal: context.mcpReq.signal,
        ...(sealed !== undefined && { resume: { state: sealed, responses } }),
      }),
    )
    if (outcome.type === 'result') return outcome.result
    const result = inputRequiredResult(outcome.forms, await states.mint(outcome.state, context))
    expect(isInputRequiredResult(result)).toBe(true)
    return result
  })
  const client = new Client(
    { name: 'client', version: '1.0.0' },
    { capabilities: { elicitation: { form: {} } } },
  )
  const asked: unknown[] = []
  client.setRequestHandler('elicitation/create', (request) => {
    asked.push(request.params)
    return { action: 'accept', content: { answer: 'large' } }
  })
  const [ours, theirs] = InMemoryTransport.createLinkedPair()
  await Promise.all([server.connect(theirs), client.connect(ours)])
  try {
    const result = await client.callTool({ name: 'support', arguments: { message: 'Order' } })
    expect(asked).toMatchObject([
      { message: 'Which size?', requestedSchema: { required: ['answer'] } },
    ])
    expect(result.content).toEqual([
      { type: 'text', text: '{"q":{"action":"accept","content":{"answer":"large"}}}' },
    ])
    expect(source.calls).toHaveLength(2)
  } finally {
    await client.close()
    await server.close()
    await runs.close()
  }
})

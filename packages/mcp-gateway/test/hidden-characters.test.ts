import { expect, test } from 'vitest'
import type { AgentCall, AgentUpdate } from '../src/agents/agent.ts'
import { createGateway } from '../src/index.ts'
import { AgentsAtHand } from './agents-at-hand.ts'
import { inSession, modern, openSession, post } from './rpc-requests.ts'

/** NUL, a color of a terminal, a direction of writing, a tag, and C1. */
const HIDDEN = '\u0000\u001B[31m\u202E\u{E0041}\u0085'
const hide = (text: string): string => `${HIDDEN}${text}${HIDDEN}`
const SCHEMA = {
  type: 'object',
  title: hide('Input'),
  properties: {
    city: { type: 'string', title: hide('City'), description: hide('Where'), enum: ['Rome'] },
  },
}

function* hiding({ skillId, resume }: AgentCall): Iterable<AgentUpdate> {
  yield { type: 'status', text: hide('thinks') }
  if (skillId === 'fail') return yield { type: 'failed', reason: hide('no way') }
  if (skillId === 'sign') {
    const url = `https://id.example/${HIDDEN}`
    return yield { type: 'authorization', url, reason: hide('sign in') }
  }
  if (skillId === 'draw') {
    yield { type: 'file', file: { name: hide('drawing'), data: Buffer.from('x') } }
    return yield { type: 'done', structured: { city: 'Rome' } }
  }
  if (resume !== undefined) return yield { type: 'done', text: 'fine' }
  const question = { id: 'q', message: hide('Which?'), schema: SCHEMA }
  const deep = { type: 'object', properties: { a: SCHEMA } }
  const questions = [question, { id: 'r', message: hide('And?'), schema: deep }]
  return yield { type: 'asked', questions, state: {} }
}

async function gatewayOfHiding() {
  const source = new AgentsAtHand()
  const texts = {
    description: hide('Does it'),
    tags: [hide('tag')],
    examples: [hide('In {city}?')],
  }
  const skills = ['ask', 'fail', 'sign', 'draw'].map((id) => ({
    id,
    name: hide(id),
    inputModes: [hide('text/plain')],
    outputModes: [hide('text/plain')],
    inputSchema: SCHEMA,
    outputSchema: SCHEMA,
    ...texts,
  }))
  source.join('a', hiding, { name: hide('Agent'), skills, canAsk: true })
  return createGateway({ sources: [source], log: false })
}

const isClean = (answer: string): void => {
  expect(answer).not.toMatch(/\p{Cf}|\[31m|\\u00(?:00|1b|85)|[\u0080-\u009F]/iu)
}

test.each(['tools/list', 'prompts/list'])('%s shows no hidden characters', async (method) => {
  await using gateway = await gatewayOfHiding()
  const text = await (await gateway.fetch(modern(method))).text()
  expect(text).toMatch(/agent_ask/)
  isClean(text)
})

test('a prompt shows no hidden characters', async () => {
  await using gateway = await gatewayOfHiding()
  const params = { name: 'agent_ask_example_1', arguments: { city: 'Rome' } }
  const text = await (await gateway.fetch(modern('prompts/get', params))).text()
  expect(text).toContain('In Rome?')
  isClean(text)
})

test.each([
  ['ask', 'Which?'],
  ['fail', 'no way'],
  ['sign', 'sign in'],
  ['draw', 'drawing'],
])('results about a run show no hidden characters: %s', async (skill, shown) => {
  await using gateway = await gatewayOfHiding()
  const asks = { 'io.modelcontextprotocol/clientCapabilities': { elicitation: { form: {} } } }
  const id = await openSession(gateway.fetch)
  const call = { name: `agent_${skill}`, arguments: { city: 'Rome' } }
  const params = { ...call, _meta: { progressToken: 1 } }
  const requests = [
    modern('tools/call', call),
    modern('tools/call', { ...call, _meta: asks }),
    post({ jsonrpc: '2.0', id: 1, method: 'tools/call', params }, inSession(id)),
  ]
  for (const request of requests) {
    const text = await (await gateway.fetch(request)).text()
    expect(text).toContain(shown)
    isClean(text)
  }
})

test('texts are cut between characters', async () => {
  const long = `x${'😀'.repeat(5000)}`
  const schema = { type: 'object', properties: { a: { type: 'object', description: long } } }
  const source = new AgentsAtHand({
    *ask() {
      yield { type: 'asked', questions: [{ id: 'q', message: long, schema }], state: {} }
    },
  })
  const closed = { type: 'object', properties: {}, additionalProperties: false }
  const parameters = { type: 'object', properties: { a: closed } }
  source.join('strict', () => [], {
    skills: [{ id: 'do', name: 'do', description: '', inputSchema: parameters }],
  })
  await using gateway = createGateway({
    sources: [source],
    log: false,
    tools: { parameters: 'schema', overrides: { ask: { tasks: 'never' } } },
  })
  const id = await openSession(gateway.fetch)
  const inLegacy = (method: string, params: object): Request =>
    post({ jsonrpc: '2.0', id: 1, method, params }, inSession(id))
  const requests = [
    modern('tools/call', { name: 'ask', arguments: { message: 'x' } }),
    inLegacy('tools/call', { name: long, arguments: {} }),
    inLegacy('prompts/get', { name: long }),
    modern('tools/call', { name: 'strict_do', arguments: { a: { [long]: 1 } } }),
  ]
  for (const request of requests) {
    const text = await (await gateway.fetch(request)).text()
    expect(text).toContain('x😀')
    expect(text.match(/.{20}\\ud83d/)).toBeNull() // how JSON has half of a character
  }
})

test('an answer stays as the agent wrote it', async () => {
  const source = new AgentsAtHand({
    *exact() {
      yield { type: 'text', text: hide('answer') }
      yield { type: 'done' }
    },
  })
  await using gateway = createGateway({ sources: [source], log: false })
  const params = { name: 'exact', arguments: { message: 'x' } }
  const answer: unknown = await (await gateway.fetch(modern('tools/call', params))).json()
  expect(answer).toMatchObject({ result: { content: [{ text: hide('answer') }] } })
})

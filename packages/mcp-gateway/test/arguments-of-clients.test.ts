import { PassThrough } from 'node:stream'
import { describe, expect, test } from 'vitest'
import type { Skill } from '../src/agents/agent.ts'
import { createGateway, type Gateway } from '../src/gateway.ts'
import { AgentsAtHand, asking, echo } from './agents-at-hand.ts'
import { eventsOf, inSession, MODERN_META, modern, openSession, post } from './rpc-requests.ts'
import { get, KEY, request } from './task-requests.ts'

type Json = Readonly<Record<string, unknown>>

/** Sends a request to a gateway, and returns its answer. */
type Send = (gateway: Gateway, method: string, params?: unknown) => Promise<Json>

async function answerOf(response: Response): Promise<Json> {
  if (response.headers.get('content-type') !== 'text/event-stream') {
    return { status: response.status, ...((await response.json()) as Json) }
  }
  for await (const { data } of eventsOf(response)) if (data !== '') return JSON.parse(data) as Json
  throw new Error('The stream had no answer')
}

const EDGES: Readonly<Record<string, Send>> = {
  'a session': async ({ fetch }, method, params) => {
    const id = await openSession(fetch)
    return answerOf(await fetch(post({ jsonrpc: '2.0', id: 1, method, params }, inSession(id))))
  },
  '2026-07-28': async ({ fetch }, method, params) =>
    answerOf(await fetch(modern(method, params as Json))),
  'a pipe': async (gateway, method, params) => {
    const [input, output] = [new PassThrough(), new PassThrough()]
    const { closed } = gateway.serveStdio({ input, output })
    input.end(`${JSON.stringify({ jsonrpc: '2.0', id: 1, method, params })}\n`)
    await closed
    return JSON.parse(String(Buffer.concat(await output.end().toArray()))) as Json
  },
  'a pipe, 2026-07-28': (gateway, method, params) => {
    const { _meta: meta, ...others } = params as { _meta?: object }
    return EDGES['a pipe']!(gateway, method, { ...others, _meta: { ...MODERN_META, ...meta } })
  },
}
const EDGE_NAMES = Object.keys(EDGES)

const ORDER: Skill = {
  id: 'order',
  name: 'order',
  description: 'Orders',
  inputSchema: {
    type: 'object',
    properties: {
      city: { type: 'string' },
      days: { type: 'integer' },
      unit: { type: 'string', enum: ['C', 'F'] },
      note: { type: ['string', 'null'] },
      tags: { type: 'array', items: { type: 'string' } },
    },
    additionalProperties: false,
  },
}

function world() {
  const warnings: string[] = []
  const agents = new AgentsAtHand({ echo, asking })
  agents.join('shop', echo, { skills: [ORDER] })
  const gateway = createGateway({
    sources: [agents],
    log: {
      warn: (message) => void warnings.push(message),
      error: (message) => void warnings.push(message),
    },
    tools: { parameters: 'schema', overrides: { 'shop/order': { name: 'order' } } },
  })
  return {
    gateway,
    warnings,
    agents,
    inputs: () => agents.calls.map(({ input }) => input),
    [Symbol.asyncDispose]: () => gateway.close(),
  }
}

/** A result that is no error. */
const OK = { result: { content: [{ type: 'text' }], _meta: { runId: expect.any(String) } } }

describe.each(EDGE_NAMES)('over %s', (edge) => {
  const send = EDGES[edge]!

  test('a message tool takes blank fields, and leaves out those of the client', async () => {
    await using at = world()
    const args = {
      message: 'Hi',
      files: null,
      resume: '',
      toolCallId: 'call_secret',
      sessionId: 's',
    }
    expect(await send(at.gateway, 'tools/call', { name: 'echo', arguments: args })).toMatchObject(
      OK,
    )
    expect(at.inputs()).toEqual([{ kind: 'message', text: 'Hi', files: [] }])
    expect(at.warnings.filter((line) => line.includes('toolCallId'))).toEqual([
      'A client sent fields that the tool echo does not have, so they were left out: "toolCallId", "sessionId"',
    ])
    expect(at.warnings.join()).not.toContain('call_secret')
  })

  test('a tool with fields gets what was meant', async () => {
    await using at = world()
    const args = { city: '', days: '', unit: '', note: null, tags: '["a"]', toolCallId: 'c' }
    expect(await send(at.gateway, 'tools/call', { name: 'order', arguments: args })).toMatchObject(
      OK,
    )
    expect(at.inputs()).toMatchObject([{ value: { city: '', note: null, tags: ['a'] } }])
    expect(at.inputs()[0]).not.toHaveProperty('value.days')
  })

  test.each([undefined, null, [], {}, '', '{}', '[]'])(
    'the arguments %j are none',
    async (args) => {
      await using at = world()
      expect(
        await send(at.gateway, 'tools/call', { name: 'order', arguments: args }),
      ).toMatchObject(OK)
      expect(at.inputs()).toMatchObject([{ value: {} }])
    },
  )

  test.each([[7], ['text'], [[1]], [true]])('the arguments %j are refused', async (args) => {
    await using at = world()
    expect(await send(at.gateway, 'tools/call', { name: 'order', arguments: args })).toMatchObject({
      error: { code: -32_602, message: expect.stringContaining('"arguments", which is an object') },
    })
  })

  test.each([
    ['a list', { tags: '['.repeat(1_000_000) }, /longer than 262144 bytes/],
    ['a shorter list', { tags: '['.repeat(200_000) }, /\/tags must be array/],
    [
      'a closed list',
      { tags: `${'['.repeat(100_000)}${']'.repeat(100_000)}` },
      /\/tags must be array/,
    ],
    [
      'an object',
      { tags: `${'{"a":'.repeat(20_000)}1${'}'.repeat(20_000)}` },
      /\/tags must be array/,
    ],
    ['a list of blanks', { tags: `[${'null,'.repeat(40_000)}null]` }, /\/tags must be array/],
    ['the arguments', '['.repeat(1_000_000), /arguments.+, which is an object/],
  ])('JSON text of %s, made to do harm, is an error that says so', async (_, args, text) => {
    await using at = world()
    const answer = JSON.stringify(
      await send(at.gateway, 'tools/call', { name: 'order', arguments: args }),
    )
    expect(answer).toMatch(text)
    expect(answer.length).toBeLessThan(2000)
    expect(answer).not.toContain('    at ')
    expect(at.agents.calls).toEqual([])
  })
})

describe.each(['a session', 'a pipe'])('over %s', (edge) => {
  test.each([[null], [[]], [undefined]])('the parameters %j are none', async (params) => {
    await using at = world()
    const answer = await EDGES[edge]!(at.gateway, 'tools/list', params)
    expect(answer).toMatchObject({ result: { tools: expect.any(Array) } })
  })

  test.each([
    { cursor: null },
    { cursor: '' },
    { _meta: null },
    { _meta: [] },
    { _meta: { progressToken: null } },
  ])('the parameters %j are read', async (params) => {
    await using at = world()
    const answer = await EDGES[edge]!(at.gateway, 'tools/list', params)
    expect(answer).toMatchObject({ result: { tools: expect.any(Array) } })
  })
})

test('a client of PHP can open a session', async () => {
  await using at = world()
  await expect(openSession(at.gateway.fetch, {}, { capabilities: [] })).resolves.toMatch(/./)
})

test('a client of 2026-07-28 is told what its request lacks', async () => {
  await using at = world()
  for (const params of [null, [], { _meta: null }]) {
    const { headers } = modern('tools/list')
    const message = { jsonrpc: '2.0', id: 1, method: 'tools/list', params }
    const response = await at.gateway.fetch(post(message, Object.fromEntries(headers)))
    expect(response.status).toBe(400)
    expect(await response.json()).toMatchObject({
      error: { message: expect.stringMatching(/\w+ \w+/) },
    })
  }
})

test('tasks execute what was meant', async () => {
  await using at = world()
  const args = { message: 'Hi', files: '[]', toolCallId: 'c' }
  const answer = await answerOf(
    await at.gateway.fetch(request('tools/call', { name: 'asking', arguments: args })),
  )
  const { taskId } = (answer['result'] ?? {}) as Json
  expect(await get(at.gateway.fetch, taskId)).toMatchObject({
    result: { status: 'input_required' },
  })
  expect(at.inputs()).toEqual([{ kind: 'message', text: 'Hi', files: [] }])
  expect(at.warnings.filter((line) => line.includes('toolCallId'))).toHaveLength(1)
})

describe('calls with an idempotency key', () => {
  const keyedCall = (args: unknown, name = 'order'): Request =>
    modern('tools/call', {
      name,
      arguments: args,
      _meta: { 'io.github.x-mcp/idempotency-key': KEY },
    })

  test.each<[unknown, unknown]>([
    [{ city: 'a', days: null }, { city: 'a' }],
    [
      { city: 'a', days: '' },
      { days: '[]', city: 'a' },
    ],
    [{ tags: '["a"]' }, { tags: ['a'], toolCallId: 'c2' }],
    [{ toolCallId: 'c1' }, { toolCallId: 'c2' }],
    [null, '{}'],
  ])('are the same if they mean the same: %j and %j', async (one, other) => {
    await using at = world()
    expect(await answerOf(await at.gateway.fetch(keyedCall(one)))).toMatchObject(OK)
    expect(await answerOf(await at.gateway.fetch(keyedCall(other)))).toMatchObject(OK)
    expect(at.agents.calls).toHaveLength(1)
  })

  test('of message tools are the same whatever the client adds', async () => {
    await using at = world()
    for (const args of [{ files: null, toolCallId: 'c1' }, { toolCallId: 'c2' }]) {
      const call = keyedCall({ message: 'Hi', ...args }, 'echo')
      expect(await answerOf(await at.gateway.fetch(call))).toMatchObject(OK)
    }
    expect(at.agents.calls).toHaveLength(1)
  })

  test.each<[unknown, unknown]>([
    [{ note: null }, {}],
    [{ note: '' }, {}],
    [{ city: '' }, {}],
    [{ city: '[]' }, {}],
    [{ tags: [] }, {}],
    [{ tags: ['a'] }, { tags: ['b'] }],
    [{ city: '["a"]' }, { city: 'a' }],
  ])('are different if the schema accepts both: %j and %j', async (one, other) => {
    await using at = world()
    await at.gateway.fetch(keyedCall(one))
    expect(await answerOf(await at.gateway.fetch(keyedCall(other)))).toMatchObject({
      error: { data: { reason: 'idempotency_conflict' } },
    })
    expect(at.agents.calls).toHaveLength(1)
  })
})

test('a run continues with other spellings of the same arguments', async () => {
  await using at = world()
  const meta = { 'io.modelcontextprotocol/clientCapabilities': { elicitation: {} } }
  const call = (args: object, more: object = {}): Promise<Response> =>
    at.gateway.fetch(
      modern('tools/call', { name: 'asking', arguments: args, _meta: meta, ...more }),
    )
  const asked = await answerOf(await call({ message: 'Hi', files: null, toolCallId: 'c1' }))
  const { requestState } = asked['result'] as Json
  const answer = { action: 'accept', content: { answer: 'Ann' } }
  const inputResponses = { i0: answer, i1: answer }
  const ended = await answerOf(
    await call({ message: 'Hi', toolCallId: 'c2' }, { requestState, inputResponses }),
  )
  expect(ended).toMatchObject({
    result: { resultType: 'complete', content: [{ text: expect.stringContaining('Ann') }] },
  })
  expect(ended).not.toHaveProperty('result.isError')
})

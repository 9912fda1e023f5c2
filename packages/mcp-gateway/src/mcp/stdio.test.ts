import { PassThrough } from 'node:stream'

import { expect, test } from 'vitest'

import { AgentsAtHand, echo } from '../../test/agents-at-hand.ts'
import { HANDSHAKE, MODERN_META } from '../../test/rpc-requests.ts'
import { createGateway } from '../gateway.ts'

const WRONG = { 'io.modelcontextprotocol/clientCapabilities': 1 }

function request(id: number, method: string, params: object = {}): object {
  return { jsonrpc: '2.0', id, method, params }
}

/** Sends messages over a pipe at once, and then closes its input. Returns the messages of the gateway, by their ids. */
async function answersTo(messages: readonly object[]): Promise<ReadonlyMap<unknown, unknown>> {
  const sources = [new AgentsAtHand({ echo })]
  await using gateway = createGateway({ sources, log: false })
  const [input, output] = [new PassThrough(), new PassThrough()]
  const { closed } = gateway.serveStdio({ input, output })
  input.end(messages.map((message) => `${JSON.stringify(message)}\n`).join(''))
  await closed
  const lines = String(Buffer.concat(await output.end().toArray()))
    .trimEnd()
    .split('\n')
  const answers = lines.filter((line) => line !== '').map((line): unknown => JSON.parse(line))
  return new Map(answers.map((answer) => [(answer as { id?: unknown }).id, answer]))
}

test('serves a client that sends no initialize', async () => {
  const call = { name: 'echo', arguments: { message: 'Hi' } }
  const answers = await answersTo([request(1, 'tools/list'), request(2, 'tools/call', call)])
  expect(answers.size).toBe(2)
  expect(answers.get(1)).toMatchObject({ result: { tools: [{ name: 'echo' }] } })
  expect(answers.get(2)).toMatchObject({ result: { content: [{ text: 'Hi' }] } })
})

test('serves requests of both eras on one pipe', async () => {
  const answers = await answersTo([
    request(1, 'server/discover', { _meta: MODERN_META }),
    request(2, 'initialize', HANDSHAKE),
    request(3, 'ping'),
    request(4, 'tools/call', { name: 'none\n', _meta: MODERN_META }),
  ])
  expect(answers.get(1)).toMatchObject({
    result: { supportedVersions: ['2026-07-28'], capabilities: { tools: {} }, ttlMs: 5000 },
  })
  expect(answers.get(2)).toMatchObject({ result: { protocolVersion: '2025-11-25' } })
  expect(answers.get(3)).toMatchObject({ result: {} })
  expect(answers.get(4)).toMatchObject({ error: { code: -32_602 } })
})

test('refuses a request with a malformed envelope, and names it', async () => {
  const list = request(1, 'tools/list', { _meta: { ...MODERN_META, ...WRONG } })
  expect((await answersTo([list])).get(1)).toMatchObject({ error: { code: -32_602 } })
})

test('answers messages in the forms that clients are known to send', async () => {
  const answers = await answersTo([
    { jsonrpc: '2.0', id: 1, method: 'tools/list', params: null },
    { jsonrpc: '2.0', id: 2, method: 'ping', params: [] },
    request(3, 'tools/list', { cursor: null, _meta: null }),
    { jsonrpc: '2.0', id: null, method: 'notifications/cancelled', params: { requestId: 9 } },
    request(4, 'tools/call', { name: 'echo', arguments: '{"message":"Hi","toolCallId":"c"}' }),
  ])
  expect(answers.get(1)).toMatchObject({ result: { tools: [{ name: 'echo' }] } })
  expect(answers.get(2)).toMatchObject({ result: {} })
  expect(answers.get(3)).toMatchObject({ result: { tools: [{ name: 'echo' }] } })
  expect(answers.get(4)).toMatchObject({ result: { content: [{ text: 'Hi' }] } })
  expect(answers.size).toBe(4)
})

test.each([
  ['parameters that are text', { params: 'text' }],
  ['a field that JSON-RPC does not have', { params: {}, extra: 1 }],
  ['deep parameters', { params: JSON.parse(`${'[['.repeat(500)}${']]'.repeat(500)}`) }],
  [
    '2,000 objects in each other',
    { params: JSON.parse(`${'{"a":'.repeat(2000)}1${'}'.repeat(2000)}`) },
  ],
  [
    '100,000 keys',
    { params: Object.fromEntries(Array.from({ length: 100_000 }, (_, at) => [at, 1])) },
  ],
])('answers a request that has %s, and the next one', async (_, fields) => {
  const wrong = { jsonrpc: '2.0', id: 1, method: 'tools/list', ...fields }
  const answers = await answersTo([wrong, request(2, 'ping')])
  expect(answers.get(1)).toMatchObject({ error: { message: expect.stringMatching(/^\S+ \S+: /) } })
  expect(JSON.stringify(answers.get(1))).not.toContain(' at ')
  expect(answers.get(2)).toMatchObject({ result: {} })
})

// Answers as servers of other people send them. Before, whole answers were lost although the tool had run.
import { json } from 'node:stream/consumers'
import { fileURLToPath } from 'node:url'
import { startTestServer } from '@x/mcp-testing'
import { describe, expect, test } from 'vitest'
import { McpClient } from '../src/index.ts'
import { rejectionOf } from './setting.ts'
import { patientClient } from './stdio/misbehaving.ts'

type Answer = Readonly<Record<string, unknown>>
type Answers = Readonly<Record<string, Answer>>

const input = { type: 'object' }

const initialize = {
  result: {
    protocolVersion: '2025-11-25',
    capabilities: { tools: [], logging: null, resources: [], prompts: [] },
    serverInfo: { name: 'odd', version: '1', title: null, icons: null },
    instructions: null,
    _meta: [],
  },
}
const discover = {
  result: {
    supportedVersions: ['2026-07-28'],
    capabilities: { tools: [], resources: [], prompts: [], completions: null },
    instructions: null,
    ttlMs: 0,
    cacheScope: 'private',
    _meta: { 'io.modelcontextprotocol/serverInfo': { name: 'odd', version: '1' } },
  },
}

const kinds = ['legacy', 'modern', 'stdio'] as const

/** Starts a server of this kind with these answers, and a client of it. */
async function odd(kind: (typeof kinds)[number], given: Answers) {
  const answers: Answers = { initialize, ping: { result: [] }, ...given }
  if (kind === 'stdio') {
    const script = fileURLToPath(new URL('stdio/odd-server.mjs', import.meta.url))
    const env = { ANSWERS: JSON.stringify(answers) }
    return patientClient({ command: process.execPath, args: [script], env })
  }
  const of: Answers = kind === 'modern' ? { ...answers, 'server/discover': discover } : answers
  const server = await startTestServer(async (request, response) => {
    if (request.method !== 'POST') return response.writeHead(405).end()
    const { id, method } = (await json(request)) as { id?: number; method?: string }
    if (id === undefined) return response.writeHead(200).end('ok') // any 2xx accepts a notification
    const answer = of[String(method)] ?? { error: { code: -32601, message: 'Method not found' } }
    response.setHeader('content-type', 'application/json')
    response.end(JSON.stringify({ jsonrpc: '2.0', id, ...answer }).replaceAll('"NaN"', 'NaN'))
  })
  const client = new McpClient({ url: server.url })
  const dispose = client.dispose.bind(client)
  client.dispose = async () => {
    await dispose()
    await server[Symbol.asyncDispose]()
  }
  return client
}

const tool = (fields: Answer): Answer => ({
  result: {
    tools: [{ name: 'pay', inputSchema: input, ...fields }],
    nextCursor: null,
    _meta: null,
  },
})

describe.each(kinds)('%s', (kind) => {
  test.each([
    { title: null, description: null, annotations: null, icons: null, execution: null, _meta: [] },
    { inputSchema: { type: 'object', properties: [], required: null } },
    { inputSchema: [] },
    { inputSchema: { type: 'object', properties: { a: { type: 'string', title: null } } } },
    { outputSchema: null, annotations: { readOnlyHint: null } },
  ])('lists a tool with %j', async (fields) => {
    await using client = await odd(kind, { 'tools/list': tool(fields) })
    const [listed] = await client.listTools()
    expect(listed).toMatchObject({ name: 'pay', inputSchema: { type: 'object' } })
  })

  test.each([
    [{ result: { content: [{ type: 'text', text: 'paid', annotations: null }] } }, 'paid'],
    [{ result: { content: [{ type: 'text', text: 'paid' }] }, error: null }, 'paid'],
    [{ result: { content: [{ type: 'text', text: 'paid' }], isError: null, _meta: null } }, 'paid'],
    [{ result: { content: [{ type: 'text', text: 'paid' }], structuredContent: null } }, 'paid'],
    [{ result: { content: [{ type: 'error', text: 'no' }] } }, '{"type":"error","text":"no"}'],
    [{ result: { content: ['paid'] } }, 'paid'],
    [{ result: { content: ['paid'], structuredContent: { total: 'NaN' } } }, 'paid'],
    [{ result: { paid: true } }, '{"paid":true}'],
  ])('reads the result %j', async (answer, text) => {
    await using client = await odd(kind, { 'tools/list': tool({}), 'tools/call': answer })
    await client.listTools()
    expect((await client.callTool('pay')).content).toMatchObject([{ type: 'text', text }])
  })

  test('says that a tool has run whose result cannot be read, and keeps what came', async () => {
    const result = { content: 7 }
    await using client = await odd(kind, { 'tools/list': tool({}), 'tools/call': { result } })
    expect(await rejectionOf(client.callTool('pay'))).toMatchObject({
      code: 'UNEXPECTED_RESPONSE',
      outcome: 'executed',
      result,
    })
  })

  test('ends a call that is answered with something that is no JSON-RPC', async () => {
    await using client = await odd(kind, {
      'tools/list': tool({}),
      'tools/call': { result: 'paid' },
    })
    await client.listTools()
    expect(await rejectionOf(client.callTool('pay'))).toMatchObject({
      code: 'UNEXPECTED_RESPONSE',
      outcome: 'unknown',
    })
  })

  test('reads lists of resources and prompts', async () => {
    await using client = await odd(kind, {
      'resources/list': { result: { resources: [{ uri: 'a:b', name: 'a', size: null }] } },
      'prompts/list': { result: { prompts: [{ name: 'p', arguments: null }], nextCursor: null } },
      'resources/read': { result: { contents: [{ uri: 'a:b', text: 'x', blob: null }] } },
      'prompts/get': { result: { messages: [{ role: 'user', content: 'hi' }], description: null } },
    })
    expect(await client.listResources()).toMatchObject([{ uri: 'a:b' }])
    expect(await client.listPrompts()).toMatchObject([{ name: 'p' }])
    expect((await client.readResource('a:b')).contents).toMatchObject([{ text: 'x' }])
    expect((await client.getPrompt('p')).messages).toMatchObject([{ content: { text: 'hi' } }])
  })
})

import { startLegacyServer, startModernServer, startRecordingProxy } from '@x/mcp-testing'
import { describe, expect, test } from 'vitest'
import { createMcpTools, type ToolLogEntry } from '../src/index.ts'

const isObject = (value: unknown): boolean => typeof value === 'object' && !Array.isArray(value)
const content = [{ type: 'text', text: 'two books' }]
const outputSchema = {
  type: 'object',
  properties: { total: { type: 'integer' } },
  required: ['total'],
}

interface Called {
  readonly status: string
  readonly content: unknown
  readonly artifact: unknown
}

/** Calls the tool `count` twice. It answers with this result, and declares this schema for it. */
async function call(
  start: typeof startLegacyServer | typeof startModernServer,
  result: Readonly<Record<string, unknown>>,
  {
    schema = outputSchema,
    session,
  }: {
    readonly schema?: Readonly<Record<string, unknown>>
    readonly session?: 'thread'
  } = {},
): Promise<{ readonly message: Called; readonly entries: ToolLogEntry[] }> {
  await using server = await start({ tools: [{ name: 'count', run: () => ({ ...result }) }] })
  await using proxy = await startRecordingProxy(server.url)
  // The test servers would check their own results.
  const tools = [{ name: 'count', inputSchema: { type: 'object' }, outputSchema: schema }]
  const list = { tools, resultType: 'complete', ttlMs: 0, cacheScope: 'private' }
  proxy.inject({
    match: ({ rpcMethod }) => rpcMethod === 'tools/list',
    action: { status: 200, body: (id) => JSON.stringify({ jsonrpc: '2.0', id, result: list }) },
  })
  const entries: ToolLogEntry[] = []
  const log = (entry: ToolLogEntry): unknown => entries.push(entry)
  await using mcp = createMcpTools({ servers: { shop: proxy.url }, session, log })
  const [tool] = await mcp.listTools()
  const messages: unknown[] = []
  for (const id of ['c1', 'c2']) {
    const config = { configurable: { thread_id: id } }
    messages.push(await tool?.invoke({ type: 'tool_call', id, name: 'count', args: {} }, config))
  }
  expect(server.executions('count')).toBe(2)
  return { message: messages[1] as Called, entries }
}

describe.each([
  ['with sessions', startLegacyServer],
  ['of 2026-07-28', startModernServer],
])('a result of a server %s', (_era, start) => {
  test.each([
    ['a field of another type', { total: 'two' }],
    ['another shape (salesagent#1710)', { result: { total: 2 } }],
    ['an empty object', {}],
    ['a list (zoteus#83)', [{ total: 2 }]],
    ['a text', '{"total":2}'],
  ])('keeps its text, with a note, if its structured content is %s', async (_what, structured) => {
    const { message } = await call(start, { content, structuredContent: structured })
    expect(message).toMatchObject({
      status: 'success',
      content: expect.stringMatching(/^two books\n\[.*does not fit/),
    })
    expect(message.artifact).toContainEqual({ type: 'mcp_content', data: content })
    expect(message.artifact).toContainEqual({
      type: 'mcp_structured_content',
      data: isObject(structured) ? structured : { result: structured },
    })
  })

  test.each([
    ['absent (n8n-mcp#343)', {}],
    ['null', { structuredContent: null }],
  ])('is left alone, with one warning, if its structured content is %s', async (_what, given) => {
    const { message, entries } = await call(start, { content, ...given })
    expect(message).toMatchObject({ status: 'success', content: 'two books' })
    expect(entries).toEqual([
      expect.objectContaining({
        code: 'CLIENT_WARNING',
        message: expect.stringMatching(/"count".*no structured content/),
      }),
    ])
  })

  test('is checked in the session of a thread, which has not read the list', async () => {
    const result = { content, structuredContent: { total: 'two' } }
    const { message } = await call(start, result, { session: 'thread' })
    expect(message.content).toMatch(/^two books\n\[.*does not fit/)
  })

  test('shows structured content that does not fit, if there is no other content', async () => {
    const { message } = await call(start, { content: [], structuredContent: { total: 'two' } })
    expect(message).toMatchObject({
      status: 'success',
      content: expect.stringMatching(/^\{"total":"two"\}\n\[.*#\/total/),
    })
  })

  test('stays a failure of the tool, without a note', async () => {
    const failed = { content, structuredContent: { total: 'two' }, isError: true }
    const { message } = await call(start, failed)
    expect(message).toMatchObject({ status: 'error', content: 'two books' })
  })

  test.each([
    ['a schema that cannot be evaluated', { type: 'object', $ref: '#/nowhere' }],
    ['a schema in another document', { type: 'object', $ref: 'https://elsewhere.example/total' }],
    [
      'a schema of draft-07',
      {
        $schema: 'http://json-schema.org/draft-07/schema#',
        type: 'object',
        definitions: { total: { type: 'integer' } },
        properties: { total: { $ref: '#/definitions/total' } },
      },
    ],
  ])('that fits %s has no note', async (_what, schema) => {
    const result = { content, structuredContent: { total: 2 } }
    const { message, entries } = await call(start, result, { schema })
    expect(message).toMatchObject({ status: 'success', content: 'two books' })
    expect(entries).toEqual([])
  })
})

import { ToolMessage } from '@langchain/core/messages'
import { runInSessionScope } from '@x/mcp-client'
import { McpError } from '@modelcontextprotocol/sdk/types.js'
import { expect, test } from 'vitest'
import type { McpTool, McpToolFields } from './tools/mcp-tool.ts'
import { toolFrom } from '../test/answering-source.ts'
import type { ToolResult } from './tool-source.ts'

const TOKEN = 'tok-1234567890'

interface Subject {
  readonly tool: McpTool
  readonly sent: unknown[]
  readonly call: (args: Record<string, unknown>) => Promise<unknown>
}

function subject(
  argumentProperties: Readonly<Record<string, unknown>>,
  { answer, ...more }: Partial<McpToolFields> & { readonly answer?: ToolResult | Error } = {},
): Subject {
  const sent: unknown[] = []
  const result = answer ?? { content: [{ type: 'text', text: 'done' }] }
  const tool = toolFrom({
    name: 'pay',
    definition: {
      name: 'pay',
      inputSchema: {
        type: 'object',
        properties: {
          amount: { type: 'integer' },
          token: { type: 'string', maxLength: 20 },
          tenant: { type: 'string' },
        },
        required: ['amount', 'token'],
      },
    },
    server: { slug: 'bank' },
    source: {
      listTools: () => Promise.resolve([]),
      callTool: (_name, args) => {
        sent.push(args)
        return result instanceof Error ? Promise.reject(result) : Promise.resolve(result)
      },
    },
    argumentProperties,
    log: () => {},
    ...more,
  })
  const call = (args: Record<string, unknown>): Promise<unknown> =>
    tool.invoke({ type: 'tool_call', id: 'c1', name: 'pay', args })
  return { tool, sent, call }
}

const secret = { '$.token': { variant: 'static', value: TOKEN, isSensitive: true } }

test('does not require an argument that has a property', async () => {
  const { call, sent } = subject(secret)
  await expect(call({ amount: 2 })).resolves.toMatchObject({ status: 'success' })
  expect(sent).toEqual([{ amount: 2, token: TOKEN }])
})

test("repairs the model's arguments, but no configured ones", async () => {
  const { call, sent } = subject(secret)
  await call({ amount: '2', tenant: null, token: null })
  expect(sent).toEqual([{ amount: 2, token: TOKEN }])
  const text = subject({ '$.amount': { variant: 'static', value: '2' } })
  await expect(text.call({ token: 'x' })).rejects.toMatchObject({ code: 'INVALID_STATIC_ARGUMENT' })
  expect(text.sent).toEqual([])
})

test('shows the model the arguments that it wrote if they do not fit', async () => {
  const { call, sent } = subject({})
  await expect(call({ amount: 'two', token: 't', tenant: null })).rejects.toMatchObject({
    message: expect.stringContaining('#/amount'),
    output: JSON.stringify({ amount: 'two', token: 't', tenant: null }),
  })
  expect(sent).toEqual([])
})

test("still checks the model's arguments, without configured values in the error", async () => {
  const { call, sent } = subject(secret)
  const error: unknown = await call({ amount: 'two' }).catch((reason: unknown) => reason)
  expect(error).toMatchObject({
    message: expect.stringMatching(/#\/amount/),
    output: '{"amount":"two"}',
  })
  expect(JSON.stringify(error)).not.toContain(TOKEN)
  expect(sent).toEqual([])
})

test.each([
  ['a value that does not fit', { '$.token': { variant: 'static', value: 'x'.repeat(21) } }],
  ['a value that is missing', { '$.token': { variant: 'argument', argumentPath: '$.token' } }],
  [
    'a secret that does not fit',
    { '$.token': { variant: 'static', value: 77_777, isSensitive: true } },
  ],
])('throws %s to the developer, without a message for the model', async (_, properties) => {
  const { call, sent } = subject(properties)
  const error: unknown = await call({ amount: 2 }).catch((reason: unknown) => reason)
  expect(error).toMatchObject({ code: 'INVALID_STATIC_ARGUMENT', outcome: 'not-executed' })
  expect(error).toMatchObject({ message: expect.stringMatching(/"pay".*"\$\.token"/) })
  expect(String(error)).not.toContain('77777')
  expect(sent).toEqual([])
})

test('hides a secret that the server repeats from the model', async () => {
  const result: ToolResult = {
    content: [{ type: 'text', text: `paid with ${TOKEN}` }],
    structuredContent: { token: TOKEN, paid: true },
    _meta: { echo: [TOKEN] },
  }
  const message = await subject(secret, { answer: result }).call({ amount: 2 })
  expect(message).toMatchObject({ content: 'paid with <hidden>' })
  expect(ToolMessage.isInstance(message)).toBe(true)
  expect(JSON.stringify(message)).not.toContain(TOKEN)
})

test('hides a secret in an error of the server and its cause', async () => {
  const answer = new McpError(-32_602, `the token ${TOKEN} has expired`)
  const { call } = subject(secret, { answer, options: { onToolError: 'throw' } })
  const error: unknown = await call({ amount: 2 }).catch((reason: unknown) => reason)
  expect(error).toMatchObject({ code: 'SERVER_ERROR', serverSlug: 'bank', toolName: 'pay' })
  expect(String(error)).toContain('the token <hidden> has expired')
  expect(error).not.toHaveProperty('cause', answer)
})

test('keeps the cause of an error without secrets', async () => {
  const answer = new McpError(-32_602, 'no money')
  const { call } = subject(secret, { answer, options: { onToolError: 'throw' } })
  await expect(call({ amount: 2 })).rejects.toMatchObject({ cause: answer })
})

test('calls the input resolver with the config of the call', async () => {
  const { tool, sent } = subject(
    { ...secret, '$.tenant': { variant: 'argument', argumentPath: '$.tenant' } },
    {
      options: {
        input: ({ configurable }) =>
          Promise.resolve({ tenant: configurable?.['tenant'] as unknown }),
      },
    },
  )
  await tool.invoke({ amount: 1 }, { configurable: { tenant: 'acme' } })
  await tool.invoke({ amount: 1, tenant: 'mine' }, { configurable: {} })
  expect(sent).toEqual([
    { amount: 1, token: TOKEN, tenant: 'acme' },
    { amount: 1, token: TOKEN },
  ])
})

test('calls the input resolver once per run', async () => {
  let asked = 0
  const { tool, sent } = subject(
    { ...secret, '$.tenant': { variant: 'argument', argumentPath: '$.tenant' } },
    { options: { input: () => ({ tenant: `t${++asked}` }) } },
  )
  await runInSessionScope(async () => {
    await Promise.all([tool.invoke({ amount: 1 }), tool.invoke({ amount: 1 })])
    await tool.invoke({ amount: 1 })
  })
  await tool.invoke({ amount: 1 })
  expect(sent).toMatchObject([
    { tenant: 't1' },
    { tenant: 't1' },
    { tenant: 't1' },
    { tenant: 't2' },
  ])
})

test('passes the whole call to interceptors', async () => {
  const seen: unknown[] = []
  const { call } = subject(secret, {
    options: {
      interceptors: [
        (request, next) => {
          seen.push(request.args)
          return next()
        },
      ],
    },
  })
  await call({ amount: 2 })
  expect(seen).toEqual([{ amount: 2, token: TOKEN }])
})

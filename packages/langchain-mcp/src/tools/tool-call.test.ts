import { ToolMessage } from '@langchain/core/messages'
import { McpClientError } from '@x/mcp-client'
import type { ToolResult } from '../tool-source.ts'
import type { ToolInterceptor } from './interceptors.ts'
import { ToolCaller } from '../graph/live-call.ts'
import { noAnswerError } from '../graph/call-outcome.ts'
import { describe, expect, test } from 'vitest'
import { AnsweringSource, textResult, toolCall, toolOver } from '../../test/answering-source.ts'

describe('a tool that reports an error', () => {
  const failing = textResult('no such item', {
    isError: true,
    structuredContent: { code: 404 },
    _meta: { trace: 'x' },
  })

  test('returns a message with status error and the structured part', async () => {
    const tool = toolOver(new AnsweringSource(failing))
    const message: unknown = await tool.invoke(toolCall({ item: 'x' }))
    expect(message).toBeInstanceOf(ToolMessage)
    expect(message).toMatchObject({
      status: 'error',
      content: 'no such item',
      tool_call_id: 'call-1',
      artifact: [
        { type: 'mcp_structured_content', data: { code: 404 } },
        { type: 'mcp_meta', data: { trace: 'x' } },
        { type: 'mcp_content' },
      ],
    })
    await expect(tool.invoke({ item: 'x' })).resolves.toBe('no such item') // without a call
  })

  test('returns "Unknown error" without a text', async () => {
    const source = new AnsweringSource({ content: [], isError: true })
    expect(await toolOver(source).invoke(toolCall({ item: 'x' }))).toMatchObject({
      status: 'error',
      content: 'Unknown error',
    })
  })

  test("is thrown with 'throw', with the server's artifact", async () => {
    const tool = toolOver(new AnsweringSource(failing), {}, { onToolError: 'throw' })
    await expect(tool.invoke(toolCall({ item: 'x' }))).rejects.toMatchObject({
      name: 'McpToolError',
      code: 'TOOL_FAILED',
      outcome: 'executed',
      serverSlug: 'shop',
      toolName: 'add item',
      artifact: [{ type: 'mcp_structured_content' }, { type: 'mcp_meta' }, { type: 'mcp_content' }],
    })
  })

  test('has the text of a handler, and keeps its artifact', async () => {
    const onToolError = (): string => 'Ask somebody else'
    const tool = toolOver(new AnsweringSource(failing), {}, { onToolError })
    expect(await tool.invoke(toolCall({ item: 'x' }))).toMatchObject({
      status: 'error',
      content: 'Ask somebody else',
      artifact: [{ type: 'mcp_structured_content' }, { type: 'mcp_meta' }, { type: 'mcp_content' }],
    })
  })

  test('calls a handler once, also if the handler throws', async () => {
    const asked: unknown[] = []
    const refusal = new Error('not here')
    const onToolError = (error: unknown): never => {
      asked.push(error)
      throw refusal
    }
    const tool = toolOver(new AnsweringSource(failing), {}, { onToolError })
    await expect(tool.invoke(toolCall({ item: 'x' }))).rejects.toBe(refusal)
    expect(asked).toMatchObject([{ code: 'TOOL_FAILED' }])
  })
})

test.each([
  [
    { content: [{ type: 'text', text: '2' }], _meta: 'none' },
    'success',
    /^2\n\[it is unreadable\]$/,
  ],
  [{ content: [{ type: 'text', text: 'no' }], isError: true, _meta: 1 }, 'error', /^no\n\[/],
  [{ total: 2 }, 'error', /was executed.*it is unreadable/],
])('an invalid result (%j) is shown as far as it can be read', async (result, status, text) => {
  const about = { server: 'shop', outcome: 'executed', result } as const
  const error = new McpClientError('UNEXPECTED_RESPONSE', 'it is unreadable', about)
  const message: unknown = await toolOver(new AnsweringSource(error)).invoke(
    toolCall({ item: 'x' }),
  )
  expect(message).toMatchObject({ status, content: expect.stringMatching(text) })
})

test('a result that does not fit its own schema is shown, with a note', async () => {
  const result = textResult('2', { structuredContent: { total: 'two' } })
  const about = { server: 'shop', outcome: 'executed', result } as const
  const source = new AnsweringSource(new McpClientError('INVALID_OUTPUT', 'total is text', about))
  expect(await toolOver(source).invoke(toolCall({ item: 'x' }))).toMatchObject({
    status: 'success',
    content: '2\n[total is text]',
    artifact: [{ type: 'mcp_structured_content', data: { total: 'two' } }, { type: 'mcp_content' }],
  })
})

test.each([
  ['INVALID_OUTPUT', 'INVALID_OUTPUT'],
  ['UNEXPECTED_RESPONSE', 'HTTP_ERROR'],
] as const)(
  "with onToolError: 'throw', a result that does not fit (%s) is the artifact of an error %s",
  async (cause, code) => {
    const result = textResult('2', { structuredContent: { total: 'two' } })
    const about = { server: 'shop', outcome: 'executed', result } as const
    const source = new AnsweringSource(new McpClientError(cause, 'total is text', about))
    const tool = toolOver(source, {}, { onToolError: 'throw' })
    await expect(tool.invoke(toolCall({ item: 'x' }))).rejects.toMatchObject({
      code,
      outcome: 'executed',
      artifact: result,
    })
  },
)

test('a function as onToolError is not asked about a result that can be read', async () => {
  const result = textResult('2', { structuredContent: { total: 'two' } })
  const about = { server: 'shop', outcome: 'executed', result } as const
  const source = new AnsweringSource(new McpClientError('INVALID_OUTPUT', 'total is text', about))
  const tool = toolOver(source, {}, { onToolError: () => 'Ask somebody else' })
  expect(await tool.invoke(toolCall({ item: 'x' }))).toMatchObject({
    status: 'success',
    content: '2\n[total is text]',
  })
})

describe('a question of the server that got no answer', () => {
  const broken = textResult('2', { structuredContent: { total: 'two' } })
  const about = { server: 'shop', outcome: 'executed', result: broken } as const
  const invalidOutput = new McpClientError('INVALID_OUTPUT', 'total is text', about)
  const unreachable = new McpClientError('UNREACHABLE', 'the server is away', { server: 'shop' })

  /** Asks without an answer in the first call. Fails with these errors, one for each call. */
  class AskingSource extends AnsweringSource {
    readonly #failures: Error[]

    constructor(...failures: Error[]) {
      super()
      this.#failures = failures
    }

    override async callTool(...call: Parameters<AnsweringSource['callTool']>): Promise<ToolResult> {
      const caller = call[2]?.caller
      if (this.calls.length === 0 && caller instanceof ToolCaller) {
        caller.unanswered = noAnswerError(caller.origin, 'elicitation/create')
      }
      const answer = await super.callTool(...call)
      const failure = this.#failures.shift()
      if (failure !== undefined) throw failure
      return answer
    }
  }

  test('is the failure, and not the error that the server made of it', async () => {
    const tool = toolOver(new AskingSource(unreachable))
    expect(await tool.invoke({ item: 'x' })).toMatch(/needs input \(elicitation\/create\)/)
  })

  test('does not hide a result that breaks its schema', async () => {
    const tool = toolOver(new AskingSource(invalidOutput))
    expect(await tool.invoke({ item: 'x' })).toBe('2\n[total is text]')
  })

  test('does not hide the failure of a second call of an interceptor', async () => {
    const twice: ToolInterceptor = async (_request, next) => {
      try {
        return await next()
      } catch {
        return next()
      }
    }
    const source = new AskingSource(unreachable, unreachable)
    const tool = toolOver(source, {}, { interceptors: [twice] })
    expect(await tool.invoke({ item: 'x' })).toMatch(/The server cannot be reached/)
  })
})

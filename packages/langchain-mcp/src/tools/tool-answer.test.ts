import { ToolMessage } from '@langchain/core/messages'
import { describe, expect, test } from 'vitest'
import { AnsweringSource, textResult, toolCall, toolOver } from '../../test/answering-source.ts'

describe('a tool that reports an error', () => {
  const failing = textResult('no such item', {
    isError: true,
    structuredContent: { code: 404 },
    _meta: { trace: 'x' },
  })

  test('gives a message with status error that keeps the structured part', async () => {
    const message: unknown = await toolOver(new AnsweringSource(failing)).invoke(
      toolCall({ item: 'x' }),
    )
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
  })

  test('gives its text to a plain invoke', async () => {
    await expect(toolOver(new AnsweringSource(failing)).invoke({ item: 'x' })).resolves.toBe(
      'no such item',
    )
  })

  test('without a word says "Unknown error"', async () => {
    const source = new AnsweringSource({ content: [], isError: true })
    expect(await toolOver(source).invoke(toolCall({ item: 'x' }))).toMatchObject({
      status: 'error',
      content: 'Unknown error',
    })
  })

  test('is thrown where that is asked for, with what the server sent', async () => {
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

  test('asks a handler once, also where it throws', async () => {
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

describe('structured results', () => {
  const outputSchema = { type: 'object', properties: { total: { type: 'number' } } }

  test('that fit the declared schema pass', async () => {
    const source = new AnsweringSource(textResult('2', { structuredContent: { total: 2 } }))
    await expect(toolOver(source, { outputSchema }).invoke({ item: 'x' })).resolves.toBe('2')
  })

  test('that do not fit are told as such, with the raw result at hand', async () => {
    const source = new AnsweringSource(textResult('2', { structuredContent: { total: 'two' } }))
    expect(await toolOver(source, { outputSchema }).invoke(toolCall({ item: 'x' }))).toMatchObject({
      status: 'error',
      content: expect.stringMatching(/was executed.*#\/total.*It answered: 2/),
      artifact: [{ type: 'mcp_structured_content', data: { total: 'two' } }, {}],
    })
  })
})

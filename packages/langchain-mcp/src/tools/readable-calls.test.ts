import { AIMessage } from '@langchain/core/messages'
import { describe, expect, test } from 'vitest'
import { readCalls } from './readable-calls.ts'

const fence = '```'

/** A message with one call whose arguments LangChain could not read. */
function unread(
  args?: string,
  name = 'add_item',
  metadata: Record<string, unknown> = { finish_reason: 'tool_calls', max_tokens: 100 },
): AIMessage {
  return new AIMessage({
    content: '',
    invalid_tool_calls: [
      { type: 'invalid_tool_call', id: 'c1', name, ...(args !== undefined && { args }) },
    ],
    response_metadata: metadata,
  })
}

describe('a call that LangChain could not read', () => {
  test.each<[string | undefined, Record<string, unknown>]>([
    [undefined, {}],
    ['', {}],
    ['null', {}],
    ['[]', {}],
    ['{"item":"x",}', { item: 'x' }],
    [`${fence}json\n{"item":"x"}\n${fence}`, { item: 'x' }],
    [JSON.stringify('{"item":"x"}'), { item: 'x' }],
  ])('is read: %j', (args, expected) => {
    const message = unread(args)
    readCalls(message, new Set(['add_item']))
    expect(message.tool_calls).toEqual([
      { type: 'tool_call', id: 'c1', name: 'add_item', args: expected },
    ])
    expect(message.invalid_tool_calls).toEqual([])
  })

  test.each([
    ['its JSON is cut', unread('{"item":"x')],
    ['it has no object', unread('7')],
    ['another tool is called', unread('', 'other')],
    ...[
      { finish_reason: 'length' },
      { stop_reason: 'max_tokens' },
      { finishReason: 'MAX_TOKENS' },
      { done_reason: 'length' },
      { messageStop: { stopReason: 'max_tokens' } },
      { incomplete_details: { reason: 'max_output_tokens' } },
      { finish_reason: 'content_filter' },
    ].map((metadata): [string, AIMessage] => [
      `the message was cut: ${JSON.stringify(metadata)}`,
      unread('', 'add_item', metadata),
    ]),
  ])('stays if %s', (_why, message) => {
    readCalls(message, new Set(['add_item']))
    expect(message.tool_calls).toEqual([])
    expect(message.invalid_tool_calls).toHaveLength(1)
  })
})

import { ToolMessage } from '@langchain/core/messages'
import { expect, test } from 'vitest'
import { toToolResult } from './tool-result.ts'

function messageWith(blocks: readonly unknown[], structured?: unknown): ToolMessage {
  return new ToolMessage({
    tool_call_id: 'a',
    content: 'for the model',
    artifact: [
      { type: 'mcp_content', data: blocks },
      { type: 'mcp_structured_content', data: structured },
    ],
  })
}

const MEBIBYTE = 1_048_576
const LINK = { type: 'resource_link', uri: 'https://shop.example/1', name: 'receipt' } as const

test('returns the blocks and the structured content of the server', () => {
  const blocks = [
    { type: 'text', text: 'a' },
    { type: 'image', mimeType: 'image/png', data: 'AAAA' },
    { type: 'resource', resource: { uri: 'file:///a', text: 'b' } },
    LINK,
  ]
  expect(toToolResult(messageWith(blocks, { a: 1 }))).toEqual({
    isError: false,
    content: blocks,
    structuredContent: { a: 1 },
  })
})

test('returns the text of a tool that is not from a server', () => {
  const message = new ToolMessage({ tool_call_id: 'a', content: 'no', status: 'error' })
  expect(toToolResult(message)).toMatchObject({
    isError: true,
    content: [{ type: 'text', text: 'no' }],
  })
})

test('stays small for a result of 10 MiB', () => {
  const image = { type: 'image', mimeType: 'image/png', data: 'A'.repeat(4 * MEBIBYTE) }
  const many = Array.from({ length: 5000 }, () => LINK)
  const blocks = [
    { type: 'text', text: 'a'.repeat(10 * MEBIBYTE) },
    image,
    { type: 'new' },
    ...many,
  ]
  const { content, structuredContent } = toToolResult(
    messageWith(blocks, { a: 'a'.repeat(30_000) }),
  )
  expect(structuredContent).toBeUndefined()
  expect(content).toHaveLength(102)
  expect(content.slice(1, 3)).toEqual([
    { type: 'text', text: 'A block of type image has 4.0 MiB of JSON and is not shown.' },
    { type: 'text', text: '{"type":"new"}' },
  ])
  expect(content.slice(-2)).toEqual([
    { type: 'text', text: '4903 more blocks are not shown.' },
    { type: 'text', text: 'Structured content of 30008 characters is not shown.' },
  ])
  expect(JSON.stringify(content).length).toBeLessThan(40_000)
})

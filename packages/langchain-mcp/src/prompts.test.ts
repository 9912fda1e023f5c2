import { expect, test } from 'vitest'
import { loadMcpPrompt } from './prompts.ts'
import type { McpPromptSource, PromptResult } from './tool-source.ts'

const PIXEL = 'iVBORw0KGgo='

function sourceOf(...messages: PromptResult['messages']): McpPromptSource {
  return { getPrompt: () => Promise.resolve({ messages }) }
}

test('turns roles into human and AI messages', async () => {
  const messages = await loadMcpPrompt(
    sourceOf(
      { role: 'user', content: { type: 'text', text: 'Who are you?' } },
      { role: 'assistant', content: { type: 'text', text: 'A shop.' } },
    ),
    'introduce',
  )
  expect(messages.map((message) => [message.getType(), message.content])).toEqual([
    ['human', 'Who are you?'],
    ['ai', 'A shop.'],
  ])
})

test.each([
  [
    'an image',
    { type: 'image', data: PIXEL, mimeType: 'image/png' },
    { type: 'image', data: PIXEL, mimeType: 'image/png' },
  ],
  [
    'an embedded text',
    { type: 'resource', resource: { uri: 'file:///a', text: 'A' } },
    { type: 'text', text: 'Resource file:///a:\nA' },
  ],
])('turns %s into a standard block', async (_, content, block) => {
  const [message] = await loadMcpPrompt(sourceOf({ role: 'user', content }), 'show')
  expect(message?.contentBlocks).toMatchObject([block])
})

test('passes arguments and request options to the server', async () => {
  const asked: unknown[] = []
  const source: McpPromptSource = {
    getPrompt: (...request) => {
      asked.push(request)
      return Promise.resolve({ messages: [] })
    },
  }
  await loadMcpPrompt(source, { name: 'greet', timeoutMs: 5000 }, { name: 'Ada' })
  expect(asked).toEqual([['greet', { name: 'Ada' }, { timeoutMs: 5000 }]])
})

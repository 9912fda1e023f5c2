import { AIMessage } from '@langchain/core/messages'
import { fakeModel } from '@langchain/core/testing'
import { expect, test } from 'vitest'
import { samplingWith } from './handlers.ts'

const context = { signal: new AbortController().signal, scope: undefined }
const request = {
  messages: [{ role: 'user', content: { type: 'text', text: 'Say hello' } }],
  maxTokens: 5,
} as const

test.each([
  ['OpenAI, cut', { finish_reason: 'length' }, 'maxTokens'],
  ['Anthropic, cut', { stop_reason: 'max_tokens' }, 'maxTokens'],
  ['Google, cut', { finishReason: 'MAX_TOKENS' }, 'maxTokens'],
  ['Anthropic, at a given text', { stop_reason: 'stop_sequence' }, 'stopSequence'],
  ['OpenAI, at its end', { finish_reason: 'stop' }, 'endTurn'],
])('returns the stop reason of MCP (%s)', async (_, metadata, stopReason) => {
  const answer = new AIMessage({ content: 'Hello', response_metadata: metadata })
  const sampling = samplingWith(fakeModel().respond(answer), { approve: () => true })
  expect(await sampling({ ...request, messages: [...request.messages] }, context)).toMatchObject({
    content: { type: 'text', text: 'Hello' },
    stopReason,
  })
})

test.each([{}, { finish_reason: 'content_filter' }])(
  'returns no stop reason if it is unknown (%j)',
  async (metadata) => {
    const answer = new AIMessage({ content: 'Hello', response_metadata: metadata })
    const sampling = samplingWith(fakeModel().respond(answer), { approve: () => true })
    const result = await sampling({ ...request, messages: [...request.messages] }, context)
    expect(result).not.toHaveProperty('stopReason')
  },
)

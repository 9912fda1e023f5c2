// What LangChain's converters of providers do with the blocks of a result. Nothing is sent.
import { convertPromptToAnthropic } from '@langchain/anthropic'
import { AIMessage, HumanMessage, ToolMessage } from '@langchain/core/messages'
import { ChatPromptValue } from '@langchain/core/prompt_values'
import {
  convertMessagesToCompletionsMessageParams,
  convertMessagesToResponsesInput,
} from '@langchain/openai'
import { describe, expect, test } from 'vitest'
import type { SchemaProjection } from '../src/index.ts'
import { AnsweringSource, toolCall, toolOver } from './answering-source.ts'

const base64 = (text: string): string => Buffer.from(text, 'latin1').toString('base64')
const image = base64('\x89PNG\r\n\x1A\n data')
const pdf = base64('%PDF-1.7 data')
const content = [
  { type: 'text', text: 'a\uD83Db' },
  { type: 'image', data: image, mimeType: 'image/*' },
  { type: 'image', data: base64('<svg/>'), mimeType: 'image/svg+xml' },
  { type: 'resource', resource: { uri: 'file:///a', blob: pdf, mimeType: 'application/pdf' } },
]

/** The thread of a model that has called a tool. */
async function threadFor(projection: SchemaProjection | undefined, answer = { content }) {
  const tool = toolOver(new AnsweringSource(answer), {}, { schemaFor: projection })
  const call = toolCall({ item: 'x' })
  const result: unknown = await tool.invoke(call)
  if (!(result instanceof ToolMessage)) throw new TypeError('There is no message')
  return [new HumanMessage('Go'), new AIMessage({ content: '', tool_calls: [call] }), result]
}

const note = (type: string): unknown =>
  expect.stringMatching(new RegExp(`^\\[Left out: \\w+ \\(.*${type}`))

test('Anthropic gets text, the image with its type, notes, and PDF', async () => {
  const thread = await threadFor('anthropic')
  const { messages } = convertPromptToAnthropic(new ChatPromptValue(thread))
  const source = { type: 'base64', media_type: 'image/png', data: image }
  expect(messages.at(-1)?.content).toMatchObject([
    {
      type: 'tool_result',
      content: [
        { type: 'text', text: 'a\uFFFDb' },
        { type: 'image', source },
        { type: 'text', text: note('svg') },
        { type: 'document', source: { media_type: 'application/pdf', data: pdf } },
      ],
    },
  ])
})

test('the Responses API of OpenAI gets text, the image with its type, and notes', async () => {
  const messages = await threadFor(undefined)
  const input = convertMessagesToResponsesInput({ messages, model: 'gpt-5', zdrEnabled: false })
  expect(input.at(-1)).toMatchObject({
    type: 'function_call_output',
    output: [
      { type: 'input_text', text: 'a\uFFFDb' },
      { type: 'input_image', image_url: `data:image/png;base64,${image}` },
      { type: 'input_text', text: note('svg') },
      { type: 'input_text', text: note('pdf') },
    ],
  })
})

describe('Chat Completions of OpenAI', () => {
  test('gets one text, and notes, as text', async () => {
    const answer = { content: content.filter(({ data }) => data !== image) }
    const messages = await threadFor('openai', answer)
    expect(convertMessagesToCompletionsMessageParams({ messages }).at(-1)).toMatchObject({
      role: 'tool',
      content: expect.stringMatching(
        /^a\uFFFDb\n\[Left out: image .*svg.*\n\[Left out: file .*pdf/,
      ),
    })
  })
})

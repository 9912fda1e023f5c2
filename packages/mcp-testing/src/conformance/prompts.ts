import type { GetPromptResult, McpServer } from '@modelcontextprotocol/server'
import { acceptedContent, inputRequired } from '@modelcontextprotocol/server'
import { z } from 'zod'
import { PIXEL } from './pixel.ts'

type Content = GetPromptResult['messages'][number]['content']

/** Prompts without and with arguments, with a resource and with an image in them. */
export function addPrompts(mcp: McpServer): void {
  mcp.registerPrompt('test_simple_prompt', { description: 'Says one sentence.' }, () =>
    said(text('This is a simple prompt for testing.')),
  )
  mcp.registerPrompt(
    'test_prompt_with_arguments',
    {
      description: 'Repeats its arguments.',
      argsSchema: z.object({ arg1: z.string(), arg2: z.string() }),
    },
    ({ arg1, arg2 }) => said(text(`Prompt with arguments: arg1='${arg1}', arg2='${arg2}'`)),
  )
  mcp.registerPrompt(
    'test_prompt_with_embedded_resource',
    {
      description: 'Holds the resource that it is given.',
      argsSchema: z.object({ resourceUri: z.string() }),
    },
    ({ resourceUri: uri }) => {
      const content = 'Embedded resource content for testing.'
      return said(
        { type: 'resource', resource: { uri, mimeType: 'text/plain', text: content } },
        text('Please process the embedded resource above.'),
      )
    },
  )
  mcp.registerPrompt('test_prompt_with_image', { description: 'Holds an image.' }, () =>
    said(
      { type: 'image', data: PIXEL, mimeType: 'image/png' },
      text('Please analyze the image above.'),
    ),
  )
}

/** A prompt that has to ask before it can be given. */
export function addAskingPrompt(mcp: McpServer): void {
  const user_context = inputRequired.elicit({
    message: 'What context should the prompt use?',
    requestedSchema: {
      type: 'object',
      properties: { context: { type: 'string' } },
      required: ['context'],
    },
  })
  mcp.registerPrompt(
    'test_input_required_result_prompt',
    { description: 'Asks for a context.' },
    ({ mcpReq }) => {
      const context = acceptedContent(mcpReq.inputResponses, 'user_context')?.['context']
      if (typeof context !== 'string') return inputRequired({ inputRequests: { user_context } })
      return said(text(`Context: ${context}`))
    },
  )
}

function text(value: string): Content {
  return { type: 'text', text: value }
}

function said(...contents: Content[]): GetPromptResult {
  return { messages: contents.map((content) => ({ role: 'user', content })) }
}

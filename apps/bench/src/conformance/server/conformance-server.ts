import type {
  CallToolResult,
  GetPromptResult,
  InputRequest,
  InputRequiredResult,
  Server,
  ServerContext,
} from '@modelcontextprotocol/server'
import {
  acceptedContent,
  CLIENT_CAPABILITIES_META_KEY,
  inputRequired,
  McpServer,
  ResourceTemplate,
} from '@modelcontextprotocol/server'
import { z } from 'zod'

/** One red pixel as a PNG image, in base64. */
const PIXEL =
  'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8DwHwAFBQIAX8jx0gAAAABJRU5ErkJggg=='

/**
 * Server with the tools, prompts and resources that scenarios of the official conformance suite expect,
 * where agents offer nothing of that kind. Serves one session, or one request of the modern era.
 */
export function conformanceServer(): Server {
  const mcp = new McpServer(
    { name: 'conformance-fixture', version: '1.0.0' },
    {
      capabilities: {
        tools: { listChanged: true },
        prompts: { listChanged: true },
        resources: { listChanged: true, subscribe: true },
      },
    },
  )
  addAskingTools(mcp)
  addLostStream(mcp)
  addResources(mcp)
  addPrompts(mcp)
  addAskingPrompt(mcp)
  return mcp.server
}

/** Tools that ask for the model, the roots or the user of their client. */
function addAskingTools(mcp: McpServer): void {
  mcp.registerTool(
    'test_sampling',
    { description: 'Asks the model of the client.', inputSchema: z.object({ prompt: z.string() }) },
    ({ prompt }, context) => answeredBy(context, { answer: sampling(prompt) }),
  )
  const asking = (name: string, requests: Readonly<Record<string, InputRequest>>): void => {
    mcp.registerTool(name, { description: `Asks for what ${name} needs.` }, (context) =>
      answeredBy(context, requests),
    )
  }
  asking('test_input_required_result_sampling', {
    capital_question: sampling('What is the capital of France?'),
  })
  asking('test_input_required_result_list_roots', { client_roots: inputRequired.listRoots() })
  mcp.registerTool(
    'test_input_required_result_multiple_inputs',
    { description: 'Asks for a name, a greeting and the roots at once, and keeps a state.' },
    (context) =>
      answeredBy(
        context,
        {
          user_name: nameForm(),
          greeting: sampling('Generate a greeting'),
          client_roots: inputRequired.listRoots(),
        },
        'asked for three',
      ),
  )
  mcp.registerTool(
    'test_input_required_result_elicitation',
    { description: 'Asks for a name, then greets the user by that name.' },
    (context) => greet(context),
  )
  mcp.registerTool(
    'test_input_required_result_capabilities',
    { description: 'Asks for every input that the client supports.' },
    (context) => answeredBy(context, answerable(context)),
  )
}

type Asking = CallToolResult | InputRequiredResult

function answeredBy(
  { mcpReq }: ServerContext,
  inputRequests: Readonly<Record<string, InputRequest>>,
  requestState?: string,
): Asking {
  const { inputResponses } = mcpReq
  const isComplete = Object.keys(inputRequests).every((key) => inputResponses?.[key] !== undefined)
  if (isComplete) return textResult(JSON.stringify(inputResponses))
  return inputRequired({ inputRequests, ...(requestState !== undefined && { requestState }) })
}

/** Greets the user by the name in the answers. Ignores other answers. */
function greet({ mcpReq }: ServerContext): Asking {
  const name = acceptedContent(mcpReq.inputResponses, 'user_name')?.['name']
  if (typeof name === 'string') return textResult(`Hello, ${name}!`)
  return inputRequired({ inputRequests: { user_name: nameForm() } })
}

function answerable(context: ServerContext): Readonly<Record<string, InputRequest>> {
  const capabilities = declaredCapabilities(context)
  return {
    ...(capabilities['elicitation'] !== undefined && { user_name: nameForm() }),
    ...(capabilities['sampling'] !== undefined && { greeting: sampling('Generate a greeting') }),
  }
}

function nameForm(): InputRequest {
  return inputRequired.elicit({
    message: 'What is your name?',
    requestedSchema: {
      type: 'object',
      properties: { name: { type: 'string' } },
      required: ['name'],
    },
  })
}

function sampling(prompt: string): InputRequest {
  return inputRequired.createMessage({
    messages: [{ role: 'user', content: { type: 'text', text: prompt } }],
    maxTokens: 100,
  })
}

function textResult(value: string): CallToolResult {
  return { content: [{ type: 'text', text: value }] }
}

/** Capabilities that a client of revision 2026-07-28 declares in the `_meta` of this request. */
function declaredCapabilities({ mcpReq }: ServerContext): Readonly<Record<string, unknown>> {
  const envelope: Readonly<Record<string, unknown>> = mcpReq.envelope ?? {}
  const capabilities = envelope[CLIENT_CAPABILITIES_META_KEY]
  return typeof capabilities === 'object' && capabilities !== null ? { ...capabilities } : {}
}

/** A tool that closes the stream of its own answer. A client gets the answer when it resumes the stream. */
function addLostStream(mcp: McpServer): void {
  mcp.registerTool(
    'test_reconnection',
    { description: 'Closes its stream before it answers.' },
    ({ http }) => {
      http?.closeSSE?.()
      return { content: [{ type: 'text', text: 'The client resumed the stream.' }] }
    },
  )
}

/** A text, an image, a resource to subscribe to, and a template. */
function addResources(mcp: McpServer): void {
  const textResource = (name: string, uri: string, content: string): void => {
    const mimeType = 'text/plain'
    mcp.registerResource(name, uri, { mimeType, description: `Text of ${name}.` }, () => ({
      contents: [{ uri, mimeType, text: content }],
    }))
  }
  textResource(
    'static-text',
    'test://static-text',
    'This is the content of the static text resource.',
  )
  textResource('watched', 'test://watched-resource', 'This may change.')
  const bytes = { mimeType: 'image/png', description: 'One red pixel.' }
  mcp.registerResource('static-binary', 'test://static-binary', bytes, (uri) => ({
    contents: [{ uri: uri.href, mimeType: 'image/png', blob: PIXEL }],
  }))
  mcp.registerResource(
    'template',
    new ResourceTemplate('test://template/{id}/data', { list: undefined }),
    { mimeType: 'application/json', description: 'Data by id.' },
    (uri, { id }) => {
      const data = { id, templateTest: true, data: `Data for ID: ${String(id)}` }
      return {
        contents: [{ uri: uri.href, mimeType: 'application/json', text: JSON.stringify(data) }],
      }
    },
  )
  mcp.server.setRequestHandler('resources/subscribe', () => ({}))
  mcp.server.setRequestHandler('resources/unsubscribe', () => ({}))
}

type Content = GetPromptResult['messages'][number]['content']

/** Prompts without and with arguments, with a resource and with an image in them. */
function addPrompts(mcp: McpServer): void {
  mcp.registerPrompt('test_simple_prompt', { description: 'Says one sentence.' }, () =>
    promptResult(text('This is a simple prompt for testing.')),
  )
  mcp.registerPrompt(
    'test_prompt_with_arguments',
    {
      description: 'Repeats its arguments.',
      argsSchema: z.object({ arg1: z.string(), arg2: z.string() }),
    },
    ({ arg1, arg2 }) => promptResult(text(`Prompt with arguments: arg1='${arg1}', arg2='${arg2}'`)),
  )
  mcp.registerPrompt(
    'test_prompt_with_embedded_resource',
    {
      description: 'Holds the resource that it is given.',
      argsSchema: z.object({ resourceUri: z.string() }),
    },
    ({ resourceUri: uri }) => {
      const content = 'Embedded resource content for testing.'
      return promptResult(
        { type: 'resource', resource: { uri, mimeType: 'text/plain', text: content } },
        text('Please process the embedded resource above.'),
      )
    },
  )
  mcp.registerPrompt('test_prompt_with_image', { description: 'Holds an image.' }, () =>
    promptResult(
      { type: 'image', data: PIXEL, mimeType: 'image/png' },
      text('Please analyze the image above.'),
    ),
  )
}

/** A prompt that asks for input before it answers. */
function addAskingPrompt(mcp: McpServer): void {
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
      return promptResult(text(`Context: ${context}`))
    },
  )
}

function text(value: string): Content {
  return { type: 'text', text: value }
}

function promptResult(...contents: Content[]): GetPromptResult {
  return { messages: contents.map((content) => ({ role: 'user', content })) }
}

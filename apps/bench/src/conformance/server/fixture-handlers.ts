import {
  acceptedContent,
  inputRequired,
  ProtocolError,
  ProtocolErrorCode,
  ResourceNotFoundError,
} from '@modelcontextprotocol/server'
import type {
  CallToolResult,
  GetPromptResult,
  InputRequest,
  InputResponses,
  ServerCapabilities,
} from '@modelcontextprotocol/server'
import type {
  HandlerParts,
  McpHandlers,
  McpResult,
} from '../../../../../packages/mcp-gateway/src/mcp/handlers.ts'
import type { Params } from '../../../../../packages/mcp-gateway/src/mcp/json-rpc.ts'
import type { RequestContext } from '../../../../../packages/mcp-gateway/src/mcp/request-context.ts'

type Questions = Readonly<Record<string, InputRequest>>
type Answers = InputResponses

/** A tool or prompt that asks the client before it answers. */
interface Asking {
  readonly questions: (params: Params, context: RequestContext) => Questions
  /** @default the answers as JSON */
  readonly answer?: (answers: Answers) => CallToolResult | GetPromptResult
}

/** One red pixel as a PNG image, in base64. */
const PIXEL =
  'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8DwHwAFBQIAX8jx0gAAAABJRU5ErkJggg=='

const TOOLS: Readonly<Record<string, Asking>> = {
  test_sampling: {
    questions: ({ arguments: args }) => {
      const prompt = isRecord(args) ? args['prompt'] : undefined
      if (typeof prompt !== 'string') throw invalidParams('"prompt" must be text')
      return { answer: sampling(prompt) }
    },
  },
  test_input_required_result_sampling: {
    questions: () => ({ capital_question: sampling('What is the capital of France?') }),
  },
  test_input_required_result_list_roots: {
    questions: () => ({ client_roots: inputRequired.listRoots() }),
  },
  test_input_required_result_multiple_inputs: {
    questions: () => ({
      user_name: form('What is your name?', 'name'),
      greeting: sampling('Generate a greeting'),
      client_roots: inputRequired.listRoots(),
    }),
  },
  test_input_required_result_elicitation: {
    questions: () => ({ user_name: form('What is your name?', 'name') }),
    answer: (answers) => toolResult(`Hello, ${acceptedText(answers, 'user_name', 'name')}!`),
  },
  test_input_required_result_capabilities: {
    questions: (_params, { client: { capabilities } }) => ({
      ...(capabilities['elicitation'] !== undefined && {
        user_name: form('What is your name?', 'name'),
      }),
      ...(capabilities['sampling'] !== undefined && { greeting: sampling('Generate a greeting') }),
    }),
  },
}

const RESOURCES: Readonly<Record<string, string>> = {
  'test://static-text': 'This is the content of the static text resource.',
  'test://watched-resource': 'This may change.',
}

type Content = GetPromptResult['messages'][number]['content']

/** Contents of each prompt, by its arguments. */
const PROMPTS: Readonly<Record<string, (args: Params) => readonly Content[]>> = {
  test_simple_prompt: () => [text('This is a simple prompt for testing.')],
  test_prompt_with_arguments: ({ arg1, arg2 }) => [
    text(`Prompt with arguments: arg1='${String(arg1)}', arg2='${String(arg2)}'`),
  ],
  test_prompt_with_embedded_resource: ({ resourceUri }) => {
    const content = 'Embedded resource content for testing.'
    const resource = { uri: String(resourceUri), mimeType: 'text/plain', text: content }
    return [{ type: 'resource', resource }, text('Please process the embedded resource above.')]
  },
  test_prompt_with_image: () => [
    { type: 'image', data: PIXEL, mimeType: 'image/png' },
    text('Please analyze the image above.'),
  ],
}

/** Completions of the arguments of prompts. */
const CITIES = ['Paris', 'Prague']

const ASKING_PROMPT = 'test_input_required_result_prompt'
const PROMPT_QUESTION: Asking = {
  questions: () => ({ user_context: form('What context should the prompt use?', 'context') }),
  answer: (answers) =>
    promptResult([text(`Context: ${acceptedText(answers, 'user_context', 'context')}`)]),
}

/**
 * Tools, prompts and resources that scenarios of the official conformance suite expect, where agents offer nothing of
 * that kind.
 */
export class FixtureHandlers implements McpHandlers {
  readonly serverInfo = { name: 'conformance-fixture', version: '1.0.0' }
  readonly instructions = undefined
  readonly #states: HandlerParts['states']

  constructor({ states }: Pick<HandlerParts, 'states'>) {
    this.#states = states
  }

  capabilities(): ServerCapabilities {
    const listChanged = true
    const resources = { listChanged, subscribe: true }
    return { tools: { listChanged }, prompts: { listChanged }, resources, completions: {} }
  }

  handle(method: string, params: Params, context: RequestContext): McpResult | Promise<McpResult> {
    switch (method) {
      case 'tools/call':
        return this.#callTool(params, context)
      case 'prompts/get':
        return this.#getPrompt(params, context)
      case 'resources/read':
        return { contents: [contentOf(String(params['uri']))] }
      case 'completion/complete': {
        const { value } = isRecord(params['argument']) ? params['argument'] : {}
        return { completion: { values: CITIES.filter((city) => city.startsWith(String(value))) } }
      }
      case 'resources/templates/list': {
        const template = { name: 'template', uriTemplate: 'test://template/{id}/data' }
        return { resourceTemplates: [template] }
      }
      case 'resources/subscribe':
      case 'resources/unsubscribe':
        return {}
      default:
        throw new ProtocolError(ProtocolErrorCode.MethodNotFound, 'Method not found')
    }
  }

  async #callTool(params: Params, context: RequestContext): Promise<McpResult> {
    const { name } = params
    const tool = TOOLS[String(name)]
    if (!tool) throw invalidParams(`Unknown tool: ${String(name)}`)
    return this.#ask(tool, { method: 'tools/call', params }, context)
  }

  async #getPrompt(params: Params, context: RequestContext): Promise<McpResult> {
    const { name, arguments: args } = params
    if (name === ASKING_PROMPT) {
      return this.#ask(PROMPT_QUESTION, { method: 'prompts/get', params }, context)
    }
    const contents = PROMPTS[String(name)]
    if (!contents) throw invalidParams(`Unknown prompt: ${String(name)}`)
    return promptResult(contents(isRecord(args) ? args : {}))
  }

  async #ask(
    asking: Asking,
    { method, params }: { readonly method: string; readonly params: Params },
    context: RequestContext,
  ): Promise<McpResult> {
    const { answer = (answers: Answers) => toolResult(JSON.stringify(answers)) } = asking
    const questions = asking.questions(params, context)
    const isComplete = (answers: Params): answers is Answers =>
      Object.keys(questions).every((key) => answers[key] !== undefined)
    const { inputResponses } = params // answers may come before the questions, without a state
    const given = context.continuation?.responses ?? inputResponses
    if (isRecord(given) && isComplete(given)) return answer(given)
    const answers = await context.ask(questions)
    if (answers) return answer(answers)
    const state = { runId: 'run_fixture', round: 1, tool: String(params['name']), args: '' }
    const requestState = await this.#states.mint(state, { method, principal: context.principal.id })
    return inputRequired({ inputRequests: questions, requestState })
  }
}

function contentOf(uri: string): object {
  const [, id] = /^test:\/\/template\/([^/]+)\/data$/.exec(uri) ?? []
  if (id !== undefined) {
    const data = { id, templateTest: true, data: `Data for ID: ${id}` }
    return { uri, mimeType: 'application/json', text: JSON.stringify(data) }
  }
  if (uri === 'test://static-binary') return { uri, mimeType: 'image/png', blob: PIXEL }
  const content = RESOURCES[uri]
  if (content === undefined) throw new ResourceNotFoundError(uri)
  return { uri, mimeType: 'text/plain', text: content }
}

function form(message: string, field: string): InputRequest {
  const properties = { [field]: { type: 'string' as const } }
  const requestedSchema = { type: 'object' as const, properties, required: [field] }
  return inputRequired.elicit({ message, requestedSchema })
}

function sampling(prompt: string): InputRequest {
  return inputRequired.createMessage({
    messages: [{ role: 'user', content: { type: 'text', text: prompt } }],
    maxTokens: 100,
  })
}

function acceptedText(answers: Answers, key: string, field: string): string {
  const value = acceptedContent(answers, key)?.[field]
  return typeof value === 'string' ? value : ''
}

function toolResult(value: string): CallToolResult {
  return { content: [{ type: 'text', text: value }] }
}

function promptResult(contents: readonly Content[]): GetPromptResult {
  return { messages: contents.map((content) => ({ role: 'user', content })) }
}

function text(value: string): Content {
  return { type: 'text', text: value }
}

function invalidParams(message: string): ProtocolError {
  return new ProtocolError(ProtocolErrorCode.InvalidParams, message)
}

function isRecord(value: unknown): value is Params {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

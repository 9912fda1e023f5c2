import type {
  CallToolResult,
  InputRequest,
  InputRequiredResult,
  McpServer,
  ServerContext,
} from '@modelcontextprotocol/server'
import { acceptedContent, inputRequired } from '@modelcontextprotocol/server'
import { z } from 'zod'
import { declaredCapabilities } from './declared-capabilities.ts'

/** Tools that need the model, the roots or the user of their client. Sessions are asked by requests instead. */
export function addAskingTools(mcp: McpServer): void {
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
    { description: 'Asks for a name, and greets whoever has it.' },
    (context) => greet(context),
  )
  mcp.registerTool(
    'test_input_required_result_capabilities',
    { description: 'Asks for all that the client says it can answer.' },
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
  if (isComplete) return said(JSON.stringify(inputResponses))
  return inputRequired({ inputRequests, ...(requestState !== undefined && { requestState }) })
}

/** What was answered beside the name is passed over. */
function greet({ mcpReq }: ServerContext): Asking {
  const name = acceptedContent(mcpReq.inputResponses, 'user_name')?.['name']
  if (typeof name === 'string') return said(`Hello, ${name}!`)
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

function said(text: string): CallToolResult {
  return { content: [{ type: 'text', text }] }
}

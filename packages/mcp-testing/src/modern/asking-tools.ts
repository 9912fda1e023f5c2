import type {
  ElicitRequestFormParams,
  InputRequest,
  ServerContext,
} from '@modelcontextprotocol/server'
import { inputRequired } from '@modelcontextprotocol/server'
import { z } from 'zod'
import { text } from './modern-state.ts'
import type { ModernResult, RegisterTool } from './register.ts'

const nothing = z.object({})

/** Comes back unchanged only if nobody parsed, trimmed or re-encoded it. */
const requestState = ' {"round": 1,  "mark":"\u00fc\u2028=?base64?"}\t'

/** Tools that end with `input_required` until they have what they ask for. */
export function addAskingTools(register: RegisterTool): void {
  register({
    name: 'confirm',
    description: 'Asks for a confirmation, and answers with what came back.',
    input: z.object({ question: z.string().default('Go on?') }),
    run: ({ question }, context) => ask(context, { confirmation: form(question) }),
  })
  register({
    name: 'ask_twice',
    description: 'Asks for a first and then for a last name, and remembers the first in its state.',
    input: nothing,
    run: (_args, context) => askTwice(context),
  })
  register({
    name: 'sample',
    description: 'Asks the model of the client.',
    input: z.object({ prompt: z.string().default('Say hello') }),
    run: ({ prompt }, context) => ask(context, { answer: sampling(prompt) }),
  })
  register({
    name: 'roots',
    description: 'Asks for the roots of the client.',
    input: nothing,
    run: (_args, context) => ask(context, { roots: inputRequired.listRoots() }),
  })
  register({
    name: 'open_url',
    description: 'Asks for a visit to a page.',
    input: nothing,
    run: (_args, context) => {
      const params = { message: 'Please sign in', url: 'https://login.example/start' }
      return ask(context, { visit: inputRequired.elicitUrl(params) })
    },
  })
  register({
    name: 'ask_all',
    description: 'Asks for a form, the model and the roots at once.',
    input: nothing,
    run: (_args, context) =>
      ask(context, {
        confirmation: form('Go on?'),
        answer: sampling('Say hello'),
        roots: inputRequired.listRoots(),
      }),
  })
  register({
    name: 'poll',
    description: 'Asks for nothing but to be called again, so many times.',
    input: z.object({ rounds: z.int().default(2) }),
    run: ({ rounds }, context) => {
      const round = Number(context.mcpReq.requestState() ?? 0)
      if (round >= rounds) return text(`answered after ${round} rounds`)
      return inputRequired({ requestState: String(round + 1) })
    },
  })
}

function ask(context: ServerContext, inputRequests: Record<string, InputRequest>): ModernResult {
  const { inputResponses } = context.mcpReq
  const isComplete = Object.keys(inputRequests).every((key) => inputResponses?.[key] !== undefined)
  if (!isComplete) return inputRequired({ inputRequests })
  return { ...text(JSON.stringify(inputResponses)), structuredContent: { ...inputResponses } }
}

function askTwice(context: ServerContext): ModernResult {
  const { inputResponses } = context.mcpReq
  const state = context.mcpReq.requestState()
  if (state === undefined) {
    return inputRequired({ inputRequests: { first: form('First name?') }, requestState })
  }
  if (state === requestState) {
    const remembered = JSON.stringify(inputResponses?.['first'] ?? null)
    return inputRequired({
      inputRequests: { last: form('Last name?') },
      requestState: requestState + remembered,
    })
  }
  if (typeof state !== 'string' || !state.startsWith(requestState)) {
    return { ...text('The request state was changed'), isError: true }
  }
  const first: unknown = JSON.parse(state.slice(requestState.length))
  const answers = { first, last: inputResponses?.['last'] ?? null }
  return { ...text(JSON.stringify(answers)), structuredContent: answers }
}

function form(message: string): InputRequest {
  const requestedSchema: ElicitRequestFormParams['requestedSchema'] = {
    type: 'object',
    properties: { value: { type: 'string' }, confirmed: { type: 'boolean', default: true } },
  }
  return inputRequired.elicit({ message, requestedSchema })
}

function sampling(prompt: string): InputRequest {
  return inputRequired.createMessage({
    messages: [{ role: 'user', content: { type: 'text', text: prompt } }],
    maxTokens: 100,
  })
}

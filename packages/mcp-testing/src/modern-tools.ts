import { inputRequired } from '@modelcontextprotocol/server'
import type { ElicitRequestFormParams, InputRequest } from '@modelcontextprotocol/server'
import type { TestTool, TestToolResult, ToolContext } from './tools.ts'
import { object, readOnly, statelessTools, structured, toolError } from './tools.ts'

const number = { type: 'number' }

const numberOutput: TestTool = {
  name: 'number_output',
  description: 'Returns a number that is not wrapped in an object; 0 by default.',
  inputSchema: object({ value: { ...number, default: 0 } }),
  outputSchema: number,
  annotations: readOnly,
  run: ({ value = 0 }) => structured(String(value), value),
}

const arrayOutput: TestTool = {
  name: 'array_output',
  description: 'Returns a list of two texts that is not wrapped in an object.',
  outputSchema: { type: 'array', items: { type: 'string' } },
  annotations: readOnly,
  run: () => structured('one, two', ['one', 'two']),
}

const confirm: TestTool = {
  name: 'confirm',
  description: 'Asks for a confirmation, and returns the answer.',
  inputSchema: object({ question: { type: 'string', default: 'Go on?' } }),
  run: ({ question = 'Go on?' }, context) => ask(context, { confirmation: form(String(question)) }),
}

const sample: TestTool = {
  name: 'sample',
  description: 'Asks the model of the client.',
  inputSchema: object({ prompt: { type: 'string', default: 'Say hello' } }),
  run: ({ prompt = 'Say hello' }, context) => ask(context, { answer: sampling(String(prompt)) }),
}

const roots: TestTool = {
  name: 'roots',
  description: 'Asks for the roots of the client.',
  run: (_args, context) => ask(context, { roots: inputRequired.listRoots() }),
}

const openUrl: TestTool = {
  name: 'open_url',
  description: 'Asks the user to open a page.',
  run: (_args, context) => {
    const params = { message: 'Please sign in', url: 'https://login.example/start' }
    return ask(context, { visit: inputRequired.elicitUrl(params) })
  },
}

const askAll: TestTool = {
  name: 'ask_all',
  description: 'Asks for a form, the model and the roots at once.',
  run: (_args, context) =>
    ask(context, {
      confirmation: form('Go on?'),
      answer: sampling('Say hello'),
      roots: inputRequired.listRoots(),
    }),
}

const poll: TestTool = {
  name: 'poll',
  description: 'Asks for nothing, and wants to be called again `rounds` times.',
  inputSchema: object({ rounds: { type: 'integer', default: 2 } }),
  run({ rounds = 2 }, { requestState }) {
    const round = Number(requestState ?? 0)
    if (round >= Number(rounds)) return `answered after ${round} rounds`
    return inputRequired({ requestState: String(round + 1) })
  },
}

/** Reaches the server unchanged only if no client parses, trims or encodes it. */
const FIRST_STATE = ' {"round": 1,  "mark":"\u00fc\u2028=?base64?"}\t'

const askTwice: TestTool = {
  name: 'ask_twice',
  description: 'Asks for a first and then for a last name, and keeps the first in its state.',
  run(_args, { inputResponses, requestState: state }) {
    if (state === undefined) {
      const inputRequests = { first: form('First name?') }
      return inputRequired({ inputRequests, requestState: FIRST_STATE })
    }
    if (state === FIRST_STATE) {
      const first = JSON.stringify(inputResponses?.['first'] ?? null)
      const inputRequests = { last: form('Last name?') }
      return inputRequired({ inputRequests, requestState: FIRST_STATE + first })
    }
    if (typeof state !== 'string' || !state.startsWith(FIRST_STATE)) {
      return toolError('The request state was changed')
    }
    const first: unknown = JSON.parse(state.slice(FIRST_STATE.length))
    const answers = { first, last: inputResponses?.['last'] ?? null }
    return structured(JSON.stringify(answers), answers)
  },
}

/** A tool some of whose arguments are repeated in `Mcp-Param-*` headers. */
export function regionTool(regionHeader: string): TestTool {
  const inHeader = (type: string, name: string): unknown => ({ type, 'x-mcp-header': name })
  return {
    name: 'region',
    description: 'Returns its arguments and the headers that repeat them.',
    inputSchema: object(
      {
        region: inHeader('string', regionHeader),
        count: inHeader('integer', 'Count'),
        dry_run: inHeader('boolean', 'Dry-Run'),
        target: object({ zone: inHeader('string', 'Zone') }),
        note: { type: 'string' },
      },
      ['region'],
    ),
    annotations: { readOnlyHint: false, idempotentHint: true },
    run(args, context) {
      const all = Object.entries(context.headers)
      const headers = Object.fromEntries(all.filter(([name]) => name.startsWith('mcp-param-')))
      return structured(JSON.stringify(args), { args, headers })
    },
  }
}

/** Tools of a modern server that has none of the test's own. */
export const modernTools: readonly TestTool[] = [
  ...statelessTools,
  numberOutput,
  arrayOutput,
  confirm,
  askTwice,
  sample,
  roots,
  openUrl,
  askAll,
  poll,
  regionTool('Region'),
]

function ask(
  { inputResponses }: ToolContext,
  inputRequests: Record<string, InputRequest>,
): TestToolResult {
  const isComplete = Object.keys(inputRequests).every((key) => inputResponses?.[key] !== undefined)
  if (!isComplete) return inputRequired({ inputRequests })
  return structured(JSON.stringify(inputResponses), { ...inputResponses })
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

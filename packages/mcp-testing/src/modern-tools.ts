import { inputRequired } from '@modelcontextprotocol/server'
import type { ElicitRequestFormParams, InputRequest } from '@modelcontextprotocol/server'
import type { TestTool } from './tools.ts'
import { object, statelessTools, structured, toolError } from './tools.ts'

/** A tool that asks, and returns the answers. */
function asking(
  name: string,
  description: string,
  requests: (args: Readonly<Record<string, unknown>>) => Record<string, InputRequest>,
): TestTool {
  return {
    name,
    description,
    run(args, { inputResponses }) {
      const inputRequests = requests(args)
      const isComplete = Object.keys(inputRequests).every((key) => inputResponses?.[key])
      if (!isComplete) return inputRequired({ inputRequests })
      return structured(JSON.stringify(inputResponses), { ...inputResponses })
    },
  }
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

/** Tools of a modern server that has none of the test's own. */
export const modernTools: readonly TestTool[] = [
  ...statelessTools,
  asking('confirm', 'Asks the user the `question`.', ({ question = 'Go on?' }) => ({
    confirmation: form(String(question)),
  })),
  askTwice,
  asking('sample', 'Sends `prompt` to the model of the client.', ({ prompt }) => ({
    answer: sampling(typeof prompt === 'string' ? prompt : 'Say hello'),
  })),
  asking('roots', 'Asks for the roots of the client.', () => ({
    roots: inputRequired.listRoots(),
  })),
  asking('open_url', 'Asks the user to open a page.', () => ({
    visit: inputRequired.elicitUrl({
      message: 'Please sign in',
      url: 'https://login.example/start',
    }),
  })),
  asking('ask_all', 'Asks for a form, the model and the roots at once.', () => ({
    confirmation: form('Go on?'),
    answer: sampling('Say hello'),
    roots: inputRequired.listRoots(),
  })),
  poll,
]

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

// Characters that a model reads and a person does not see, in every text that an agent brings.
import { a2aSource } from '@x/mcp-gateway-a2a'
import { startTestServer } from '@x/mcp-testing'
import type { AgentCall, AgentUpdate } from '@x/mcp-gateway'
import { KNOWS_TASKS, modern, Session, SHOWS_FORMS, at, type Answer, type Json } from '../client.ts'
import { probe, type Kind, type Probe } from '../probe.ts'
import { honestClients, startTarget, type Target } from '../target.ts'

/** Characters by their kinds. */
const HIDDEN: Readonly<Record<string, string>> = {
  NUL: '\u0000',
  'a bell and a backspace': '\u0007\u0008',
  'a carriage return': '\r',
  'DEL and C1': '\u007f\u0085\u009f',
  'colors of a terminal': '\u001b[31m\u001b[0m',
  'colors of a terminal in C1': '\u009b31m',
  'an escape': '\u001b',
  'marks of direction': '\u200e\u200f\u061c',
  'embeddings and overrides of direction': '\u202a\u202b\u202d\u202e\u202c',
  'isolates of direction': '\u2066\u2067\u2068\u2069',
  tags: '\u{e0001}\u{e0041}\u{e0042}\u{e007f}',
  'joiners and spaces without width': '\u200b\u2060\ufeff',
  'invisible operators': '\u2061\u2062\u2063\u2064',
  'a soft hyphen': '\u00ad',
  annotations: '\ufff9\ufffa\ufffb',
  'music and shorthand formats': '\u{1d173}\u{1bca0}',
  'private use': '\ue000\u{f0000}\u{10fffd}',
  'characters that do not exist': '\uffff\u{1fffe}',
  'half of a pair, the first': '\ud83d',
  'half of a pair, the second': '\ude00',
}

/** Fields of base64, in which the rest of an escape may be by chance. No model reads them. */
const SIGNED: ReadonlySet<string> = new Set(['requestState', 'nextCursor', 'taskId'])

/** Finds one of them in a message, also as an escape. */
function hiddenIn(value: unknown): readonly string[] {
  if (typeof value === 'string') return value.match(/[^\P{C}\n\t\u200c\u200d]|\[31m|31m/gu) ?? []
  if (typeof value !== 'object' || value === null) return []
  return Object.entries(value).flatMap(([name, inner]) =>
    SIGNED.has(name) ? [] : [...hiddenIn(name), ...hiddenIn(inner)],
  )
}

/** Texts of an agent, each with the characters at its beginning, in its middle and at its end. */
function agentOf(chars: string) {
  const hide = (text: string): string =>
    `${chars}${text.slice(0, 2)}${chars}${text.slice(2)}${chars}`
  const schema = {
    type: 'object',
    title: hide('Input'),
    description: hide('What it takes'),
    properties: {
      city: { type: 'string', title: hide('City'), description: hide('Where'), enum: ['Rome'] },
    },
  }
  // Surrogates without a partner are refused in reports of agents: no JSON can hold them.
  const isHalf = !chars.isWellFormed()
  const own = isHalf ? (text: string): string => text : hide
  const texts = {
    description: own('Does it'),
    tags: [own('tag')],
    examples: [own('In {city}?')],
    inputModes: [own('text/plain')],
    outputModes: [own('text/plain')],
  }
  const skills = ['ask', 'fail', 'sign', 'draw'].map((id) => ({
    id,
    name: own(id),
    inputSchema: schema,
    ...texts,
  }))
  const run = function* ({ skillId, resume }: AgentCall): Iterable<AgentUpdate> {
    yield { type: 'status', text: hide('thinks') }
    if (skillId === 'fail') return yield { type: 'failed', reason: hide('no way') }
    if (skillId === 'sign')
      return yield {
        type: 'authorization',
        url: `https://id.example/${chars}`,
        reason: hide('sign in'),
      }
    if (skillId === 'draw') {
      yield {
        type: 'file',
        file: { name: hide('draw.txt'), mimeType: hide('text/plain'), data: Buffer.from('x') },
      }
      return yield { type: 'done', text: 'drawn' }
    }
    if (resume) return yield { type: 'done', text: 'fine' }
    const deep = { type: 'object', properties: { a: schema } }
    const questions = [
      { id: 'q', message: hide('Which?'), schema },
      { id: 'r', message: hide('And?'), schema: deep },
      {
        id: 's',
        message: hide('Choose'),
        schema: {
          type: 'object',
          properties: { a: { type: 'string', enum: ['b'], title: hide('Choice') } },
        },
      },
    ]
    return yield { type: 'asked', questions, state: {} }
  }
  return { run, agent: { name: own('Agent'), description: own('An agent'), skills, canAsk: true } }
}

const tool = (skill: string): Json => ({ name: `agent_${skill}`, arguments: { city: 'Rome' } })

/** Requests whose answers show texts of the agent, and a text that shows that they do. */
const PLACES: Readonly<
  Record<string, readonly [shown: string, ask: (target: Target) => Promise<Answer>]>
> = {
  'the list of tools': ['agent_ask', (target) => modern(target, 'tools/list')],
  'the list of prompts': ['agent_ask', (target) => modern(target, 'prompts/list')],
  'a prompt': [
    'In Rome?',
    (target) =>
      modern(target, 'prompts/get', { name: 'agent_ask_example_1', arguments: { city: 'Rome' } }),
  ],
  'the instructions': ['Agents over MCP', (target) => modern(target, 'server/discover')],
  'a question as text': ['Which?', (target) => modern(target, 'tools/call', tool('ask'))],
  'a question as a form': [
    'Which?',
    (target) => modern(target, 'tools/call', { ...tool('ask'), _meta: SHOWS_FORMS }),
  ],
  'a question of a task': [
    'Which?',
    async (target) => {
      const begun = await modern(target, 'tools/call', { ...tool('ask'), _meta: KNOWS_TASKS })
      return modern(target, 'tasks/get', {
        taskId: at(begun, 'result', 'taskId'),
        _meta: KNOWS_TASKS,
      })
    },
  ],
  'a question in a session': [
    'Which?',
    async (target) => (await Session.open(target)).ask('tools/call', tool('ask')),
  ],
  'a failure': ['no way', (target) => modern(target, 'tools/call', tool('fail'))],
  'a sign-in': ['sign in', (target) => modern(target, 'tools/call', tool('sign'))],
  progress: [
    'drawn',
    (target) => modern(target, 'tools/call', { ...tool('draw'), _meta: { progressToken: 1 } }),
  ],
  'the name of a file': [
    'aw.txt',
    async (target) => (await Session.open(target)).ask('tools/call', tool('draw')),
  ],
  'the list of files': [
    'aw.txt',
    async (target) => {
      const session = await Session.open(target)
      await session.ask('tools/call', tool('draw'))
      return session.ask('resources/list')
    },
  ],
}

/** All messages of an answer. */
function messagesOf({ text }: Answer): readonly unknown[] {
  const lines = text.startsWith('{')
    ? [text]
    : text.split('\n').flatMap((line) => (line.startsWith('data: {') ? [line.slice(6)] : []))
  return lines.map((line): unknown => JSON.parse(line))
}

async function placeProbes(
  stack: AsyncDisposableStack,
): Promise<[readonly Probe[], readonly Probe[]]> {
  const probes: Probe[] = []
  // Two halves side by side would be a character.
  const all = Object.values(HIDDEN).toReversed().join('')
  const targets: [string, Target][] = []
  for (const [name, chars] of Object.entries({ ...HIDDEN, 'all of them': all })) {
    const target = await startTarget(stack)
    const { run, agent } = agentOf(chars)
    target.agents.join('hiding', run, agent)
    targets.push([name, target])
    for (const [place, [shown, ask]] of Object.entries(PLACES)) {
      probes.push(
        probe(
          `${name} in ${place}`,
          async () => {
            const answer = await ask(target)
            return {
              shows: answer.text.includes(shown),
              hidden: messagesOf(answer).flatMap(hiddenIn),
              text: answer.text,
            }
          },
          ({ shows, hidden }) => shows && hidden.length === 0,
        ),
      )
    }
  }
  const [, last] = targets.at(-1) ?? []
  return [probes, last ? honestClients('a gateway with a hiding agent', last) : []]
}

/** Long texts are cut between characters. */
async function cutProbes(stack: AsyncDisposableStack): Promise<readonly Probe[]> {
  const target = await startTarget(stack)
  const long = (letters: number): string => 'x'.repeat(letters) + '😀'.repeat(8000)
  const offsets = [0, 1]
  for (const n of offsets) {
    target.agents.join(
      `long${n}`,
      function* ({ skillId }): Iterable<AgentUpdate> {
        yield { type: 'status', text: long(n) }
        if (skillId === 'fail') return yield { type: 'failed', reason: long(n) }
        if (skillId === 'say') return yield { type: 'done', text: long(n).repeat(40) }
        return yield {
          type: 'asked',
          questions: [
            {
              id: 'q',
              message: long(n),
              schema: {
                type: 'object',
                properties: { a: { type: 'string', title: long(n), description: long(n) } },
              },
            },
          ],
          state: {},
        }
      },
      {
        description: long(n).slice(0, 60_000),
        skills: ['fail', 'say', 'ask'].map((id) => ({
          id,
          name: id,
          description: long(n),
          examples: [long(n)],
          tags: [long(n).slice(0, 100 + n)],
        })),
      },
    )
  }
  const asks: Readonly<Record<string, (agent: string) => Promise<Answer>>> = {
    'the list of tools': () => modern(target, 'tools/list'),
    'the list of prompts': () => modern(target, 'prompts/list'),
    'a prompt': (agent) => modern(target, 'prompts/get', { name: `${agent}_ask_example_1` }),
    'a failure': (agent) =>
      modern(target, 'tools/call', {
        name: `${agent}_fail`,
        arguments: { message: 'x' },
        _meta: { progressToken: 1 },
      }),
    'a long answer': (agent) =>
      modern(target, 'tools/call', { name: `${agent}_say`, arguments: { message: 'x' } }),
    'a question': (agent) =>
      modern(target, 'tools/call', { name: `${agent}_ask`, arguments: { message: 'x' } }),
    'a question as a form': (agent) =>
      modern(target, 'tools/call', {
        name: `${agent}_ask`,
        arguments: { message: 'x' },
        _meta: SHOWS_FORMS,
      }),
    'an unknown prompt': async (agent) =>
      (await Session.open(target)).ask('prompts/get', { name: `${agent}${'x'.repeat(122)}😀😀` }),
    'an unknown tool': async (agent) =>
      (await Session.open(target)).ask('tools/call', {
        name: `${agent}${'x'.repeat(122)}😀😀`,
        arguments: {},
      }),
  }
  return Object.entries(asks).flatMap(([place, ask]) =>
    offsets.map((n) =>
      probe(
        `half of a character in ${place} (${n})`,
        async () => {
          const answer = await ask(`long${n}`)
          return { halves: messagesOf(answer).flatMap(halvesIn), length: answer.text.length }
        },
        ({ halves }) => halves.length === 0,
      ),
    ),
  )
}

function halvesIn(value: unknown): readonly string[] {
  if (typeof value === 'string') return value.isWellFormed() ? [] : [value.slice(-20)]
  return typeof value === 'object' && value !== null ? Object.values(value).flatMap(halvesIn) : []
}

/** Cards of A2A agents with such texts, as JSON. */
async function cardProbes(stack: AsyncDisposableStack): Promise<readonly Probe[]> {
  let chars = ''
  const server = stack.use(
    await startTestServer((_request, response) => {
      const hide = (text: string): string => `${chars}${text}${chars}`
      response.writeHead(200, { 'content-type': 'application/json' })
      response.end(
        JSON.stringify({
          name: hide('Remote'),
          description: hide('Far away'),
          version: hide('1'),
          provider: { organization: hide('Org'), url: hide('https://org.example') },
          supportedInterfaces: [
            { url: `${server.url}/rpc`, protocolBinding: 'JSONRPC', protocolVersion: '1.0' },
          ],
          capabilities: {},
          defaultInputModes: [hide('text/plain')],
          defaultOutputModes: [hide('text/plain')],
          skills: [
            {
              id: 'forecast',
              name: hide('Forecast'),
              description: hide('Tells'),
              tags: [hide('sky')],
              examples: [hide('Rain in {city}?')],
            },
          ],
        }),
      )
    }, ''),
  )
  return Object.entries(HIDDEN).map(([name, text]) =>
    probe(
      `${name} in a card of A2A`,
      async () => {
        chars = text
        await using own = new AsyncDisposableStack()
        const sources = [a2aSource({ cards: [server.url], trustedOrigins: [server.url] })]
        const target = await startTarget(own, { sources })
        await target.gateway.registry.start()
        const listed = [await modern(target, 'tools/list'), await modern(target, 'prompts/list')]
        return {
          texts: listed.map((each) => each.text),
          hidden: listed.flatMap(messagesOf).flatMap(hiddenIn),
        }
      },
      // A card with half of a character may be refused as a whole.
      ({ texts, hidden }) =>
        hidden.length === 0 &&
        (texts[0]?.includes('remote_forecast') === true || !text.isWellFormed()),
    ),
  )
}

export const hiddenCharacters: Kind = {
  name: 'hidden-characters',
  rule: 'a model reads nothing that a person cannot see',
  async prepare(stack) {
    const [places, honest] = await placeProbes(stack)
    return {
      probes: [...places, ...(await cutProbes(stack)), ...(await cardProbes(stack))],
      honest,
    }
  },
}

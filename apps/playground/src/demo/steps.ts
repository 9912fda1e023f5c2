import { isRecord } from '@x/internal'
import { CommandError } from '@x/internal/command-line'
import { McpClient } from '@x/mcp-client'
import type { Progress } from '@x/mcp-client'
import type { ExecutionType } from '../timeline/commands.ts'
import { DEBUG_STATE } from '../timeline/events.ts'
import type { Exchange } from '../timeline/events.ts'
import type { Scene, Step } from './scene.ts'
import { connectSdkClient } from './sdk-client.ts'
import type { Caller, GatewayAddress } from './sdk-client.ts'
import type { Figures } from './terminal.ts'

/** Requests of the first call: the client asks for the revision, opens a session, and calls. */
const FIRST_CALL = { 'server/discover': 1, initialize: 1, 'tools/call': 1, POSTs: 4 }
/** Requests of a call whose session was lost: the refused call, one handshake, and the call. */
const RECOVERED = { 'server/discover': 0, initialize: 1, 'tools/call': 2, refused: 1, POSTs: 4 }
/** Requests of a run whose two calls share a session, which ends with the run. */
const WHOLE_SESSION = { initialize: 1, 'tools/call': 2, 'session ids': 1, DELETE: 1 }
/** A program that has the agents work, whose run has a session of its own with the shop. */
const TEAM_CALLED = {
  'tools/call': 1,
  'sessions with the shop': 1,
  'ended sessions with the shop': 1,
  basket: '2 × figs',
}
/** Calls before and after the restart of a server from npm. */
const RESTARTED = {
  ...FIRST_CALL,
  'content type': 'text/event-stream',
  'initialize after the restart': 1,
  answers: 'Echo: hello, Echo: hello again',
}
/** Requests of a run whose two calls need no session. */
const STATELESS = {
  initialize: 0,
  'tools/call': 2,
  'session ids': 0,
  revision: '2026-07-28',
  basket: '2 × apple',
}
/** Requests to the debug state of a run, whose client asks for the session once, and of one that opens a session. */
const ASKED = { 'debug state GET': 1, 'debug state PUT': 0 }
const STORED = { 'debug state GET': 1, 'debug state PUT': 1 }
/** Name of the tool with which the gateway offers the team. */
const TEAM = 'shopping_team'

interface StepOfStory extends Step {
  /** Differences where sessions end with their run; `null` leaves the step out. */
  readonly runtime?: Partial<Step> | null
}

/** The whole story. */
export function stepsFor(executionType: ExecutionType): readonly Step[] {
  if (executionType === 'playground') return STORY
  return STORY.flatMap((step) => (step.runtime === null ? [] : [{ ...step, ...step.runtime }]))
}

const STORY: readonly StepOfStory[] = [
  {
    name: 'first call',
    title: 'The agent makes its first call',
    hint: 'The client asks the server which revision it speaks (400: one with sessions), opens a session, and calls the tool.',
    act: (scene) => shop(scene, 'Add two apples to my basket'),
    expected: { ...FIRST_CALL, ...STORED, DELETE: 0, basket: '2 × apples' },
    runtime: { expected: { ...FIRST_CALL, DELETE: 1, basket: '2 × apples' } },
  },
  {
    name: 'shared session',
    title: 'Two tasks of a sub-agent share a session',
    hint: 'The session is kept from run to run: no call needs a handshake. Each run asks the debug state once.',
    act: (scene) => shop(scene, 'Add three pears to my basket, then show my basket'),
    expected: {
      ...callsOnly(2),
      ...ASKED,
      'session ids': 1,
      DELETE: 0,
      basket: '2 × apples, 3 × pears',
    },
    runtime: {
      hint: 'The first call of the run opens the session, and the end of the run ends it.',
      expected: { ...WHOLE_SESSION, basket: '3 × pears' },
    },
  },
  {
    name: 'lost session',
    title: 'The server forgets its sessions',
    hint: 'It refuses the next call. The client asks the debug state again, opens a new session, and repeats the call, which the server did not execute. What the server kept in the session is lost.',
    async act(scene) {
      await scene.trouble({ name: 'forget-sessions', server: 'basket' })
      return shop(scene, 'Add one plum to my basket')
    },
    expected: { ...RECOVERED, ...STORED, 'debug state GET': 2, basket: '1 × plum' },
    runtime: null,
  },
  {
    name: 'server from npm',
    title: 'A server from npm answers in event streams',
    hint: '@modelcontextprotocol/server-everything: a first call, then a restart of its process, then another call.',
    async act(scene) {
      const answer = await scene.say('Echo "hello"')
      const first = await scene.endedExchanges('everything')
      const call = first.find(({ toolName }) => toolName === 'echo')
      const details = scene.playground.recorder.detailsOf(call?.id ?? 0)
      await scene.trouble({ name: 'restart-server', server: 'everything' })
      const answers = `${answer}, ${await scene.say('Echo "hello again"')}`
      const second = requestsIn(await scene.endedExchanges('everything'))
      return {
        ...requestsIn(first),
        'content type': details?.response?.headers['content-type'] ?? 'none',
        'refused after the restart': second.refused,
        'initialize after the restart': second.initialize,
        answers,
      }
    },
    expected: { ...RESTARTED, 'refused after the restart': 1 },
    runtime: { expected: { ...RESTARTED, 'refused after the restart': 0 } },
  },
  {
    name: 'server over stdio',
    title: 'A server runs as a child process of the agent',
    hint: '@modelcontextprotocol/server-memory uses standard input and output, and no HTTP.',
    async act(scene) {
      const answer = await scene.say('Remember that Ada likes pears, then what do you remember?')
      const exchanges = await scene.endedExchanges('memory')
      return { 'HTTP exchanges': exchanges.length, remembers: answer.includes('likes pears') }
    },
    expected: { 'HTTP exchanges': 0, remembers: true },
  },
  {
    name: 'resume in a new process',
    title: 'The agent process is killed (SIGKILL), and another one starts',
    hint: 'Debug state has kept the session: the new process needs no handshake, and finds its basket.',
    async act(scene) {
      const before = scene.state.processes['agent']?.pid
      await scene.trouble({ name: 'kill-process', process: 'agent' })
      const figures = await shop(scene, 'Show my basket')
      const resumed = scene.exchanges('basket').filter(({ kind }) => kind === 'resume').length
      const isOther = scene.state.processes['agent']?.pid !== before
      return { ...figures, resumed, 'other process': isOther }
    },
    expected: {
      ...callsOnly(1),
      ...ASKED,
      resumed: 1,
      basket: '1 × plum',
      'other process': true,
    },
    runtime: {
      name: 'new session in a new process',
      hint: 'The session was not stored: the new process opens another one.',
      expected: { initialize: 1, DELETE: 1, resumed: 0, basket: 'nothing', 'other process': true },
    },
  },
  {
    name: 'parallel calls',
    title: '50 calls at once lose their session',
    hint: 'Each is answered once, and all of them together need one handshake.',
    async act(scene) {
      await scene.trouble({ name: 'forget-sessions', server: 'basket' })
      await scene.trouble({ name: 'parallel-calls' })
      const exchanges = await scene.endedExchanges('basket')
      const calls = exchanges.filter(({ toolName }) => toolName !== undefined)
      return {
        initialize: requestsIn(exchanges).initialize,
        answered: calls.filter(({ status }) => status === 200).length,
        'lost at least one': calls.some(({ kind }) => kind === 'loss'),
      }
    },
    expected: { initialize: 1, answered: 50, 'lost at least one': true },
    runtime: null,
  },
  {
    name: 'stateless server',
    title: 'The server changes to revision 2026-07-28',
    hint: 'This revision has no sessions. The same client notices, and its next run needs no handshake if the revision is kept.',
    async act(scene) {
      await scene.trouble({ name: 'switch-era', server: 'basket' })
      await shop(scene, 'Add one apple to my basket')
      const figures = await shop(scene, 'Add one apple to my basket, then show my basket')
      const revisions = new Set(scene.exchanges('basket').map(({ revision }) => revision))
      return { ...figures, revision: [...revisions].join(', ') }
    },
    expected: { ...STATELESS, 'server/discover': 0 },
    runtime: { expected: { ...STATELESS, 'server/discover': 1 } },
  },
  {
    name: 'question to a person',
    title: 'The server asks a person, and the agent process is killed meanwhile',
    hint: 'The graph stops with an interrupt. Another process continues the same call with the answer.',
    async act(scene) {
      await scene.say('Check out')
      const question = scene.state.conversation.findLast((item) => item.type === 'question')
      if (question === undefined) throw new CommandError('The server asked nothing')
      await scene.trouble({ name: 'kill-process', process: 'agent' })
      const content = { name: 'Ada', address: '1 Main Street', express: true, payment: 'invoice' }
      const { id: questionId } = question
      const answer = await scene.ask({ type: 'answer', questionId, action: 'accept', content })
      return { ...requestsIn(await scene.endedExchanges('basket')), answer }
    },
    expected: {
      'tools/call': 2, // one that was answered with the question, and one with the answer of the person
      'session ids': 0,
      answer: 'Ordered 2 × apple for Ada, 1 Main Street. Payment: invoice. Delivery: express.',
    },
  },
  {
    name: 'sessions of the run',
    title: 'The execution type changes to "runtime"',
    hint: 'As in production: the first call of a run opens the session, all agents of the run share it, and the end of the run ends it (DELETE).',
    async act(scene) {
      await scene.trouble({ name: 'switch-era', server: 'basket' })
      await scene.trouble({ name: 'set-execution-type', executionType: 'runtime' })
      return shop(scene, 'Add two figs to my basket, then show my basket')
    },
    expected: { ...WHOLE_SESSION, basket: '2 × figs' },
  },
  {
    name: 'caller without the token',
    title: 'The agents are an MCP server, too',
    hint: 'The gateway offers them to other programs. One without the token gets a 401.',
    async act(scene) {
      scene.terminal.says('sdk-v1', 'connects without a token')
      const stranger = await connectSdkClient({ ...gatewayOf(scene), headers: {} }).catch(
        () => undefined,
      )
      await stranger?.[Symbol.asyncDispose]()
      const requests = await scene.endedExchanges('gateway', 'other client')
      const refused = requests.filter(({ status }) => status === 401)
      return { requests: requests.length, refused: refused.length }
    },
    expected: { requests: 1, refused: 1 },
  },
  {
    name: 'caller with a session',
    title: 'The client of SDK v1 has the agents work',
    hint: 'Revision 2025-11-25, with a session. The agents use a session of their own with the shop, which ends with their run.',
    act: (scene) => callTeam(scene, 'sdk-v1', connectSdkClient),
    expected: { ...TEAM_CALLED, revision: '2025-11-25', initialize: 1, DELETE: 1, progress: true },
  },
  {
    name: 'caller without a session',
    title: 'McpClient does the same, at the same URL',
    hint: 'Revision 2026-07-28, without a session: one question about the revision, and nothing to end.',
    act: (scene) => callTeam(scene, 'mcp-client', async (gateway) => new McpClient(gateway)),
    expected: { ...TEAM_CALLED, revision: '2026-07-28', initialize: 0, 'server/discover': 1 },
  },
  {
    name: 'given-up call',
    title: 'A caller gives up while the agents wait for a server',
    hint: 'The gateway ends their run, and their own call is cancelled at the server.',
    async act(scene) {
      await using client = new McpClient(gatewayOf(scene))
      const abort = new AbortController()
      scene.terminal.says('mcp-client', 'asks: Count to 9')
      const outcome = client
        .callTool(TEAM, { message: 'Count to 9' }, { signal: abort.signal })
        .then(
          () => 'answered',
          () => (abort.signal.aborted ? 'given up' : 'failed'),
        )
      const find = (method: string): Exchange | undefined =>
        scene.exchanges('everything', 'gateway').find(({ rpcMethod }) => rpcMethod === method)
      await scene.playground.until(() => find('tools/call') !== undefined)
      scene.terminal.says('mcp-client', 'gives up')
      abort.abort()
      await scene.playground.until(() => find('notifications/cancelled') !== undefined)
      await scene.endedExchanges('everything', 'gateway')
      return { outcome: await outcome, cancelled: find('notifications/cancelled')?.to ?? 'nothing' }
    },
    expected: { outcome: 'given up', cancelled: 'everything' },
  },
  {
    name: 'call that outlives processes',
    title: 'A call outlives the processes that work on it',
    hint: 'The gateway makes the call a task. With a redis-server, the next gateway process goes on with the part that was not finished. The next agent process waits for the same task.',
    async act(scene) {
      const hasRedis = scene.playground.environment['REDIS_URL'] !== ''
      const before = scene.state.processes
      const kill = hasRedis ? 'gateway' : 'agent'
      const trouble = { name: 'long-task', kill } as const
      const done = scene.ask({ type: 'trouble', trouble })
      if (hasRedis) {
        const isNew = scene.playground.until(
          ({ processes: { gateway } }) =>
            gateway?.state === 'running' && gateway.pid !== before['gateway']?.pid,
        )
        await Promise.race([isNew, done])
        await scene.trouble({ name: 'kill-process', process: 'agent' })
      }
      const answer = await done
      const { processes } = scene.state
      const names = Object.keys(processes)
      return {
        'processes killed': names.filter((name) => processes[name]?.pid !== before[name]?.pid)
          .length,
        'tools/call': requestsIn(await scene.endedExchanges('gateway'))['tools/call'],
        'parts of the report': (answer.match(/\d+(?=[,;.])/g) ?? []).join(' '),
        'finished by this gateway process': answer.includes(
          `process ${processes['gateway']?.pid} wrote`,
        ),
      }
    },
    expected: {
      'tools/call': 1,
      'parts of the report': '1 2 3 4 5',
      'finished by this gateway process': true,
    },
  },
]

/** Says something to the agent, and measures what it does at the shop. */
async function shop(scene: Scene, text: string): Promise<Figures> {
  const answer = await scene.say(text)
  const requests = requestsIn(await scene.endedExchanges('basket'))
  const stored = await scene.endedExchanges(DEBUG_STATE)
  const count = (method: string): number =>
    stored.filter(({ httpMethod }) => httpMethod === method).length
  return {
    ...requests,
    'debug state GET': count('GET'),
    'debug state PUT': count('PUT'),
    basket: basketIn(answer),
  }
}

/** Has another program call the team, and measures everything from its first request to its last. */
async function callTeam(
  scene: Scene,
  program: string,
  connect: (gateway: GatewayAddress) => Promise<Caller>,
): Promise<Figures> {
  const says = (what: string): void => scene.terminal.says(program, what)
  const message = 'Add two figs to my basket, then show my basket'
  let answer: string
  let progress = false
  {
    await using caller = await connect(gatewayOf(scene))
    const tools = await caller.listTools()
    says(`finds ${tools.map(({ name }) => name).join(', ')}, and asks: ${message}`)
    const onProgress = ({ message: text = '' }: Progress): void => {
      progress = true
      says(`gets progress: ${text}`)
    }
    answer = textOf((await caller.callTool(TEAM, { message }, { onProgress })).content)
    says(`gets: ${answer}`)
  }
  const atShop = requestsIn(await scene.endedExchanges('basket', 'gateway'))
  const exchanges = await scene.endedExchanges('gateway', 'other client')
  const call = exchanges.find(({ rpcMethod }) => rpcMethod === 'tools/call')
  return {
    ...requestsIn(exchanges),
    revision: call?.revision ?? 'none',
    progress,
    'sessions with the shop': atShop.initialize,
    'ended sessions with the shop': atShop.DELETE,
    basket: basketIn(answer),
  }
}

/** Where programs other than the agent call the gateway. */
function gatewayOf({ playground }: Scene): GatewayAddress {
  const { GATEWAY_URL: url = '', GATEWAY_TOKEN: token } = playground.environment
  return { url, headers: { authorization: `Bearer ${token}` } }
}

function textOf(content: unknown): string {
  const blocks: readonly unknown[] = Array.isArray(content) ? content : []
  return blocks.flatMap((block) => (isRecord(block) ? [block['text']] : [])).join('\n')
}

/** Content of the basket in the answer of a tool. */
function basketIn(answer: string): string {
  return / holds (.*)$/.exec(answer)?.[1] ?? (answer.endsWith(' is empty') ? 'nothing' : 'unknown')
}

/** Requests of calls in a session that is open. */
function callsOnly(count: number): Figures {
  return { 'server/discover': 0, initialize: 0, 'tools/call': count, POSTs: count }
}

type Counted = keyof typeof RECOVERED | 'session ids' | 'DELETE'

/** Number of requests of each kind, of refused calls, and of sessions. */
export function requestsIn(
  exchanges: readonly Pick<Exchange, 'httpMethod' | 'rpcMethod' | 'sessionId' | 'status'>[],
): Record<Counted, number> {
  const count = (rpcMethod: string): number =>
    exchanges.filter((one) => one.rpcMethod === rpcMethod).length
  const calls = exchanges.filter(({ rpcMethod }) => rpcMethod === 'tools/call')
  const posts = exchanges.filter(({ httpMethod }) => httpMethod === 'POST')
  return {
    'server/discover': count('server/discover'),
    initialize: count('initialize'),
    'tools/call': calls.length,
    refused: calls.filter(({ status = 0 }) => status >= 400).length,
    POSTs: posts.filter(({ rpcMethod }) => rpcMethod !== 'subscriptions/listen').length,
    'session ids': new Set(posts.flatMap(({ sessionId }) => sessionId ?? [])).size,
    DELETE: exchanges.filter(({ httpMethod }) => httpMethod === 'DELETE').length,
  }
}

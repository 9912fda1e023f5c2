import { McpClient } from '@x/mcp-client'
import { startRecordingProxy } from '@x/mcp-testing'
import type { RecordingProxy } from '@x/mcp-testing'
import type { Exchange } from '../timeline/events.ts'
import { UserError } from '../user-error.ts'
import { connectMcpClient, connectSdkClient } from './callers.ts'
import type { ConnectCaller } from './callers.ts'
import type { Measured, Scene, Step } from './scene.ts'
import type { Figures } from './terminal.ts'

/** Requests of the first call: the client asks for the revision, opens a session, and calls. */
const FIRST_CALL = {
  'server/discover': 1,
  initialize: 1,
  initialized: 1,
  'tools/call': 1,
  POSTs: 4,
}
/** Requests of a call whose session was lost: the refused call, one handshake, and the call. */
const RECOVERED = { initialize: 1, initialized: 1, refused: 1, 'tools/call': 2, POSTs: 4 }
/** Requests of a run whose two calls share a session, which ends with the run. */
const WHOLE_SESSION = { initialize: 1, 'tools/call': 2, 'session ids': 1, DELETE: 1 }
/** Name of the tool with which the gateway offers the team. */
const TEAM = 'shopping_team'

/** Requests of calls in a session that is open. */
function callsOnly(count: number): Figures {
  return { 'server/discover': 0, initialize: 0, initialized: 0, 'tools/call': count, POSTs: count }
}

/** The whole story. `isKept`: sessions are kept for the next run and the next process. */
export function stepsFor(scene: Scene, isKept: boolean): Step[] {
  return [
    firstCall(isKept),
    sharedSession(isKept),
    ...(isKept ? [LOST_SESSION] : []),
    serverFromNpm(isKept),
    SERVER_OVER_STDIO,
    newProcess(isKept),
    ...(isKept ? [PARALLEL_CALLS] : []),
    statelessServer(isKept),
    QUESTION,
    SESSIONS_OF_THE_RUN,
    STRANGER,
    CALLER_WITH_SESSION,
    CALLER_WITHOUT_SESSION,
    GIVEN_UP_CALL,
    longCall(scene.playground.hasRedis),
  ]
}

function firstCall(isKept: boolean): Step {
  return {
    name: 'first call',
    title: 'The agent makes its first call',
    hint: 'The client asks the server which revision it speaks (400: one with sessions), opens a session, and calls the tool.',
    async act(scene) {
      const { figures } = await use(scene, 'Add two apples to my basket')
      return { figures, expected: { ...FIRST_CALL, DELETE: isKept ? 0 : 1, basket: '2 × apples' } }
    },
  }
}

function sharedSession(isKept: boolean): Step {
  return {
    name: 'shared session',
    title: 'Two tasks of a sub-agent share a session',
    hint: isKept
      ? 'The session is kept from run to run: no call needs a handshake.'
      : 'The first call of the run opens the session, and the end of the run ends it.',
    async act(scene) {
      const { figures } = await use(scene, 'Add three pears to my basket, then show my basket')
      const kept = { ...callsOnly(2), 'session ids': 1, DELETE: 0, basket: '2 × apples, 3 × pears' }
      return { figures, expected: isKept ? kept : { ...WHOLE_SESSION, basket: '3 × pears' } }
    },
  }
}

const LOST_SESSION: Step = {
  name: 'lost session',
  title: 'The server forgets its sessions',
  hint: 'It refuses the next call. The client opens a new session, and sends the call again: the server did not execute it. What the server kept in the session is lost.',
  async act(scene) {
    await scene.trouble({ name: 'forget-sessions', server: 'basket' })
    const { figures } = await use(scene, 'Add one plum to my basket')
    return { figures, expected: { 'server/discover': 0, ...RECOVERED, basket: '1 × plum' } }
  },
}

function serverFromNpm(isKept: boolean): Step {
  return {
    name: 'server from npm',
    title: 'A server from npm answers in event streams',
    hint: '@modelcontextprotocol/server-everything: a first call, then a restart of its process, then another call.',
    async act(scene) {
      const first = await use(scene, 'Echo "hello"', 'everything')
      const call = first.exchanges.find(({ toolName }) => toolName === 'echo')
      const details = call && scene.playground.exchangeDetails(call.id)
      scene.mark()
      await scene.trouble({ name: 'restart-server', server: 'everything' })
      const second = await use(scene, 'Echo "hello again"', 'everything')
      return {
        figures: {
          ...requestsIn(first.exchanges),
          'content type': details?.response?.headers['content-type'] ?? 'none',
          'refused after the restart': second.figures['refused'] ?? 0,
          'initialize after the restart': second.figures['initialize'] ?? 0,
          answers: `${first.answer}, ${second.answer}`,
        },
        expected: {
          ...FIRST_CALL,
          'content type': 'text/event-stream',
          'refused after the restart': isKept ? 1 : 0,
          'initialize after the restart': 1,
          answers: 'Echo: hello, Echo: hello again',
        },
      }
    },
  }
}

const SERVER_OVER_STDIO: Step = {
  name: 'server over stdio',
  title: 'A server runs as a child process of the agent',
  hint: '@modelcontextprotocol/server-memory uses standard input and output, and no HTTP.',
  async act(scene) {
    const question = 'Remember that Ada likes pears, then what do you remember?'
    const { answer, exchanges } = await use(scene, question, 'memory')
    return {
      figures: { 'HTTP exchanges': exchanges.length, remembers: answer.includes('likes pears') },
      expected: { 'HTTP exchanges': 0, remembers: true },
    }
  },
}

function newProcess(isKept: boolean): Step {
  return {
    name: isKept ? 'resume in a new process' : 'new session in a new process',
    title: 'The agent process is killed (SIGKILL), and another one starts',
    hint: isKept
      ? 'Debug state has kept the session: the new process needs no handshake, and finds its basket.'
      : 'The session was not stored: the new process opens another one.',
    async act(scene) {
      const before = scene.state.processes['agent']?.pid
      await scene.trouble({ name: 'kill-process', process: 'agent' })
      const { figures, exchanges } = await use(scene, 'Show my basket')
      const isOther = scene.state.processes['agent']?.pid !== before
      const resumed = exchanges.filter(({ kind }) => kind === 'resume').length
      return {
        figures: { ...figures, resumed, 'other process': isOther },
        expected: {
          'other process': true,
          ...(isKept
            ? { ...callsOnly(1), resumed: 1, basket: '1 × plum' }
            : { initialize: 1, DELETE: 1, resumed: 0, basket: 'nothing' }),
        },
      }
    },
  }
}

const PARALLEL_CALLS: Step = {
  name: 'parallel calls',
  title: '50 calls at once lose their session',
  hint: 'Each is answered once, and all of them together need one handshake.',
  async act(scene) {
    await scene.trouble({ name: 'forget-sessions', server: 'basket' })
    await scene.trouble({ name: 'parallel-calls' })
    const exchanges = await scene.exchanges('basket')
    const calls = exchanges.filter(({ toolName }) => toolName !== undefined)
    return {
      figures: {
        initialize: requestsIn(exchanges)['initialize'] ?? 0,
        answered: calls.filter(({ status }) => status === 200).length,
        'lost at least one': calls.some(({ kind }) => kind === 'loss'),
      },
      expected: { initialize: 1, answered: 50, 'lost at least one': true },
    }
  },
}

function statelessServer(isKept: boolean): Step {
  return {
    name: 'stateless server',
    title: 'The server changes to revision 2026-07-28',
    hint: 'This revision has no sessions. The same client notices, and its next run needs no handshake if the revision is kept.',
    async act(scene) {
      await scene.trouble({ name: 'switch-era', server: 'basket' })
      await use(scene, 'Add one apple to my basket')
      scene.mark()
      const text = 'Add one apple to my basket, then show my basket'
      const { figures, exchanges } = await use(scene, text)
      const revisions = new Set(exchanges.map(({ revision }) => revision))
      return {
        figures: { ...figures, revision: [...revisions].join(', ') },
        expected: {
          'server/discover': isKept ? 0 : 1,
          initialize: 0,
          'tools/call': 2,
          'session ids': 0,
          revision: '2026-07-28',
          basket: '2 × apple',
        },
      }
    },
  }
}

const QUESTION: Step = {
  name: 'question to a person',
  title: 'The server asks a person, and the agent process is killed meanwhile',
  hint: 'The graph stops with an interrupt. Another process continues the same call with the answer.',
  async act(scene) {
    const { question } = await scene.say('Check out')
    if (question === undefined) throw new UserError('The server asked nothing')
    await scene.trouble({ name: 'kill-process', process: 'agent' })
    const content = { name: 'Ada', address: '1 Main Street', express: true, payment: 'invoice' }
    const { answer } = await scene.answer(question, content)
    const requests = requestsIn(await scene.exchanges('basket'))
    return {
      figures: {
        'tools/call': requests['tools/call'] ?? 0,
        'session ids': requests['session ids'] ?? 0,
        answer,
      },
      expected: {
        'tools/call': 2, // one that was answered with the question, and one with the answer of the person
        'session ids': 0,
        answer: 'Ordered 2 × apple for Ada, 1 Main Street. Payment: invoice. Delivery: express.',
      },
    }
  },
}

const SESSIONS_OF_THE_RUN: Step = {
  name: 'sessions of the run',
  title: 'The execution type changes to "runtime"',
  hint: 'As in production: the first call of a run opens the session, all agents of the run share it, and the end of the run ends it (DELETE).',
  async act(scene) {
    await scene.trouble({ name: 'switch-era', server: 'basket' })
    await scene.trouble({ name: 'set-execution-type', executionType: 'runtime' })
    const { figures } = await use(scene, 'Add two figs to my basket, then show my basket')
    return { figures, expected: { ...WHOLE_SESSION, basket: '2 × figs' } }
  },
}

const STRANGER: Step = {
  name: 'caller without the token',
  title: 'The agents are an MCP server, too',
  hint: 'The gateway offers them to other programs. One without the token gets a 401.',
  async act(scene) {
    await using proxy = await startRecordingProxy(scene.playground.gateway.url)
    scene.terminal.says('sdk-v1', 'connects without a token')
    const stranger = await connectSdkClient(proxy.url, undefined).catch(() => undefined)
    await stranger?.[Symbol.asyncDispose]()
    return {
      figures: { requests: proxy.count(), refused: proxy.count({ status: 401 }) },
      expected: { requests: 1, refused: 1 },
    }
  },
}

const CALLER_WITH_SESSION: Step = {
  name: 'caller with a session',
  title: 'The client of SDK v1 has the agents work',
  hint: 'Revision 2025-11-25, with a session. The agents use a session of their own with the shop, which ends with their run.',
  async act(scene) {
    await using proxy = await startRecordingProxy(scene.playground.gateway.url)
    const { figures, expected } = await useTeam(scene, proxy, connectSdkClient)
    return {
      figures: { ...figures, DELETE: proxy.count({ httpMethod: 'DELETE' }) },
      expected: { ...expected, revision: '2025-11-25', initialize: 1, DELETE: 1, progress: true },
    }
  },
}

const CALLER_WITHOUT_SESSION: Step = {
  name: 'caller without a session',
  title: 'McpClient does the same, at the same URL',
  hint: 'Revision 2026-07-28, without a session: one question about the revision, and nothing to end.',
  async act(scene) {
    await using proxy = await startRecordingProxy(scene.playground.gateway.url)
    const { figures, expected } = await useTeam(scene, proxy, connectMcpClient)
    return {
      figures: { ...figures, 'server/discover': proxy.count({ rpcMethod: 'server/discover' }) },
      expected: { ...expected, revision: '2026-07-28', initialize: 0, 'server/discover': 1 },
    }
  },
}

const GIVEN_UP_CALL: Step = {
  name: 'given-up call',
  title: 'A caller gives up while the agents wait for a server',
  hint: 'The gateway ends their run, and their own call is cancelled at the server.',
  async act(scene) {
    const { url, token } = scene.playground.gateway
    await using client = new McpClient({ url, headers: { authorization: `Bearer ${token}` } })
    const abort = new AbortController()
    scene.terminal.says('mcp-client', 'asks: Count to 9')
    const outcome = client.callTool(TEAM, { message: 'Count to 9' }, { signal: abort.signal }).then(
      () => 'answered',
      () => (abort.signal.aborted ? 'given up' : 'failed'),
    )
    const ofGateway = (isMeant: (exchange: Exchange) => boolean, what: string): Promise<Exchange> =>
      scene.until(
        ({ exchanges }) => exchanges.find((one) => one.from === 'gateway' && isMeant(one)),
        what,
      )
    await ofGateway(isLongCall, 'the call of the server')
    scene.terminal.says('mcp-client', 'gives up')
    abort.abort()
    const call = await ofGateway(
      (one) => isLongCall(one) && one.durationMs !== undefined,
      'the end of the call of the server',
    )
    const cancelled = await ofGateway(
      ({ rpcMethod }) => rpcMethod === 'notifications/cancelled',
      'the cancellation at the server',
    )
    return {
      figures: {
        outcome: await outcome,
        // The server may end its stream before the client leaves: only the time is the same.
        'call of the server': (call.durationMs ?? 0) < 9000 ? 'ended early' : 'answered',
        cancelled: cancelled.to,
      },
      expected: {
        outcome: 'given up',
        'call of the server': 'ended early',
        cancelled: 'everything',
      },
    }
  },
}

function isLongCall({ toolName }: Exchange): boolean {
  return toolName === 'trigger-long-running-operation'
}

function longCall(hasRedis: boolean): Step {
  return {
    name: 'call that outlives processes',
    title: hasRedis
      ? 'A call outlives the agent process and the gateway process'
      : 'A call outlives the agent process',
    hint: hasRedis
      ? 'The gateway makes the call a task. The next gateway process goes on with the part that was not finished, and the next agent process waits for the same task.'
      : 'The gateway makes the call a task, and the next agent process waits for it. With a redis-server, the task would also outlive the gateway process.',
    async act(scene) {
      const before = scene.state.processes
      const done = scene.longTask(hasRedis ? 'gateway' : 'agent')
      if (hasRedis) {
        const isNew = scene.until(({ processes: { gateway } }) => {
          const isRunning = gateway?.state === 'running' && gateway.pid !== before['gateway']?.pid
          return isRunning ? true : undefined
        }, 'the next gateway process')
        await Promise.race([isNew, done])
        await scene.trouble({ name: 'kill-process', process: 'agent' })
      }
      const answer = await done
      const { processes } = scene.state
      const pids = Object.keys(processes).map((name) => [processes[name]?.pid, before[name]?.pid])
      const requests = requestsIn(await scene.exchanges('gateway'))
      return {
        figures: {
          'processes killed': pids.filter(([now, then]) => now !== then).length,
          'tools/call': requests['tools/call'] ?? 0,
          'parts of the report': (answer.match(/\d+(?=[,;.])/g) ?? []).join(' '),
          'finished by this gateway process': answer.includes(
            `process ${processes['gateway']?.pid} wrote`,
          ),
        },
        expected: {
          'processes killed': hasRedis ? 2 : 1,
          'tools/call': 1,
          'parts of the report': '1 2 3 4 5',
          'finished by this gateway process': true,
        },
      }
    },
  }
}

/** Says something to the agent, and counts what it sends to a server. */
async function use(scene: Scene, text: string, server = 'basket') {
  const { answer } = await scene.say(text)
  const exchanges = await scene.exchanges(server)
  const figures: Figures = { ...requestsIn(exchanges), basket: basketIn(answer) }
  return { answer, exchanges, figures }
}

/** Everything that a program does that has the team work, from its first request to its last. */
async function useTeam(
  scene: Scene,
  proxy: RecordingProxy,
  connect: ConnectCaller,
): Promise<Measured> {
  let answer: string
  let progress = 0
  {
    await using caller = await connect(proxy.url, scene.playground.gateway.token)
    const { name } = caller
    const text = 'Add two figs to my basket, then show my basket'
    scene.terminal.says(name, `finds ${(await caller.listTools()).join(', ')}, and asks: ${text}`)
    answer = await caller.call(TEAM, text, (message) => {
      progress++
      scene.terminal.says(name, `gets progress: ${message}`)
    })
    scene.terminal.says(name, `gets: ${answer}`)
  }
  const call = proxy.exchanges.find(({ rpcMethod }) => rpcMethod === 'tools/call')
  const requests = requestsIn(await scene.exchanges('basket', 'gateway'))
  return {
    figures: {
      revision: call?.protocolVersion ?? 'none',
      initialize: proxy.count({ rpcMethod: 'initialize' }),
      'tools/call': proxy.count({ rpcMethod: 'tools/call' }),
      progress: progress > 0,
      'sessions with the shop': requests['initialize'] ?? 0,
      'ended sessions with the shop': requests['DELETE'] ?? 0,
      basket: basketIn(answer),
    },
    expected: {
      'tools/call': 1,
      'sessions with the shop': 1,
      'ended sessions with the shop': 1,
      basket: '2 × figs',
    },
  }
}

/** Content of the basket in the answer of a tool. */
function basketIn(answer: string): string {
  return / holds (.*)$/.exec(answer)?.[1] ?? (answer.endsWith(' is empty') ? 'nothing' : 'unknown')
}

/** Number of requests of each kind. */
export function requestsIn(exchanges: readonly Exchange[]): Record<string, number> {
  const count = (rpcMethod: string): number =>
    exchanges.filter((one) => one.rpcMethod === rpcMethod).length
  const posts = exchanges.filter(({ httpMethod }) => httpMethod === 'POST')
  return {
    'server/discover': count('server/discover'),
    initialize: count('initialize'),
    initialized: count('notifications/initialized'),
    'tools/call': count('tools/call'),
    refused: posts.filter(({ kind }) => kind === 'loss').length,
    POSTs: posts.filter(({ kind }) => kind !== 'stream').length,
    'session ids': new Set(posts.flatMap(({ sessionId }) => sessionId ?? [])).size,
    DELETE: exchanges.filter(({ httpMethod }) => httpMethod === 'DELETE').length,
  }
}

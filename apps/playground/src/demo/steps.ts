import { startRecordingProxy } from '@x/mcp-testing'
import type { ExchangeMark } from '@x/mcp-testing'
import type { Exchange, ExecutionType } from '../timeline/events.ts'
import { UserError } from '../user-error.ts'
import { connectMcpClient, connectSdkClient } from './callers.ts'
import type { ConnectCaller } from './callers.ts'
import { requestsIn } from './scene.ts'
import type { Measured, Scene } from './scene.ts'
import type { Figures } from './terminal.ts'

/** Requests of the first call: the client asks for the revision, opens a session, and calls. */
const FIRST_CALL: Figures = {
  'server/discover': 1,
  initialize: 1,
  initialized: 1,
  'tools/call': 1,
  POSTs: 4,
}
/** Requests of a call whose session was lost: the refused call, one handshake, and the call. */
const RECOVERED: Figures = {
  'server/discover': 0,
  initialize: 1,
  initialized: 1,
  refused: 1,
  'tools/call': 2,
  POSTs: 4,
}

/** Requests of calls in a session that is open. */
function callsOnly(count: number): Figures {
  return { 'server/discover': 0, initialize: 0, initialized: 0, 'tools/call': count, POSTs: count }
}

/** What the basket holds, as a tool of the shop has answered. */
function basketIn(answer: string): string {
  return / holds (.*)$/.exec(answer)?.[1] ?? (answer.endsWith(' is empty') ? 'nothing' : answer)
}

/** The whole story. Each step measures, and says what it must measure. */
export async function runSteps(scene: Scene, executionType: ExecutionType): Promise<void> {
  const isKept = executionType === 'playground'
  await firstCall(scene, isKept)
  await sharedSession(scene, isKept)
  if (isKept) await lostSession(scene)
  await serverFromNpm(scene, isKept)
  await memoryServer(scene)
  await newProcess(scene, isKept)
  if (isKept) await parallelCalls(scene)
  if (scene.can('basket', 'switch-era')) {
    await statelessServer(scene, isKept)
    await question(scene)
  }
  await sessionsOfTheRun(scene)
  await strangerAtGateway(scene)
  await sdkClientAtGateway(scene)
  await mcpClientAtGateway(scene)
  await givenUpCall(scene)
  await longCall(scene)
}

async function firstCall(scene: Scene, isKept: boolean): Promise<void> {
  await scene.step(
    {
      name: 'first call',
      title: 'The agent makes its first call',
      hint: 'The client asks the server which revision it speaks (400: one with sessions), opens a session, and calls the tool.',
    },
    async () => {
      const { answer } = await scene.say('Add two apples to my basket')
      const requests = requestsIn(await scene.exchanges('basket'))
      return {
        figures: { ...requests, basket: basketIn(answer) },
        expected: { ...FIRST_CALL, DELETE: isKept ? 0 : 1, basket: '2 × apples' },
      }
    },
  )
}

async function sharedSession(scene: Scene, isKept: boolean): Promise<void> {
  await scene.step(
    {
      name: 'shared session',
      title: 'Two tasks of a sub-agent share a session',
      hint: isKept
        ? 'The session is kept from run to run: no call needs a handshake.'
        : 'The first call of the run opens the session, and the end of the run ends it.',
    },
    async () => {
      const { answer } = await scene.say('Add three pears to my basket, then show my basket')
      const requests = requestsIn(await scene.exchanges('basket'))
      return {
        figures: { ...requests, basket: basketIn(answer) },
        expected: isKept
          ? { ...callsOnly(2), 'session ids': 1, DELETE: 0, basket: '2 × apples, 3 × pears' }
          : { initialize: 1, 'tools/call': 2, 'session ids': 1, DELETE: 1, basket: '3 × pears' },
      }
    },
  )
}

async function lostSession(scene: Scene): Promise<void> {
  await scene.step(
    {
      name: 'lost session',
      title: 'The server forgets its sessions',
      hint: 'It refuses the next call. The client opens a new session, and sends the call again: the server did not execute it. What the server kept in the session is lost.',
    },
    async () => {
      await scene.trouble({ name: 'forget-sessions', server: 'basket' })
      const { answer } = await scene.say('Add one plum to my basket')
      const requests = requestsIn(await scene.exchanges('basket'))
      return {
        figures: { ...requests, basket: basketIn(answer) },
        expected: { ...RECOVERED, basket: '1 × plum' },
      }
    },
  )
}

async function serverFromNpm(scene: Scene, isKept: boolean): Promise<void> {
  await scene.step(
    {
      name: 'server from npm',
      title: 'A server from npm answers in event streams',
      hint: '@modelcontextprotocol/server-everything: a first call, then a restart of its process, then another call.',
    },
    async () => {
      const first = await scene.say('Echo "hello"')
      const call = (await scene.exchanges('everything')).find(({ toolName }) => toolName === 'echo')
      const details = call && scene.playground.exchangeDetails(call.id)
      const requests = requestsIn(await scene.exchanges('everything'))
      scene.mark()
      const trouble = scene.can('everything', 'restart-server')
        ? 'restart-server'
        : 'forget-sessions'
      await scene.trouble({ name: trouble, server: 'everything' })
      const second = await scene.say('Echo "hello again"')
      const after = requestsIn(await scene.exchanges('everything'))
      return {
        figures: {
          ...requests,
          'content type': details?.response?.headers['content-type'] ?? 'none',
          'refused after the restart': after['refused'] ?? 0,
          'initialize after the restart': after['initialize'] ?? 0,
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
  )
}

async function memoryServer(scene: Scene): Promise<void> {
  await scene.step(
    {
      name: 'server over stdio',
      title: 'A server runs as a child process of the agent',
      hint: '@modelcontextprotocol/server-memory speaks over its standard input and output: there is no HTTP.',
    },
    async () => {
      const { answer } = await scene.say(
        'Remember that Ada likes pears, then what do you remember?',
      )
      return {
        figures: {
          'HTTP exchanges': (await scene.exchanges('memory')).length,
          remembers: answer.includes('likes pears'),
        },
        expected: { 'HTTP exchanges': 0, remembers: true },
      }
    },
  )
}

async function newProcess(scene: Scene, isKept: boolean): Promise<void> {
  await scene.step(
    {
      name: isKept ? 'resume in a new process' : 'new session in a new process',
      title: 'The agent process is killed (SIGKILL), and another one starts',
      hint: isKept
        ? 'Debug state has kept the session: the new process needs no handshake, and finds its basket.'
        : 'Nobody has kept the session: the new process opens another one.',
    },
    async () => {
      const pid = scene.state.processes['agent']?.pid
      await scene.trouble({ name: 'kill-process', process: 'agent' })
      const { answer } = await scene.say('Show my basket')
      const exchanges = await scene.exchanges('basket')
      return {
        figures: {
          ...requestsIn(exchanges),
          resumed: exchanges.filter(({ kind }) => kind === 'resume').length,
          'other process': scene.state.processes['agent']?.pid !== pid,
          basket: basketIn(answer),
        },
        expected: isKept
          ? { ...callsOnly(1), resumed: 1, 'other process': true, basket: '1 × plum' }
          : { initialize: 1, DELETE: 1, resumed: 0, 'other process': true, basket: 'nothing' },
      }
    },
  )
}

async function parallelCalls(scene: Scene): Promise<void> {
  await scene.step(
    {
      name: 'parallel calls',
      title: '50 calls at once lose their session',
      hint: 'Each is executed once, and all of them together need one handshake.',
    },
    async () => {
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
  )
}

async function statelessServer(scene: Scene, isKept: boolean): Promise<void> {
  await scene.step(
    {
      name: 'stateless server',
      title: 'The server changes to revision 2026-07-28',
      hint: 'This revision has no sessions. The same client notices, and goes on without a handshake for each run.',
    },
    async () => {
      await scene.trouble({ name: 'switch-era', server: 'basket' })
      await scene.say('Add one apple to my basket')
      await scene.exchanges('basket')
      scene.mark()
      const { answer } = await scene.say('Add one apple to my basket, then show my basket')
      const exchanges = await scene.exchanges('basket')
      const revisions = new Set(exchanges.map(({ revision }) => revision))
      return {
        figures: {
          ...requestsIn(exchanges),
          revision: [...revisions].join(', '),
          basket: basketIn(answer),
        },
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
  )
}

async function question(scene: Scene): Promise<void> {
  await scene.step(
    {
      name: 'question to a person',
      title: 'The server asks a person, and the agent process is killed meanwhile',
      hint: 'The graph stops with an interrupt. Another process continues the same call with the answer.',
    },
    async () => {
      const { question: asked } = await scene.say('Check out')
      if (asked === undefined) throw new UserError('The server asked nothing')
      const before = (await scene.exchanges('basket')).length
      await scene.trouble({ name: 'kill-process', process: 'agent' })
      const content = { name: 'Ada', address: '1 Main Street', express: true, payment: 'invoice' }
      const { answer } = await scene.answer(asked, content)
      const exchanges = await scene.exchanges('basket')
      return {
        figures: {
          'calls before the answer': before,
          'calls with the answer': exchanges.length - before,
          sessions: requestsIn(exchanges)['session ids'] ?? 0,
          answer,
        },
        expected: {
          sessions: 0,
          answer: 'Ordered 2 × apple for Ada, 1 Main Street. Payment: invoice. Delivery: express.',
        },
      }
    },
  )
}

async function sessionsOfTheRun(scene: Scene): Promise<void> {
  await scene.step(
    {
      name: 'sessions of the run',
      title: 'The execution type changes to "runtime"',
      hint: 'As in production: the first call of a run opens the session, all agents of the run share it, and the end of the run ends it (DELETE).',
    },
    async () => {
      if (scene.state.servers.find(({ name }) => name === 'basket')?.revision === '2026-07-28') {
        await scene.trouble({ name: 'switch-era', server: 'basket' })
      }
      await scene.trouble({ name: 'set-execution-type', executionType: 'runtime' })
      const { answer } = await scene.say('Add two figs to my basket, then show my basket')
      const requests = requestsIn(await scene.exchanges('basket'))
      return {
        figures: { ...requests, basket: basketIn(answer) },
        expected: {
          initialize: 1,
          initialized: 1,
          'tools/call': 2,
          'session ids': 1,
          DELETE: 1,
          basket: '2 × figs',
        },
      }
    },
  )
}

/** Name of the tool with which the gateway offers the team of the sample. */
const TEAM = 'shopping_team'

async function strangerAtGateway(scene: Scene): Promise<void> {
  await scene.step(
    {
      name: 'caller without the token',
      title: 'The agents are an MCP server, too',
      hint: 'The gateway offers them to other programs. One without the token gets a 401.',
    },
    async () => {
      const { url } = scene.playground.gateway
      await using proxy = await startRecordingProxy(url)
      scene.terminal.says('sdk-v1', 'connects without a token')
      const stranger = await connectSdkClient(proxy.url, undefined).catch(() => undefined)
      await stranger?.[Symbol.asyncDispose]()
      return {
        figures: { requests: proxy.count(), refused: proxy.count({ status: 401 }) },
        expected: { requests: 1, refused: 1 },
      }
    },
  )
}

async function sdkClientAtGateway(scene: Scene): Promise<void> {
  await scene.step(
    {
      name: 'caller with a session',
      title: 'The client of SDK v1 has the agents work',
      hint: 'Revision 2025-11-25, with a session. The agents use a session of their own with the shop, which ends with their run.',
    },
    () =>
      useOf(scene, { who: 'sdk-v1', connect: connectSdkClient }, (mark) => ({
        figures: {
          initialize: mark.count({ rpcMethod: 'initialize' }),
          DELETE: mark.count({ httpMethod: 'DELETE' }),
        },
        expected: { revision: '2025-11-25', initialize: 1, DELETE: 1, progress: true },
      })),
  )
}

async function mcpClientAtGateway(scene: Scene): Promise<void> {
  await scene.step(
    {
      name: 'caller without a session',
      title: 'McpClient does the same, at the same URL',
      hint: 'Revision 2026-07-28, without a session: one question about the revision, and nothing to end.',
    },
    () =>
      useOf(scene, { who: 'mcp-client', connect: connectMcpClient }, (mark) => ({
        figures: {
          'server/discover': mark.count({ rpcMethod: 'server/discover' }),
          initialize: mark.count({ rpcMethod: 'initialize' }),
        },
        expected: { revision: '2026-07-28', 'server/discover': 1, initialize: 0 },
      })),
  )
}

/** Everything that a caller does, from its first request to its last. */
async function useOf(
  scene: Scene,
  { who, connect }: { readonly who: string; readonly connect: ConnectCaller },
  measure: (mark: ExchangeMark) => Measured,
): Promise<Measured> {
  const { url, token } = scene.playground.gateway
  await using proxy = await startRecordingProxy(url)
  const mark = proxy.mark()
  let tools: readonly string[]
  let answer: string
  let progress = 0
  {
    await using caller = await connect(proxy.url, token)
    tools = await caller.listTools()
    const text = 'Add two figs to my basket, then show my basket'
    scene.terminal.says(who, `finds ${tools.join(', ')}, and asks: ${text}`)
    answer = await caller.call(TEAM, text, {
      onProgress(message) {
        progress++
        scene.terminal.says(who, `gets progress: ${message}`)
      },
    })
    scene.terminal.says(who, `gets: ${answer}`)
  }
  const call = mark.exchanges().find(({ rpcMethod }) => rpcMethod === 'tools/call')
  const { figures, expected } = measure(mark)
  const requests = requestsIn(await scene.exchanges('basket', 'gateway'))
  return {
    figures: {
      revision: call?.protocolVersion ?? 'none',
      ...figures,
      'tools/call': mark.count({ rpcMethod: 'tools/call' }),
      progress: progress > 0,
      'sessions with the shop': requests['initialize'] ?? 0,
      'ended sessions with the shop': requests['DELETE'] ?? 0,
      basket: basketIn(answer),
    },
    expected: {
      ...expected,
      'tools/call': 1,
      'sessions with the shop': 1,
      'ended sessions with the shop': 1,
      basket: '2 × figs',
    },
  }
}

async function givenUpCall(scene: Scene): Promise<void> {
  await scene.step(
    {
      name: 'given-up call',
      title: 'A caller gives up while the agents wait for a server',
      hint: 'The gateway ends their run, and their own call is cancelled at the server.',
    },
    async () => {
      const { url, token } = scene.playground.gateway
      await using caller = await connectMcpClient(url, token)
      const abort = new AbortController()
      scene.terminal.says('mcp-client', 'asks: Count to 9')
      const outcome = caller.call(TEAM, 'Count to 9', { signal: abort.signal }).then(
        (answer) => answer,
        () => (abort.signal.aborted ? 'given up' : 'failed'),
      )
      await scene.until(({ exchanges }) => exchanges.find(isLongCall), 'the call of the server')
      scene.terminal.says('mcp-client', 'gives up')
      abort.abort()
      const call = await scene.until(
        ({ exchanges }) => exchanges.find((one) => isLongCall(one) && one.durationMs !== undefined),
        'the end of the call of the server',
      )
      const told = await scene.until(
        ({ exchanges }) =>
          exchanges.find(
            ({ from, rpcMethod }) => from === 'gateway' && rpcMethod === 'notifications/cancelled',
          ),
        'the cancellation at the server',
      )
      return {
        figures: {
          outcome: await outcome,
          'call of the server': call.problem ?? 'answered',
          cancelled: told.to,
        },
        expected: {
          outcome: 'given up',
          'call of the server': 'client left',
          cancelled: 'everything',
        },
      }
    },
  )
}

function isLongCall({ toolName, from }: Exchange): boolean {
  return toolName === 'trigger-long-running-operation' && from === 'gateway'
}

async function longCall(scene: Scene): Promise<void> {
  const hasRedis = scene.playground.hasRedis
  await scene.step(
    {
      name: 'call that outlives processes',
      title: hasRedis
        ? 'A call outlives the agent process and the gateway process'
        : 'A call outlives the agent process',
      hint: hasRedis
        ? 'The gateway makes the call a task. The next agent process waits for the same task, and the next gateway process goes on with the part that was not finished.'
        : 'The gateway makes the call a task, and the next agent process waits for it. With a redis-server, the task would also outlive the gateway process.',
    },
    async () => {
      const before = scene.state.processes
      const done = scene.longTask(hasRedis ? 'gateway' : 'agent')
      if (hasRedis) {
        await scene.until(
          ({ processes: { gateway } }) =>
            gateway?.state === 'running' && gateway.pid !== before['gateway']?.pid
              ? true
              : undefined,
          'the next gateway process',
        )
        await scene.trouble({ name: 'kill-process', process: 'agent' })
      }
      const answer = await done
      const { processes } = scene.state
      const names = Object.keys(processes)
      const exchanges = await scene.exchanges('gateway')
      const parts = answer.match(/\d+(?=[,;.])/g) ?? []
      return {
        figures: {
          'processes killed': names.filter((name) => processes[name]?.pid !== before[name]?.pid)
            .length,
          'tools/call': requestsIn(exchanges)['tools/call'] ?? 0,
          'parts of the report': parts.join(' '),
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
  )
}

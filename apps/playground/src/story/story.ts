import type { ExchangeMark } from '@x/test-kit'
import { AgentProcess } from './agent-process-handle.ts'
import type { StartAgentOptions } from './agent-process-handle.ts'
import { checkStep } from './check.ts'
import type { StepResult } from './check.ts'
import type { StoryServer, World } from './world.ts'

/** What the story tells while it happens. */
export interface Narrator {
  step(title: string): void
  says(who: 'user' | 'agent' | 'world', text: string): void
  result(result: StepResult): void
}

export interface StoryOptions {
  readonly world: World
  readonly narrator: Narrator
  readonly agentFile: string
  /** Servers of the user's own that the agent names, beside those of the world. */
  readonly servers: Readonly<Record<string, string>>
}

/** How many calls share the session after the first one. */
const SHARED_CALLS = 5

/** The main job from beginning to end. Every step measures, and checks what it measured. */
export async function tellStory(options: StoryOptions): Promise<readonly StepResult[]> {
  const { world, narrator, servers, agentFile } = options
  const results: StepResult[] = []
  const { shop, everything, calculator } = world
  const start: StartAgentOptions = {
    agentFile,
    debugState: world.debugState,
    servers: {
      ...servers,
      ...Object.fromEntries(world.servers.map(({ slug, proxy }) => [slug, proxy.url])),
    },
  }
  const told = (result: StepResult): void => {
    results.push(result)
    narrator.result(result)
  }

  let counter: number
  {
    narrator.step('The agent starts, and makes its first call')
    await using agent = await AgentProcess.start(start)
    narrator.says('world', `agent process ${agent.pid} is ready`)
    const ask = asking(agent, narrator)
    told(
      checkStep(
        'start',
        { 'requests before the first call': requestsTo(world.servers) },
        { 'requests before the first call': 0 },
      ),
    )

    const first = shop.proxy.mark()
    counter = counterIn(await ask('Count up by 2'))
    told(checkStep('first call', { ...handshakes(first), counter }, { ...FIRST_CALL, counter: 2 }))

    narrator.step(`${SHARED_CALLS} more calls share the session`)
    const shared = shop.proxy.mark()
    for (let n = 0; n < SHARED_CALLS; n++) counter = counterIn(await ask('Count up by 1'))
    told(
      checkStep(
        'shared session',
        { ...handshakes(shared), 'new POST connections': shared.postConnections(), counter },
        { ...calls(SHARED_CALLS), 'new POST connections': 0, counter: 2 + SHARED_CALLS },
      ),
    )

    narrator.step('The server forgets the session')
    await shop.forgetSessions()
    const lost = shop.proxy.mark()
    counter = counterIn(await ask('Count up by 10'))
    told(
      checkStep(
        'session loss',
        { ...healing(lost), 'new POST connections': lost.postConnections(), counter },
        // The counter lived in the session that the server forgot.
        { ...HEALED, 'new POST connections': 0, counter: 10 },
      ),
    )

    narrator.step('A server from npm: first call, then its process is replaced by another')
    const real = everything.proxy.mark()
    const echoed = await ask('Please echo "hello"')
    told(
      checkStep(
        'first call (npm server)',
        { ...handshakes(real), answered: echoed.includes('hello') },
        { ...FIRST_CALL, answered: true },
      ),
    )
    await everything.forgetSessions()
    const restarted = everything.proxy.mark()
    const again = await ask('Please echo "are you there"')
    told(
      checkStep(
        'session loss (npm server)',
        {
          ...healing(restarted),
          'new POST connections': restarted.postConnections(),
          answered: again.includes('are you there'),
        },
        { ...HEALED, 'new POST connections': 0, answered: true },
      ),
    )

    narrator.step('A stateless server of 2026-07-28, through the same kind of tool')
    const modern = calculator.proxy.mark()
    const sum = await ask('What is 2 plus 3?')
    told(
      checkStep(
        'stateless server',
        { ...stateless(modern), answer: sum },
        { 'server/discover': 1, initialize: 0, 'tools/call': 1, 'session ids': 0, answer: '5' },
      ),
    )

    narrator.step('The agent process is killed (SIGKILL), and a new one goes on')
    await agent.kill()
    narrator.says('world', `agent process ${agent.pid} is dead`)
  }

  const before = sessionsOf(shop)
  await using successor = await AgentProcess.start(start)
  narrator.says('world', `agent process ${successor.pid} is ready`)
  const ask = asking(successor, narrator)
  const resumed = shop.proxy.mark()
  const next = counterIn(await ask('Count up by 1'))
  const posts = resumed.exchanges().filter(({ httpMethod }) => httpMethod === 'POST')
  told(
    checkStep(
      'resume in a new process',
      {
        ...handshakes(resumed),
        'old session id': posts.every(({ sessionId }) => sessionId === before.at(-1)),
        counter: next,
      },
      { ...calls(1), 'old session id': true, counter: counter + 1 },
    ),
  )

  const known = calculator.proxy.mark()
  const difference = await ask('What is 40 plus 2?')
  told(
    checkStep(
      'stateless server, new process',
      { ...stateless(known), answer: difference },
      { 'server/discover': 0, initialize: 0, 'tools/call': 1, 'session ids': 0, answer: '42' },
    ),
  )

  narrator.step('A sub-agent shares the session of the run')
  await using team = await AgentProcess.start({ ...start, kind: 'team' })
  narrator.says('world', `agent process ${team.pid} is ready: an agent with a sub-agent, the clerk`)
  const run = shop.proxy.mark()
  const together = await asking(team, narrator)('Count up by 2, then let the clerk count up by 3')
  told(
    checkStep(
      'sub-agent in the same run',
      { ...runFigures(run), counter: counterIn(together) },
      { initialize: 1, initialized: 1, 'tools/call': 2, 'session ids': 1, DELETE: 1, counter: 5 },
    ),
  )
  return results
}

/** The first question to a server of which nothing is known is of which kind it is. */
const FIRST_CALL = {
  'server/discover': 1,
  initialize: 1,
  initialized: 1,
  'tools/call': 1,
  POSTs: 4,
}
const HEALED = {
  'server/discover': 0,
  initialize: 1,
  initialized: 1,
  refused: 1,
  'tools/call': 2,
  POSTs: 4,
}

function calls(count: number): Record<string, number> {
  return { 'server/discover': 0, initialize: 0, initialized: 0, 'tools/call': count, POSTs: count }
}

/** What went over the wire since the mark. GET streams are counted apart: they carry no request. */
function handshakes(mark: ExchangeMark): Record<string, number> {
  return {
    'server/discover': mark.count({ rpcMethod: 'server/discover' }),
    initialize: mark.count({ rpcMethod: 'initialize' }),
    initialized: mark.count({ rpcMethod: 'notifications/initialized' }),
    'tools/call': mark.count({ rpcMethod: 'tools/call' }),
    POSTs: mark.count({ httpMethod: 'POST' }),
    'GET streams': mark.count({ httpMethod: 'GET' }),
  }
}

function healing(mark: ExchangeMark): Record<string, number> {
  const refused = mark
    .exchanges()
    .filter(({ httpMethod, status }) => httpMethod === 'POST' && (status ?? 0) >= 400)
  return { ...handshakes(mark), refused: refused.length }
}

/** All that one run did: opened by the first call of whichever agent, and ended with the run. */
function runFigures(mark: ExchangeMark): Record<string, number> {
  const { initialize = 0, initialized = 0, 'tools/call': toolCalls = 0 } = handshakes(mark)
  const ids = mark.exchanges().flatMap(({ sessionId }) => sessionId ?? [])
  return {
    initialize,
    initialized,
    'tools/call': toolCalls,
    'session ids': new Set(ids).size,
    DELETE: mark.count({ httpMethod: 'DELETE' }),
  }
}

function stateless(mark: ExchangeMark): Record<string, number> {
  const ids = mark.exchanges().filter(({ sessionId }) => sessionId !== undefined)
  return {
    'server/discover': mark.count({ rpcMethod: 'server/discover' }),
    initialize: mark.count({ rpcMethod: 'initialize' }),
    'tools/call': mark.count({ rpcMethod: 'tools/call' }),
    'listen streams': mark.count({ rpcMethod: 'subscriptions/listen' }),
    'session ids': ids.length,
  }
}

function requestsTo(servers: readonly StoryServer[]): number {
  return servers.reduce((sum, { proxy }) => sum + proxy.count(), 0)
}

function sessionsOf({ proxy }: StoryServer): readonly string[] {
  return proxy.exchanges.flatMap(({ assignedSessionId }) => assignedSessionId ?? [])
}

function counterIn(answer: string): number {
  return Number(answer.match(/counter is (\d+)/)?.[1])
}

function asking(agent: AgentProcess, narrator: Narrator): (text: string) => Promise<string> {
  return async (text) => {
    narrator.says('user', text)
    const answer = await agent.ask(text)
    narrator.says('agent', answer)
    return answer
  }
}

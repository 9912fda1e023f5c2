import { randomBytes } from 'node:crypto'
import { startRecordingProxy } from '@x/mcp-testing'
import type { RecordingProxy } from '@x/mcp-testing'
import { ONE_USE, useOf } from '../caller-use.ts'
import { callerWithoutSession, callerWithSession } from '../callers.ts'
import { checkStep } from '../check.ts'
import { stateless, wholeSession } from '../exchange-figures.ts'
import type { Scene } from '../scene.ts'
import { givenUpCall } from './given-up-call.ts'

/** What the story needs of an agent that it offers to others. */
export interface Offerable {
  readonly pid: number
  /** Makes it an MCP server. Returns its URL. */
  offer(token: string): Promise<string>
  /** Ends that. Returns how often others had it run. */
  withdraw(): Promise<number>
  /** Lets its process end. Returns the exit code; `null` if it had to be killed. */
  stop(): Promise<number | null>
}

/** How much each caller has the agent count up. */
const BY = 2
const SENTENCE = `Count up by ${BY}`

/**
 * The other direction: the agent, which uses MCP servers, is one. It goes on in its own session with the
 * shop, whoever calls.
 */
export async function offer(scene: Scene, agent: Offerable, counter: number): Promise<void> {
  const { narrator, tell } = scene
  narrator.step(
    'The agent itself becomes an MCP server, for whoever has its token',
    'Who comes without it gets a 401, and the agent does not run.',
  )
  const token = randomBytes(16).toString('hex')
  const url = await agent.offer(token)
  await using proxy = await startRecordingProxy(url)
  const unfollow = narrator.follow({ slug: 'gateway', proxy })
  narrator.says('world', `agent process ${agent.pid} listens at ${url}`)
  narrator.says('client', 'the SDK v1 from npm, without the token')
  const stranger = await callerWithSession(proxy.url, undefined).catch(() => undefined)
  await stranger?.[Symbol.asyncDispose]()
  tell(
    checkStep(
      'caller without the token',
      { requests: proxy.count(), refused: proxy.count({ status: 401 }) },
      { requests: 1, refused: 1 },
    ),
  )

  const caller = { proxy, token, sentence: SENTENCE }
  narrator.step(
    'A client with a session has the agent count',
    'It hears of each step of the agent, which goes on in the session that it has with the shop.',
  )
  narrator.says('client', 'the SDK v1 from npm, with the token')
  const legacy = await useOf(scene, { ...caller, connect: callerWithSession })
  tell(
    checkStep(
      'caller with a session',
      { ...wholeSession(legacy.mark), ...legacy.figures },
      {
        ...ONE_USE,
        initialize: 1,
        initialized: 1,
        'session ids': 1,
        DELETE: 1,
        revision: '2025-11-25',
        'POSTs to the shop': 1,
        counter: counter + BY,
      },
    ),
  )

  narrator.step(
    'A client without a session does the same, at the same URL',
    'The gateway speaks both kinds of MCP: this one needs no handshake, and leaves nothing to end.',
  )
  narrator.says('client', 'McpClient, which asks first what the server speaks')
  const modern = await useOf(scene, { ...caller, connect: callerWithoutSession })
  tell(
    checkStep(
      'caller without a session',
      { ...stateless(modern.mark), ...modern.figures },
      {
        ...ONE_USE,
        'server/discover': 1,
        initialize: 0,
        'session ids': 0,
        revision: '2026-07-28',
        'POSTs to the shop': 1,
        counter: counter + 2 * BY,
      },
    ),
  )

  await givenUpCall(scene, caller)
  await endOfOffer(scene, agent, { url, proxy })
  unfollow()
}

interface Offer {
  readonly url: string
  readonly proxy: RecordingProxy
}

/** A process that nothing holds any more ends by itself, with exit code 0. */
async function endOfOffer(
  { narrator, tell }: Scene,
  agent: Offerable,
  { url, proxy }: Offer,
): Promise<void> {
  narrator.step(
    'The agent is a server no longer, and its process ends',
    'By itself: a timer or a socket that was left behind would hold it.',
  )
  const runs = await agent.withdraw()
  narrator.says('world', `agent process ${agent.pid} ran ${runs} times for others`)
  const isListening = await answers(url)
  const exitCode = await agent.stop()
  const open = proxy.exchanges.filter(({ end }) => end === undefined)
  tell(
    checkStep(
      'end of the offer',
      {
        runs,
        'open requests': open.length,
        listens: isListening,
        'exit code': exitCode ?? 'killed',
      },
      { runs: 3, 'open requests': 0, listens: false, 'exit code': 0 },
    ),
  )
}

async function answers(url: string): Promise<boolean> {
  return fetch(url, { signal: AbortSignal.timeout(5_000) }).then(
    () => true,
    () => false,
  )
}

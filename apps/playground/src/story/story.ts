import { AgentProcess } from './agent-process-handle.ts'
import type { AgentExecutionType } from '../agent/execution-type.ts'
import type { StartAgentOptions } from './agent-process-handle.ts'
import type { StepResult } from './check.ts'
import { asking } from './conversation.ts'
import type { Narrator } from './narrator.ts'
import type { Scene } from './scene.ts'
import { firstCalls } from './steps/first-calls.ts'
import { longCall } from './steps/long-call.ts'
import { offer } from './steps/offer.ts'
import { newSession, resumption } from './steps/resumption.ts'
import { serverFromNpm } from './steps/server-from-npm.ts'
import { sessionLoss } from './steps/session-loss.ts'
import { statelessServer, statelessServerAgain } from './steps/stateless-server.ts'
import { keptTeam, subAgent } from './steps/sub-agent.ts'
import type { World } from './world.ts'

export interface StoryOptions {
  readonly world: World
  readonly narrator: Narrator
  readonly agentFile: string
  /** Servers of the user's own that the agent names, beside those of the world. */
  readonly servers: Readonly<Record<string, string>>
  readonly executionType: AgentExecutionType
}

/** The main job from beginning to end. Every step measures, and checks what it measured. */
export async function tellStory(options: StoryOptions): Promise<readonly StepResult[]> {
  const { world, narrator, servers, agentFile, executionType } = options
  const results: StepResult[] = []
  const start: StartAgentOptions = {
    agentFile,
    executionType,
    debugState: world.debugState,
    servers: {
      ...servers,
      ...Object.fromEntries(world.servers.map(({ slug, proxy }) => [slug, proxy.url])),
    },
  }
  const tell = (result: StepResult): void => {
    results.push(result)
    narrator.result(result)
  }
  const isKept = executionType === 'playground'
  const scene: Scene = { world, narrator, start, tell }

  let left: number
  {
    narrator.step(
      'The agent starts, and makes its first call',
      'Nobody knows the server yet: it is asked what it speaks (a 400 says: sessions), a session is opened, and the tool called.',
    )
    await using agent = await AgentProcess.start(start)
    narrator.says('world', `agent process ${agent.pid} is ready`)
    const ask = asking(agent, narrator)
    await firstCalls(scene, ask)
    left = await sessionLoss(scene, ask)
    await serverFromNpm(scene, ask)
    await statelessServer(scene, ask)

    narrator.step(
      isKept
        ? 'The agent process is killed (SIGKILL), and a new one goes on'
        : 'The agent process is killed (SIGKILL), and a new one starts anew',
      isKept
        ? 'The debug-state service has kept the session: the new process needs one POST, and no handshake.'
        : `With execution type "${executionType}" nobody has kept the session: the new process opens one.`,
    )
    await agent.kill()
    narrator.says('world', `agent process ${agent.pid} is dead`)
  }

  const before = world.shop.proxy.exchanges.flatMap(({ assignedSessionId: id }) => id ?? [])
  await using successor = await AgentProcess.start(start)
  narrator.says('world', `agent process ${successor.pid} is ready`)
  const ask = asking(successor, narrator)
  const counter = isKept
    ? await resumption(scene, ask, { sessionId: before.at(-1), counter: left })
    : await newSession(scene, ask)
  await statelessServerAgain(scene, ask)
  if (isKept) await keptTeam(scene)
  await subAgent(scene)
  await offer(scene, successor, counter)
  await longCall(scene)
  return results
}

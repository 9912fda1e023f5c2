import { AgentProcess } from '../agent-process-handle.ts'
import { checkStep } from '../check.ts'
import { asking, counterIn } from '../conversation.ts'
import { wholeSession } from '../exchange-figures.ts'
import type { Scene } from '../scene.ts'

/** All that one run did: a session opened by the first call of whichever agent, and ended with the run. */
export async function subAgent({ world, narrator, start, tell }: Scene): Promise<void> {
  narrator.step(
    'A sub-agent shares the session of the run',
    'The first call of either opens it, and the end of the run ends it (DELETE).',
  )
  await using team = await AgentProcess.start({ ...start, kind: 'team' })
  narrator.says('world', `agent process ${team.pid} is ready: an agent with a sub-agent, the clerk`)
  const run = world.shop.proxy.mark()
  const together = await asking(team, narrator)('Count up by 2, then let the clerk count up by 3')
  tell(
    checkStep(
      'sub-agent in the same run',
      { ...wholeSession(run), counter: counterIn(together) },
      { initialize: 1, initialized: 1, 'tools/call': 2, 'session ids': 1, DELETE: 1, counter: 5 },
    ),
  )
}

import { AgentProcess } from '../agent-process-handle.ts'
import { checkStep } from '../check.ts'
import { asking, counterIn } from '../conversation.ts'
import { wholeSession } from '../exchange-figures.ts'
import type { Scene } from '../scene.ts'

/** In the playground a team goes on in the session that was kept, and leaves it. */
export async function keptTeam({ world, narrator, start, tell }: Scene): Promise<void> {
  narrator.step(
    'A team goes on in the session that was kept',
    'An agent and its sub-agent share it with the process before, and leave it on the server.',
  )
  await using team = await AgentProcess.start({ ...start, kind: 'team' })
  narrator.says('world', `agent process ${team.pid} is ready: an agent with a sub-agent, the clerk`)
  const mark = world.shop.proxy.mark()
  const cart = await asking(
    team,
    narrator,
  )('Put apples into the cart, then let the clerk put pears into the cart')
  await team.stop()
  tell(
    checkStep(
      'team in the kept session',
      { ...wholeSession(mark), cart },
      {
        initialize: 0,
        initialized: 0,
        'tools/call': 2,
        'session ids': 1,
        DELETE: 0,
        cart: 'cart holds apples, pears',
      },
    ),
  )
}

/** All that one run did: a session opened by the first call of whichever agent, and ended with the run. */
export async function subAgent({ world, narrator, start, tell }: Scene): Promise<void> {
  narrator.step(
    'A sub-agent shares the session of the run',
    'As in production (runtime): the first call of either agent opens it, and the end of the run ends it (DELETE).',
  )
  const executionType = start.executionType === 'playground' ? 'runtime' : start.executionType
  await using team = await AgentProcess.start({ ...start, kind: 'team', executionType })
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

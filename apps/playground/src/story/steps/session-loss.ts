import { checkStep } from '../check.ts'
import { counterIn } from '../conversation.ts'
import type { Ask } from '../conversation.ts'
import { HEALED, healing } from '../exchange-figures.ts'
import type { Scene } from '../scene.ts'

/** The call that finds its session gone opens another one. Returns what the counter says then. */
export async function sessionLoss({ world, narrator, tell }: Scene, ask: Ask): Promise<number> {
  const { shop } = world
  narrator.step(
    'The server forgets the session',
    'A 404 refuses the call before it is executed, so it is sent again, once, in a new session. The old counter is gone.',
  )
  await shop.forgetSessions()
  const lost = shop.proxy.mark()
  const counter = counterIn(await ask('Count up by 10'))
  tell(
    checkStep(
      'session loss',
      { ...healing(lost), 'new POST connections': lost.postConnections(), counter },
      // The counter lived in the session that the server forgot.
      { ...HEALED, 'new POST connections': 0, counter: 10 },
    ),
  )
  return counter
}

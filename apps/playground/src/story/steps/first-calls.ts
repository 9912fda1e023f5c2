import { checkStep } from '../check.ts'
import { counterIn } from '../conversation.ts'
import type { Ask } from '../conversation.ts'
import { calls, FIRST_CALL, handshakes } from '../exchange-figures.ts'
import type { Scene } from '../scene.ts'

/** How many calls share the session after the first one. */
const SHARED_CALLS = 5

/** An agent that has just started opens a session with its first call, and then uses it. */
export async function firstCalls({ world, narrator, tell }: Scene, ask: Ask): Promise<void> {
  const { shop, servers } = world
  tell(
    checkStep(
      'start',
      {
        'requests before the first call': servers.reduce(
          (sum, { proxy }) => sum + proxy.count(),
          0,
        ),
      },
      { 'requests before the first call': 0 },
    ),
  )

  const first = shop.proxy.mark()
  const counter = counterIn(await ask('Count up by 2'))
  tell(checkStep('first call', { ...handshakes(first), counter }, { ...FIRST_CALL, counter: 2 }))

  narrator.step(
    `${SHARED_CALLS} more calls share the session`,
    'One POST each, on a connection that is open already.',
  )
  const shared = shop.proxy.mark()
  let last = counter
  for (let n = 0; n < SHARED_CALLS; n++) last = counterIn(await ask('Count up by 1'))
  tell(
    checkStep(
      'shared session',
      { ...handshakes(shared), 'new POST connections': shared.postConnections(), counter: last },
      { ...calls(SHARED_CALLS), 'new POST connections': 0, counter: 2 + SHARED_CALLS },
    ),
  )
}

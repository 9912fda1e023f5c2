import { checkStep } from '../check.ts'
import type { Ask } from '../conversation.ts'
import { FIRST_CALL, handshakes, HEALED, healing } from '../exchange-figures.ts'
import type { Scene } from '../scene.ts'

/** The same with a server that knows nothing of this project. */
export async function serverFromNpm({ world, narrator, tell }: Scene, ask: Ask): Promise<void> {
  const { everything } = world
  narrator.step(
    'A server from npm: first call, then its process is replaced by another',
    'It knows nothing of this project, and refuses a session that it does not know with a 400.',
  )
  const first = everything.proxy.mark()
  const echoed = await ask('Please echo "hello"')
  tell(
    checkStep(
      'first call (npm server)',
      { ...handshakes(first), answered: echoed.includes('hello') },
      { ...FIRST_CALL, answered: true },
    ),
  )

  await everything.forgetSessions()
  const restarted = everything.proxy.mark()
  const again = await ask('Please echo "are you there"')
  tell(
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
}

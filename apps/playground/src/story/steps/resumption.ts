import { checkStep } from '../check.ts'
import { counterIn } from '../conversation.ts'
import type { Ask } from '../conversation.ts'
import { calls, FIRST_CALL, handshakes } from '../exchange-figures.ts'
import type { Scene } from '../scene.ts'

/** What the process before left behind. */
interface Left {
  readonly sessionId: string | undefined
  readonly counter: number
}

/** A new process goes on in the session of the one before. Returns what the counter says then. */
export async function resumption({ world, tell }: Scene, ask: Ask, left: Left): Promise<number> {
  const mark = world.shop.proxy.mark()
  const counter = counterIn(await ask('Count up by 1'))
  const posts = mark.exchanges().filter(({ httpMethod }) => httpMethod === 'POST')
  tell(
    checkStep(
      'resume in a new process',
      {
        ...handshakes(mark),
        'old session id': posts.every(({ sessionId }) => sessionId === left.sessionId),
        counter,
      },
      { ...calls(1), 'old session id': true, counter: left.counter + 1 },
    ),
  )
  return counter
}

/** A new process that finds no session opens one. Returns what the counter says then. */
export async function newSession({ world, tell }: Scene, ask: Ask): Promise<number> {
  const mark = world.shop.proxy.mark()
  const counter = counterIn(await ask('Count up by 1'))
  const figures = { ...handshakes(mark), counter }
  tell(checkStep('new session in a new process', figures, { ...FIRST_CALL, counter: 1 }))
  return counter
}

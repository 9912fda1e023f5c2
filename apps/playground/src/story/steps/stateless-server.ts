import { checkStep } from '../check.ts'
import type { Ask } from '../conversation.ts'
import { stateless } from '../exchange-figures.ts'
import type { Scene } from '../scene.ts'

/** A server without sessions is asked once what it is. */
export async function statelessServer({ world, narrator, tell }: Scene, ask: Ask): Promise<void> {
  narrator.step(
    'A stateless server of 2026-07-28, through the same kind of tool',
    'It says what it is, and is called. The stream tells when its tools change.',
  )
  const mark = world.calculator.proxy.mark()
  const answer = await ask('What is 2 plus 3?')
  tell(
    checkStep(
      'stateless server',
      { ...stateless(mark), answer },
      { 'server/discover': 1, initialize: 0, 'tools/call': 1, 'session ids': 0, answer: '5' },
    ),
  )
}

/** The next process knows what the server is if the record was kept; else it asks again. */
export async function statelessServerAgain(scene: Scene, ask: Ask): Promise<void> {
  const { world, tell, start } = scene
  const mark = world.calculator.proxy.mark()
  const answer = await ask('What is 40 plus 2?')
  const asked = start.executionType === 'playground' ? 0 : 1
  tell(
    checkStep(
      'stateless server, new process',
      { ...stateless(mark), answer },
      {
        'server/discover': asked,
        initialize: 0,
        'tools/call': 1,
        'session ids': 0,
        answer: '42',
      },
    ),
  )
}

import { mkdtempDisposable } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Figure } from '../bench/figure.ts'
import { Worker } from '../bench/worker.ts'
import { postsOf } from './counts.ts'
import { plainFigure } from './figure-of.ts'

/** What the first call of a new process sends that goes on in the session of the process before. */
export async function resumeFigures(server: Worker, origin: string): Promise<readonly Figure[]> {
  await using folder = await mkdtempDisposable(join(tmpdir(), 'bench-client-'))
  const command = [
    'src/client/resume-process.ts',
    join(folder.path, 'session.json'),
    `${origin}/json`,
  ]
  const callOnce = async (): Promise<number> => {
    await using worker = Worker.start({ command, core: 1 })
    await server.ask({ what: 'counts' })
    await worker.ask({})
    return postsOf(await server.ask({ what: 'counts' }))
  }
  const first = await callOnce()
  const next = await callOnce()
  const unit = 'POSTs for the first call'
  return [
    plainFigure({ name: 'resume/new-session', unit, values: [first] }),
    plainFigure({ name: 'resume/ours', unit, values: [next] }, { atMost: 1 }),
  ]
}

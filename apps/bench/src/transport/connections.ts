import { barText, isMet } from '../bench/figure.ts'
import type { Figure } from '../bench/figure.ts'
import { Worker } from '../bench/worker.ts'
import type { ContenderName } from './contenders.ts'

const NOTIFICATIONS = 1000
const NONE = { atMost: 0 }

/** Connections that are opened for notifications, one after the other, each answered with a body in chunks. */
export async function connectionFigures(
  server: Worker,
  origin: string,
): Promise<readonly Figure[]> {
  const figures: Figure[] = []
  for (const name of ['ours', 'stock'] as const) figures.push(await figureOf(name, server, origin))
  return figures
}

async function figureOf(name: ContenderName, server: Worker, origin: string): Promise<Figure> {
  const command = ['src/transport/contender-process.ts', name, 'notify', origin]
  await using worker = Worker.start({ command, core: 1 })
  await worker.ask({ times: 1 })
  const before = Number(await server.ask({ what: 'connections' }))
  await worker.ask({ times: NOTIFICATIONS })
  const value = Number(await server.ask({ what: 'connections' })) - before
  const figure = { name: `connections/${name}`, unit: `new for ${NOTIFICATIONS} notifications` }
  const plain = { ...figure, value, min: value, max: value }
  return name === 'ours' ? { ...plain, bar: barText(NONE), isMet: isMet(NONE, value) } : plain
}

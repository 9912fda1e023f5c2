import type { BenchOptions, BenchResult } from '../bench/bench-result.ts'
import { Worker } from '../bench/worker.ts'
import { UserError } from '../user-error.ts'
import { compare } from './compare.ts'
import { idleFigures } from './idle.ts'
import { lossFigures } from './loss.ts'
import { ANSWERS } from './protocol.ts'
import { resumeFigures } from './resume.ts'

const PARTS = ['calls', 'loss', 'resume', 'idle']

/** What a tool call costs through a whole client, beside others; and what healing, resuming and waiting cost. */
export async function benchClient(options: BenchOptions): Promise<BenchResult> {
  const parts = partsFrom(options.only)
  await using server = Worker.start({ command: ['src/client/server.ts'], core: 0 })
  const origin = `http://127.0.0.1:${String(await server.ask({ what: 'port' }))}`
  const results: BenchResult[] = []
  for (const answer of parts.has('calls') ? ANSWERS : []) {
    results.push(await compare(answer, origin, options))
  }
  const figures = [
    ...(parts.has('loss') ? await lossFigures(server, origin, options) : []),
    ...(parts.has('resume') ? await resumeFigures(server, origin) : []),
    ...(parts.has('idle') ? await idleFigures(server, origin, options) : []),
  ]
  return {
    figures: [...results.flatMap((result) => result.figures), ...figures],
    invalid: results.flatMap(({ invalid }) => invalid),
  }
}

function partsFrom(only: string | undefined): ReadonlySet<string> {
  if (only !== undefined && !PARTS.includes(only)) {
    throw new UserError(`There is no part "${only}" of client: there is ${PARTS.join(', ')}`)
  }
  return new Set(only === undefined ? PARTS : [only])
}

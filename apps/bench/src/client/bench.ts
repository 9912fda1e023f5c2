import type { BenchOptions, BenchResult } from '../bench/bench-result.ts'
import { Worker } from '../bench/worker.ts'
import { compare } from './compare.ts'
import { idleFigures } from './idle.ts'
import { lossFigures } from './loss.ts'
import { ANSWERS } from './protocol.ts'
import { resumeFigures } from './resume.ts'

/** What a tool call costs through a whole client, beside others; and what healing, resuming and waiting cost. */
export async function benchClient(options: BenchOptions): Promise<BenchResult> {
  await using server = Worker.start({ command: ['src/client/server.ts'], core: 0 })
  const origin = `http://127.0.0.1:${String(await server.ask({ what: 'port' }))}`
  const results: BenchResult[] = []
  for (const answer of ANSWERS) results.push(await compare(answer, origin, options))
  const figures = [
    ...(await lossFigures(server, origin, options)),
    ...(await resumeFigures(server, origin)),
    ...(await idleFigures(server, origin, options)),
  ]
  return {
    figures: [...results.flatMap((result) => result.figures), ...figures],
    invalid: results.flatMap(({ invalid }) => invalid),
  }
}

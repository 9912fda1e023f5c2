import type { BenchOptions, BenchResult } from '../bench/bench-result.ts'
import type { Figure } from '../bench/figure.ts'
import { Worker } from '../bench/worker.ts'
import { numbersFrom } from '../client/checks.ts'

/** Functions and files that one warm call goes through before undici has the request: of these packages, and all. */
export async function pathFigures({ progress }: BenchOptions): Promise<BenchResult> {
  progress('path')
  await using server = Worker.start({ command: ['src/client/server.ts'], core: 0 })
  const url = `http://127.0.0.1:${String(await server.ask({ what: 'port' }))}/json`
  await using worker = Worker.start({ command: ['src/tools/path-process.ts', url], core: 1 })
  const units = ['functions', 'files', 'allFunctions', 'allFiles'] as const
  const told = numbersFrom(await worker.ask({}), units)
  const figures = units.map((name): Figure => {
    const value = told[name]
    return { name: `path/${name}`, unit: 'before undici', value, min: value, max: value }
  })
  return { figures, invalid: [] }
}

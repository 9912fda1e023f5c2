import type { BenchOptions, BenchResult } from '../bench/bench-result.ts'
import { UserError } from '../user-error.ts'
import { callFigures } from './calls.ts'
import { createFigures } from './create.ts'
import { pathFigures } from './path.ts'
import { startFigures } from './start.ts'

const PARTS: ReadonlyMap<string, (options: BenchOptions) => Promise<BenchResult>> = new Map([
  ['calls', callFigures],
  ['create', createFigures],
  ['start', startFigures],
  ['path', pathFigures],
])

/** What a tool of an MCP server costs through LangChain: calling it, making it, finding it. */
export async function benchTools(options: BenchOptions): Promise<BenchResult> {
  const results: BenchResult[] = []
  for (const part of partsFrom(options.only)) results.push(await part(options))
  return {
    figures: results.flatMap(({ figures }) => figures),
    invalid: results.flatMap(({ invalid }) => invalid),
  }
}

function partsFrom(
  only: string | undefined,
): readonly ((options: BenchOptions) => Promise<BenchResult>)[] {
  if (only === undefined) return [...PARTS.values()]
  const part = PARTS.get(only)
  if (part === undefined) {
    throw new UserError(
      `There is no part "${only}" of tools: there is ${[...PARTS.keys()].join(', ')}`,
    )
  }
  return [part]
}

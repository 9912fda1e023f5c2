import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { BenchOptions, BenchResult } from '../bench/bench-result.ts'
import { UserError } from '../user-error.ts'
import { compare } from './compare.ts'
import { startContender } from './contender.ts'
import { WORKLOADS } from './workloads.ts'

/** What the debug-state service does on one core, with tokens and SQLite, beside a bare `node:http` server. */
export async function benchDebugState(options: BenchOptions): Promise<BenchResult> {
  const { only, profileTo } = options
  const workloads = Object.values(WORKLOADS).filter(({ name }) => (only ?? name) === name)
  if (workloads.length === 0) {
    const parts = Object.keys(WORKLOADS).join(', ')
    throw new UserError(`There is no part "${only}" of debugstate: there is ${parts}`)
  }
  await using stack = new AsyncDisposableStack()
  const folder = await mkdtemp(join(tmpdir(), 'bench-debugstate-'))
  stack.defer(() => rm(folder, { recursive: true }))
  const contenders = [
    stack.use(await startContender('control', { folder })),
    stack.use(await startContender('sqlite-normal', { folder, profileTo })),
    stack.use(await startContender('sqlite-full', { folder })),
  ]
  const results: BenchResult[] = []
  for (const workload of workloads) results.push(await compare(workload, contenders, options))
  return {
    figures: results.flatMap(({ figures }) => figures),
    invalid: results.flatMap(({ invalid }) => invalid),
  }
}
